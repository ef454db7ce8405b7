//! Replays the transcripts beside this file against the election state machines.
//!
//! A transcript drives one candidate, `a`. Each block is a list of inputs, a line `----`, and the
//! candidate's output; comments start with `#`. All transcripts use client-go's durations, 15 s,
//! 10 s, and 2 s. The format follows etcd-io/raft's testdata. `lease.rs` and `zookeeper.rs` parse
//! inputs and format requests. Start with [`replay`].
//!
//! `BATON_REWRITE=1 cargo test --test transcripts` rewrites the output of every transcript. Commit
//! the result only if you understand each difference.
//!
//! The tests link only the state machines, so cargo-mutants builds and runs them in seconds.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![expect(clippy::disallowed_methods, reason = "the tests read transcripts; the crate does not")]

mod lease;
mod zookeeper;

use baton_election::claim::Standing;
use baton_election::ended_run::EndedRun;
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::machine::{Election, Reason, Withdrawal};
use baton_election::timing::{Drift, Durations, Timing};
use baton_election::transcript;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// An election that transcripts can drive.
trait TranscriptElection: Election {
    /// State that later lines of a transcript need from earlier ones.
    type Context: Default;

    /// The candidate `a` at time zero, before any event.
    fn candidate() -> Self;

    /// The candidate `a` at time zero, with this preference.
    fn standing_after(stand_after: Duration) -> Result<Self, String>
    where
        Self: Sized;

    /// The candidate `a` at time zero after this run, described as in the transcripts.
    fn after(ended_run: &str) -> Result<Self, String>
    where
        Self: Sized;

    /// Parses the input `verb: arguments` into an event; `request` is the candidate's last request.
    fn event(
        context: &mut Self::Context,
        request: Option<&Self::Request>,
        verb: &str,
        arguments: &str,
    ) -> Result<Self::Event, String>;

    /// Formats `request` as one line of output.
    fn format(context: &Self::Context, request: &Self::Request) -> String;
}

#[test]
fn lease_election_matches_its_transcripts() {
    replay_all::<baton_election::record::RecordElection>("lease", 20);
}

#[test]
fn zookeeper_election_matches_its_transcripts() {
    replay_all::<baton_election::queue::QueueElection>("zookeeper", 40);
}

/// Replays all transcripts in `folder`, which must hold at least `min_count` of them.
fn replay_all<E: TranscriptElection>(folder: &str, min_count: usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts").join(folder);
    let rewrite = std::env::var_os("BATON_REWRITE").is_some();
    let mut paths: Vec<_> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= min_count, "only {} files in {}", paths.len(), folder.display());
    let mut differences = Vec::new();
    for path in paths {
        let expected = fs::read_to_string(&path).unwrap();
        let actual =
            replay::<E>(&expected).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if actual == expected {
            continue;
        }
        if rewrite {
            fs::write(&path, actual).unwrap();
        } else {
            let difference = first_difference(&expected, &actual);
            differences.push(format!("{}:\n{difference}", path.display()));
        }
    }
    assert!(differences.is_empty(), "transcripts differ:\n{}", differences.join("\n"));
}

fn first_difference(expected: &str, actual: &str) -> String {
    let mut lines = expected.lines().zip(actual.lines()).enumerate();
    let difference = lines.find(|(_, (expected, actual))| expected != actual);
    if let Some((index, (expected, actual))) = difference {
        return format!("  line {}\n  - {expected}\n  + {actual}", index + 1);
    }
    let (expected, actual) = (expected.lines().count(), actual.lines().count());
    format!("  expected {expected} lines, got {actual}")
}

/// Runs the inputs of a transcript and returns it with the actual output.
fn replay<E: TranscriptElection>(text: &str) -> Result<String, String> {
    let mut runner = Runner::<E>::new();
    let mut actual = String::new();
    let mut is_output = false;
    for line in text.lines() {
        if is_output {
            is_output = !line.is_empty();
            if is_output {
                continue;
            }
        }
        actual.push_str(line);
        actual.push('\n');
        if line == "----" {
            actual.push_str(&runner.take_output());
            is_output = true;
        } else if !line.is_empty() && !line.starts_with('#') {
            runner.run(line).map_err(|error| format!("{line:?}: {error}"))?;
        }
    }
    Ok(actual)
}

/// One candidate with the state of its transcript.
struct Runner<E: TranscriptElection> {
    machine: E,
    context: E::Context,
    now: Instant,
    last_request: Option<E::Request>,
    output: String,
    standing: String,
}

impl<E: TranscriptElection> Runner<E> {
    fn new() -> Self {
        Self {
            machine: E::candidate(),
            context: E::Context::default(),
            now: Instant::since_boot(Duration::ZERO),
            last_request: None,
            output: String::new(),
            standing: "unknown".to_owned(),
        }
    }

    /// Runs one input, such as `at 2s read: b v7 15s`, and records the candidate's output.
    fn run(&mut self, input: &str) -> Result<(), String> {
        let input = input.strip_prefix("at ").ok_or("an input begins with `at TIME`")?;
        let (time, event) = input.split_once(' ').ok_or("an event must follow the time")?;
        let now = instant(time)?;
        if now < self.now {
            return Err("time must not decrease".to_owned());
        }
        self.now = now;
        let (verb, arguments) = event.split_once(": ").unwrap_or((event, ""));
        match verb {
            "nothing happens" => self.machine.handle_timeout(now),
            "stand after" => {
                self.machine = E::standing_after(duration(arguments)?)?;
            }
            "ended run" => self.machine = E::after(arguments)?,
            "campaign" if arguments.is_empty() => self.machine.campaign(now),
            "campaign from" => self.machine.campaign(instant(arguments)?),
            "withdraw" => self.machine.withdraw(Withdrawal::Renewing),
            "withdraw for a release" => self.machine.withdraw(Withdrawal::Releasing),
            "release" => self.machine.release(Reason::Shutdown, now),
            verb => {
                let request = self.last_request.as_ref();
                let event = E::event(&mut self.context, request, verb, arguments)?;
                self.machine.handle_event(event, now);
            }
        }
        self.record_output();
        Ok(())
    }

    /// Polls the candidate in the driver's order.
    fn record_output(&mut self) {
        let request = self.machine.poll_request(self.now);
        while let Some(transition) = self.machine.poll_transition() {
            writeln!(self.output, "{}", transcript::transition(&transition)).unwrap();
        }
        let standing = format_standing(&self.machine.standing());
        if standing != self.standing {
            writeln!(self.output, "is {standing}").unwrap();
            self.standing = standing;
        }
        if let Some(request) = request {
            writeln!(self.output, "> {}", E::format(&self.context, &request)).unwrap();
            self.last_request = Some(request);
        }
    }

    /// Takes the output since the last call and appends the candidate's next timeout.
    fn take_output(&mut self) -> String {
        let mut output = std::mem::take(&mut self.output);
        if let Some((due, timer)) = self.machine.poll_timeout() {
            writeln!(output, "wakes at {} ({timer:?})", transcript::instant(due)).unwrap();
        }
        output
    }
}

/// The timing of all transcripts.
fn timing() -> Timing {
    let durations = Durations {
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
        answer_validity: Duration::from_secs(2),
    };
    Timing::new(durations, Drift::default()).expect("client-go's defaults are valid")
}

/// Parses `IDENTITY until TIME`.
fn ended_run(text: &str) -> Result<EndedRun, String> {
    let (identity, until) = text.split_once(" until ").ok_or("a run is `IDENTITY until TIME`")?;
    let identity = Identity::parse(identity).map_err(|error| error.to_string())?;
    Ok(EndedRun { identity, promised_until: instant(until)? })
}

fn instant(text: &str) -> Result<Instant, String> {
    duration(text).map(Instant::since_boot)
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| error.to_string())
}

fn format_standing(standing: &Standing) -> String {
    match standing {
        Standing::Unknown => "unknown".to_owned(),
        Standing::Following { leader: Some(leader) } => format!("following {leader}"),
        Standing::Following { leader: None } => "following no leader".to_owned(),
        Standing::Leading(claim) => {
            format!("leading until {}", transcript::instant(claim.deadline()))
        }
        Standing::Resigning(claim) => {
            format!("resigning, with a claim until {}", transcript::instant(claim.deadline()))
        }
    }
}
