//! Runs the stories in `tests/transcripts/lease` against the machine that ships.
//!
//! A story is a conversation with one candidate, `a`, in blocks: what is told to it, a line `----`, and all that it
//! says. Every timing is 15 s / 10 s / 2 s. `BATON_REWRITE=1 cargo test transcripts` writes down what the
//! machine says now: commit that only if you understand each difference. The form is that of etcd-io/raft's testdata.

use baton::claim::Standing;
use baton::clock::Instant;
use baton::election::lease::Lease;
use baton::election::record::{Intent, LeaseEvent, LeaseRequest, Record, Snapshot, Stamp, Version, Write};
use baton::election::timing::{Drift, Durations, Jitter, Timing};
use baton::election::{Election, Reason, Transition, Withdrawal};
use baton::identity::Identity;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

#[test]
fn the_lease_machine_says_what_its_stories_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/lease");
    let rewrite = std::env::var_os("BATON_REWRITE").is_some();
    let mut stories: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    stories.sort();
    assert!(stories.len() >= 20, "only {} stories in {}", stories.len(), folder.display());
    let mut differing = Vec::new();
    for path in stories {
        let text = fs::read_to_string(&path).unwrap();
        let told = retell(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if told == text {
            continue;
        }
        if rewrite {
            fs::write(&path, told).unwrap();
        } else {
            differing.push(format!("{}:\n{}", path.display(), first_difference(&text, &told)));
        }
    }
    assert!(differing.is_empty(), "stories differ:\n{}", differing.join("\n"));
}

fn first_difference(expected: &str, told: &str) -> String {
    let mut lines = expected.lines().zip(told.lines()).enumerate();
    match lines.find(|(_, (expected, told))| expected != told) {
        Some((at, (expected, told))) => format!("  line {}\n  - {expected}\n  + {told}", at + 1),
        None => format!("  {} lines and {} lines", expected.lines().count(), told.lines().count()),
    }
}

/// The story with all that the machine says now.
fn retell(text: &str) -> Result<String, String> {
    let mut stage = Stage::new();
    let mut told = String::new();
    let mut is_answer = false;
    for line in text.lines() {
        if is_answer {
            is_answer = !line.is_empty();
            if is_answer {
                continue;
            }
        }
        told.push_str(line);
        told.push('\n');
        if line == "----" {
            told.push_str(&stage.take_said());
            is_answer = true;
        } else if !line.is_empty() && !line.starts_with('#') {
            stage.tell(line).map_err(|error| format!("{line:?}: {error}"))?;
        }
    }
    Ok(told)
}

/// One candidate, and what was last asked of its store.
struct Stage {
    machine: Lease,
    now: Instant,
    asked: Option<Write>,
    said: String,
    standing: String,
}

impl Stage {
    fn new() -> Self {
        let durations = Durations {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            answer_validity: Duration::from_secs(2),
        };
        let timing = Timing::new(durations, Drift::default()).expect("client-go's defaults pass");
        let now = Instant::since_boot(Duration::ZERO);
        let machine = Lease::new(Identity::parse("a").unwrap(), timing, Jitter::new(1), now);
        Self { machine, now, asked: None, said: String::new(), standing: "unknown".to_owned() }
    }

    /// Takes one line, such as `at 2s read: b v7 15s`, and notes what the machine makes of it.
    fn tell(&mut self, line: &str) -> Result<(), String> {
        let line = line.strip_prefix("at ").ok_or("a line begins with `at TIME`")?;
        let (time, what) = line.split_once(' ').ok_or("after the time comes what happens")?;
        let time = humantime::parse_duration(time).map_err(|error| error.to_string())?;
        let now = Instant::since_boot(time);
        if now < self.now {
            return Err("time does not go back".to_owned());
        }
        self.now = now;
        let (verb, rest) = what.split_once(": ").unwrap_or((what, ""));
        match verb {
            "nothing happens" => self.machine.handle_timeout(now),
            "campaign" => self.machine.campaign(now),
            "withdraw" => self.machine.withdraw(Withdrawal::Renewing),
            "withdraw for a release" => self.machine.withdraw(Withdrawal::Releasing),
            "release" => self.machine.release(Reason::Shutdown, now),
            "read" => self.machine.handle_event(LeaseEvent::Read(record(rest)?), now),
            "noticed" => self.machine.handle_event(LeaseEvent::Noticed(record(rest)?), now),
            "applied" => {
                let event = LeaseEvent::Applied(self.written(rest)?);
                self.machine.handle_event(event, now);
            }
            "conflict" => self.machine.handle_event(LeaseEvent::Conflict, now),
            "unknown" => self.machine.handle_event(LeaseEvent::Unknown, now),
            other => return Err(format!("{other:?} is not known")),
        }
        self.listen();
        Ok(())
    }

    /// Writes down all that the machine says, as the driver would hear it.
    fn listen(&mut self) {
        let request = self.machine.poll_request(self.now);
        while let Some(transition) = self.machine.poll_transition() {
            writeln!(self.said, "{}", spell_transition(&transition)).unwrap();
        }
        let standing = spell_standing(&self.machine.standing());
        if standing != self.standing {
            writeln!(self.said, "is {standing}").unwrap();
            self.standing = standing;
        }
        if let Some(request) = request {
            writeln!(self.said, "{}", spell_request(&request)).unwrap();
            self.asked = match request {
                LeaseRequest::Read => None,
                LeaseRequest::Write(write) => Some(write),
            };
        }
    }

    /// What was said since the last time, and when the machine wants to be woken.
    fn take_said(&mut self) -> String {
        let mut said = std::mem::take(&mut self.said);
        if let Some((due, timer)) = self.machine.poll_timeout() {
            writeln!(said, "wakes at {} ({timer:?})", spell_instant(due)).unwrap();
        }
        said
    }

    /// The record that the last write leaves behind, under the version in `text`.
    fn written(&self, text: &str) -> Result<Snapshot, String> {
        let write = self.asked.as_ref().ok_or("nothing was written")?;
        let number = number(text)?;
        let uid = write.over.as_ref().map_or_else(|| "uid-a".into(), |over| over.uid.clone());
        let record = Record {
            holder: write.holder.clone(),
            duration: Some(write.duration),
            transitions: write.transitions,
            acquired: Stamp::default(),
            renewed: Stamp(text.to_owned()),
        };
        Ok(Snapshot { version: Version { uid, number }, record })
    }
}

/// A record such as `b v7 15s`: holder (`nobody`), version, duration (`-` where it says none), then, where they matter,
/// `renewed=v6` for a record that only a stranger edited since v6, and `uid=other` for another record.
fn record(text: &str) -> Result<Option<Snapshot>, String> {
    if text == "none" {
        return Ok(None);
    }
    let mut words = text.split(' ');
    let (Some(holder), Some(version), Some(duration)) = (words.next(), words.next(), words.next()) else {
        return Err("a record is HOLDER VERSION DURATION, or none".to_owned());
    };
    let mut renewed = version;
    let mut uid = "uid-a";
    for word in words {
        match word.split_once('=') {
            Some(("renewed", value)) => renewed = value,
            Some(("uid", value)) => uid = value,
            _ => return Err(format!("{word:?} is not known")),
        }
    }
    let holder = Some(holder).filter(|holder| *holder != "nobody");
    let duration = Some(duration).filter(|duration| *duration != "-");
    Ok(Some(Snapshot {
        version: Version { uid: uid.into(), number: number(version)? },
        record: Record {
            holder: holder.map(|holder| Identity::parse(holder).unwrap()),
            duration: duration.map(humantime::parse_duration).transpose().map_err(|error| error.to_string())?,
            transitions: 0,
            acquired: Stamp::default(),
            renewed: Stamp(renewed.to_owned()),
        },
    }))
}

fn number(version: &str) -> Result<u128, String> {
    let digits = version.strip_prefix('v').ok_or("a version is v and a number")?;
    digits.parse().map_err(|_| "a version is v and a number".to_owned())
}

fn spell_transition(transition: &Transition) -> String {
    match transition {
        Transition::Following { leader: Some(leader) } => format!("follows {leader}"),
        Transition::Following { leader: None } => "follows nobody".to_owned(),
        Transition::Leading { token } => format!("leads, token {token}"),
        Transition::Lost { token, reason } => format!("lost token {token}: {reason}"),
        Transition::StoreWentBack { token, version } => {
            format!("sees that the store went back, from {token} to {version}")
        }
        Transition::Resigned { token, reason } => format!("gave back token {token}: {reason}"),
    }
}

fn spell_standing(standing: &Standing) -> String {
    match standing {
        Standing::Unknown => "unknown".to_owned(),
        Standing::Following { leader: Some(leader) } => format!("following {leader}"),
        Standing::Following { leader: None } => "following nobody".to_owned(),
        Standing::Leading(claim) => format!("leading until {}", spell_instant(claim.deadline())),
        Standing::Resigning(claim) => format!("resigning, and holds it until {}", spell_instant(claim.deadline())),
    }
}

fn spell_request(request: &LeaseRequest) -> String {
    let LeaseRequest::Write(write) = request else { return "> read".to_owned() };
    let over = write.over.as_ref().map_or_else(|| "create".to_owned(), |over| format!("replace v{}", over.number));
    let intent = match write.intent {
        Intent::Acquire => "acquire",
        Intent::Renew => "renew",
        Intent::Release => "release",
    };
    let holder = write.holder.as_ref().map_or("nobody", Identity::as_str);
    format!("> {over} to {intent}: {holder} {:?} transitions {}", write.duration, write.transitions)
}

fn spell_instant(instant: Instant) -> String {
    let elapsed = instant.elapsed_since_boot();
    // To the millisecond: what is below comes from chance.
    format!("{}.{:03}s", elapsed.as_secs(), elapsed.subsec_millis())
}
