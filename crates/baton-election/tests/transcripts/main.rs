//! Runs the stories in the folders beside this file against the machines that ship.
//!
//! A story is a conversation with one candidate, `a`, in blocks: what is told to it, a line `----`, and all that it
//! says. Every timing is 15 s / 10 s / 2 s. `BATON_REWRITE=1 cargo test --test transcripts` writes down what
//! the machine says now: commit that only if you understand each difference. The form is that of etcd-io/raft's testdata.
//! What is told to each machine, and how its requests read, stands in `lease.rs` and `zookeeper.rs`.
//! It needs the pure half alone, so that a change of a machine is judged within seconds: also the many that cargo-mutants makes.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the failure that it has to show")]
#![expect(clippy::disallowed_methods, reason = "the tests read transcripts; the crate does not")]

mod lease;
mod zookeeper;

use baton_election::claim::Standing;
use baton_election::instant::Instant;
use baton_election::machine::{Election, Reason, Withdrawal};
use baton_election::timing::{Drift, Durations, Timing};
use baton_election::transcript;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// A machine that stories can be told to.
trait Spoken: Election {
    /// What a story's later lines need to know of its earlier ones.
    type Memory: Default;

    /// The candidate `a`, who has heard nothing yet.
    fn candidate() -> Self;

    /// What it hears when a line says `verb: rest`, and `asked` was its last request.
    fn event(
        memory: &mut Self::Memory,
        asked: Option<&Self::Request>,
        verb: &str,
        rest: &str,
    ) -> Result<Self::Event, String>;

    /// How `request` reads.
    fn spell(memory: &Self::Memory, request: &Self::Request) -> String;
}

#[test]
fn the_lease_machine_says_what_its_stories_say() {
    retell_all::<baton_election::record::RecordElection>("lease", 20);
}

#[test]
fn the_zookeeper_machine_says_what_its_stories_say() {
    retell_all::<baton_election::queue::QueueElection>("zookeeper", 40);
}

fn retell_all<E: Spoken>(folder: &str, least: usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts").join(folder);
    let rewrite = std::env::var_os("BATON_REWRITE").is_some();
    let mut stories: Vec<_> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    stories.sort();
    assert!(stories.len() >= least, "only {} stories in {}", stories.len(), folder.display());
    let mut differing = Vec::new();
    for path in stories {
        let text = fs::read_to_string(&path).unwrap();
        let told = retell::<E>(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
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
fn retell<E: Spoken>(text: &str) -> Result<String, String> {
    let mut stage = Stage::<E>::new();
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
struct Stage<E: Spoken> {
    machine: E,
    memory: E::Memory,
    now: Instant,
    asked: Option<E::Request>,
    said: String,
    standing: String,
}

impl<E: Spoken> Stage<E> {
    fn new() -> Self {
        let now = Instant::since_boot(Duration::ZERO);
        let (said, standing) = (String::new(), "unknown".to_owned());
        Self {
            machine: E::candidate(),
            memory: E::Memory::default(),
            now,
            asked: None,
            said,
            standing,
        }
    }

    /// Takes one line, such as `at 2s read: b v7 15s`, and notes what the machine makes of it.
    fn tell(&mut self, line: &str) -> Result<(), String> {
        let line = line.strip_prefix("at ").ok_or("a line begins with `at TIME`")?;
        let (time, what) = line.split_once(' ').ok_or("after the time comes what happens")?;
        let now = instant(time)?;
        if now < self.now {
            return Err("time does not go back".to_owned());
        }
        self.now = now;
        let (verb, rest) = what.split_once(": ").unwrap_or((what, ""));
        match verb {
            "nothing happens" => self.machine.handle_timeout(now),
            "campaign" if rest.is_empty() => self.machine.campaign(now),
            "campaign from" => self.machine.campaign(instant(rest)?),
            "withdraw" => self.machine.withdraw(Withdrawal::Renewing),
            "withdraw for a release" => self.machine.withdraw(Withdrawal::Releasing),
            "release" => self.machine.release(Reason::Shutdown, now),
            verb => {
                let event = E::event(&mut self.memory, self.asked.as_ref(), verb, rest)?;
                self.machine.handle_event(event, now);
            }
        }
        self.listen();
        Ok(())
    }

    /// Writes down all that the machine says, as the driver would hear it.
    fn listen(&mut self) {
        let request = self.machine.poll_request(self.now);
        while let Some(transition) = self.machine.poll_transition() {
            writeln!(self.said, "{}", transcript::transition(&transition)).unwrap();
        }
        let standing = spell_standing(&self.machine.standing());
        if standing != self.standing {
            writeln!(self.said, "is {standing}").unwrap();
            self.standing = standing;
        }
        if let Some(request) = request {
            writeln!(self.said, "> {}", E::spell(&self.memory, &request)).unwrap();
            self.asked = Some(request);
        }
    }

    /// What was said since the last time, and when the machine wants to be woken.
    fn take_said(&mut self) -> String {
        let mut said = std::mem::take(&mut self.said);
        if let Some((due, timer)) = self.machine.poll_timeout() {
            writeln!(said, "wakes at {} ({timer:?})", transcript::instant(due)).unwrap();
        }
        said
    }
}

/// The durations of every story.
fn timing() -> Timing {
    let durations = Durations {
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
        answer_validity: Duration::from_secs(2),
    };
    Timing::new(durations, Drift::default()).expect("client-go's defaults pass")
}

fn instant(text: &str) -> Result<Instant, String> {
    humantime::parse_duration(text).map(Instant::since_boot).map_err(|error| error.to_string())
}

fn spell_standing(standing: &Standing) -> String {
    match standing {
        Standing::Unknown => "unknown".to_owned(),
        Standing::Following { leader: Some(leader) } => format!("following {leader}"),
        Standing::Following { leader: None } => "following nobody".to_owned(),
        Standing::Leading(claim) => {
            format!("leading until {}", transcript::instant(claim.deadline()))
        }
        Standing::Resigning(claim) => {
            format!("resigning, and holds it until {}", transcript::instant(claim.deadline()))
        }
    }
}
