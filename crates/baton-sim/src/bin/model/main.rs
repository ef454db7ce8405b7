//! Checks every path through small models of the machines that ship: `make prove MODEL=lease`, or
//! `zookeeper`.
//!
//! Within its bounds it covers each order of turns, requests, replies, and timeouts, each clock at
//! the limits of the drift, and pauses of any length. The bounds are the constants below, and are
//! printed with the results. Start with `record.rs`.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the result goes to stdout, the progress to stderr"
)]
#![expect(clippy::disallowed_methods, reason = "the duration of a run is measured in real time")]

mod candidates;
mod ensemble;
mod record;
mod session;

use candidates::{ClockRates, Memory};
use record::RecordModel;
use session::SessionModel;
use stateright::report::WriteReporter;
use stateright::{Checker, Expectation, HasDiscoveries, Model};
use std::env;
use std::fmt::Debug;
use std::hash::Hash;
use std::io::stderr;
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "model short|long [lease|zookeeper]";

/// Only pauses, lost and late replies, and clocks that disagree. The time suffices for the slowest
/// leader to stop and the fastest follower to begin.
const RECORD: RecordModel = RecordModel {
    candidates: 2,
    clocks: ClockRates::All,
    steps: 2,
    writes: 2,
    watch_events: false,
    late_writes: false,
    crashes: 0,
    releases: 0,
    deletions: 0,
    memory: Memory::Nothing,
};
const SESSION: SessionModel = SessionModel {
    candidates: 2,
    clocks: ClockRates::All,
    steps: 2,
    sessions: 2,
    late_requests: false,
    prompt_replies: false,
    starts_joined: false,
    partitions: 0,
    crashes: 0,
    releases: 0,
    deletions: 0,
    memory: Memory::Nothing,
};

/// The most transitions that are explored per short model, which takes less than a minute.
const MAX_TRANSITIONS: usize = 3_000_000;

/// Models for `short`, explored completely or up to [`MAX_TRANSITIONS`].
const SHORT_RECORDS: &[RecordModel] = &[
    RecordModel { steps: 1, writes: 3, watch_events: true, releases: 1, ..RECORD },
    RecordModel { late_writes: true, ..RECORD },
    RecordModel { writes: 3, crashes: 1, memory: Memory::EndedRun, ..RECORD },
];
const SHORT_SESSIONS: &[SessionModel] = &[
    SessionModel { steps: 1, releases: 1, ..SESSION },
    SessionModel { partitions: 1, ..SESSION },
    SessionModel {
        clocks: ClockRates::Worst,
        prompt_replies: true,
        starts_joined: true,
        sessions: 3,
        crashes: 1,
        memory: Memory::EndedRun,
        ..SESSION
    },
];

/// Models for `long`, explored completely. `docs/internals/model.md` lists the number of states of
/// each.
const LONG_RECORDS: &[RecordModel] = &[
    RecordModel { late_writes: true, crashes: 1, ..RECORD },
    RecordModel { writes: 3, crashes: 1, memory: Memory::EndedRun, ..RECORD },
    RecordModel {
        steps: 1,
        writes: 3,
        late_writes: true,
        crashes: 1,
        memory: Memory::EndedRun,
        ..RECORD
    },
    RecordModel { writes: 3, ..RECORD },
    RecordModel { writes: 3, releases: 1, ..RECORD },
    RecordModel { watch_events: true, deletions: 1, ..RECORD },
    RecordModel { watch_events: true, late_writes: true, ..RECORD },
    RecordModel { steps: 1, writes: 3, watch_events: true, releases: 1, ..RECORD },
    RecordModel { steps: 3, late_writes: true, ..RECORD },
    RecordModel { candidates: 3, steps: 1, ..RECORD },
    RecordModel { candidates: 3, clocks: ClockRates::Worst, ..RECORD },
];
const LONG_SESSIONS: &[SessionModel] = &[
    SessionModel { steps: 1, late_requests: true, ..SESSION },
    SessionModel { steps: 1, releases: 1, ..SESSION },
    SessionModel { steps: 1, crashes: 1, ..SESSION },
    SessionModel { clocks: ClockRates::Worst, steps: 1, partitions: 1, ..SESSION },
    SessionModel { clocks: ClockRates::Worst, steps: 1, deletions: 1, ..SESSION },
    SessionModel { clocks: ClockRates::Worst, ..SESSION },
    SessionModel { clocks: ClockRates::Worst, prompt_replies: true, partitions: 1, ..SESSION },
    SessionModel {
        clocks: ClockRates::Worst,
        prompt_replies: true,
        starts_joined: true,
        sessions: 3,
        crashes: 1,
        ..SESSION
    },
    SessionModel {
        clocks: ClockRates::Worst,
        prompt_replies: true,
        starts_joined: true,
        sessions: 3,
        crashes: 1,
        memory: Memory::EndedRun,
        ..SESSION
    },
    SessionModel {
        clocks: ClockRates::Worst,
        prompt_replies: true,
        starts_joined: true,
        sessions: 3,
        releases: 1,
        ..SESSION
    },
    SessionModel {
        clocks: ClockRates::Worst,
        prompt_replies: true,
        starts_joined: true,
        steps: 3,
        ..SESSION
    },
    SessionModel {
        clocks: ClockRates::Worst,
        prompt_replies: true,
        starts_joined: true,
        candidates: 3,
        sessions: 3,
        ..SESSION
    },
];

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let (records, sessions) = match arguments.first() {
        Some(&"short") => (SHORT_RECORDS, SHORT_SESSIONS),
        Some(&"long") => (LONG_RECORDS, LONG_SESSIONS),
        Some(_) | None => return usage_error(),
    };
    let limit = (arguments[0] == "short").then_some(MAX_TRANSITIONS);
    let holds = match arguments[1..] {
        [] => check_all("lease", records, limit) && check_all("zookeeper", sessions, limit),
        ["lease"] => check_all("lease", records, limit),
        ["zookeeper"] => check_all("zookeeper", sessions, limit),
        _ => return usage_error(),
    };
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn usage_error() -> ExitCode {
    eprintln!("usage: {USAGE}");
    ExitCode::from(2)
}

/// Checks each of `models` completely or up to a number of transitions; false on a violation.
fn check_all<M>(machine: &str, models: &[M], limit: Option<usize>) -> bool
where
    M: Model + Debug + Copy + Send + Sync + 'static,
    M::State: Debug + Hash + Send + Sync + Clone + PartialEq,
    M::Action: Debug + Send + Sync + Clone + PartialEq,
{
    let started_at = Instant::now();
    let mut total = 0;
    for model in models {
        println!("model: {machine}: {model:?}");
        let Some(states) = check_one(*model, limit) else { return false };
        total += states;
    }
    let seconds = started_at.elapsed().as_secs_f64();
    println!(
        "model: {machine}: {total} states in {seconds:.0} s, peak memory {} MB: no violation",
        memory()
    );
    true
}

/// Checks one model depth-first and returns its number of states, or `None` on a violation.
fn check_one<M>(model: M, limit: Option<usize>) -> Option<usize>
where
    M: Model + Debug + Send + Sync + 'static,
    M::State: Debug + Hash + Send + Sync + Clone + PartialEq,
    M::Action: Debug + Send + Sync + Clone + PartialEq,
{
    let checker = model.checker().finish_when(HasDiscoveries::AnyFailures);
    let checker = if let Some(limit) = limit { checker.target_state_count(limit) } else { checker };
    let checker = checker.spawn_dfs();
    let is_incomplete = |count: usize| limit.is_some_and(|limit| count >= limit);
    let checker = checker.report(&mut WriteReporter::new(&mut stderr()));
    for property in checker.model().properties() {
        let found = checker.discovery(property.name);
        let must_be_reachable = match property.expectation {
            Expectation::Sometimes => true,
            Expectation::Always | Expectation::Eventually => false,
        };
        // A state that must be reachable may lie beyond the limit.
        let is_beyond = must_be_reachable && is_incomplete(checker.state_count());
        if must_be_reachable != found.is_some() && !is_beyond {
            let path = found.map(stateright::Path::into_actions).unwrap_or_default();
            println!(
                "model: violated \"{}\" after {} steps, {} states",
                property.name,
                path.len(),
                checker.unique_state_count()
            );
            for action in &path {
                println!("  {action:?}");
            }
            return None;
        }
    }
    let extent = if is_incomplete(checker.state_count()) { "up to the limit" } else { "complete" };
    println!(
        "model: {} states, {} transitions, {extent}",
        checker.unique_state_count(),
        checker.state_count()
    );
    Some(checker.unique_state_count())
}

/// The peak memory of this process in megabytes; zero where Linux does not report it.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) / 1_000
}
