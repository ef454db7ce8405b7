//! Goes through every path of small worlds with the machines that ship: `make prove MODEL=lease`, or `zookeeper`.
//!
//! Where `crates/baton-sim` draws worlds, this leaves nothing out within its bounds: each order of turns, requests, replies and
//! time-outs, each clock as slow or as fast as the drift allows, processes that stand still as long as they like. Start with
//! `record.rs`; the bounds stand below, and are printed with what was counted.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what was seen, and where it fails, is the product"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "how long a run takes is measured by a clock of its own"
)]

mod candidates;
mod ensemble;
mod record;
mod session;

use candidates::Clocks;
use stateright::report::WriteReporter;
use stateright::{Checker, Expectation, HasDiscoveries, Model};
use std::env;
use std::fmt::Debug;
use std::hash::Hash;
use std::io::stderr;
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "model short|long [lease|zookeeper]";

/// Nothing but pauses, lost and late replies, and clocks that disagree: long enough for the slowest leader to stop and the fastest
/// follower to begin.
const RECORD: record::World = record::World {
    candidates: 2,
    clocks: Clocks::All,
    steps: 2,
    writes: 2,
    news: false,
    late: false,
    crashes: 0,
    releases: 0,
    deletions: 0,
};
const SESSION: session::World = session::World {
    candidates: 2,
    clocks: Clocks::All,
    steps: 2,
    sessions: 2,
    late: false,
    prompt: false,
    joined: false,
    cuts: 0,
    crashes: 0,
    releases: 0,
    deletions: 0,
};

/// How many ways into states of each of the short worlds are looked at: as many as take less than a minute.
const FIRST: usize = 3_000_000;

/// Seen to the end, or as far as that.
const SHORT_RECORDS: &[record::World] = &[
    record::World { steps: 1, writes: 3, news: true, releases: 1, ..RECORD },
    record::World { late: true, ..RECORD },
];
const SHORT_SESSIONS: &[session::World] =
    &[session::World { steps: 1, releases: 1, ..SESSION }, session::World { cuts: 1, ..SESSION }];

/// FaultKind takes as long as it takes, but ends: `docs/safety.md` has how many states each has.
const LONG_RECORDS: &[record::World] = &[
    record::World { late: true, crashes: 1, ..RECORD },
    record::World { writes: 3, ..RECORD },
    record::World { writes: 3, releases: 1, ..RECORD },
    record::World { news: true, deletions: 1, ..RECORD },
    record::World { news: true, late: true, ..RECORD },
    record::World { steps: 3, late: true, ..RECORD },
    record::World { candidates: 3, steps: 1, ..RECORD },
    record::World { candidates: 3, clocks: Clocks::Worst, ..RECORD },
];
const LONG_SESSIONS: &[session::World] = &[
    session::World { steps: 1, late: true, ..SESSION },
    session::World { steps: 1, releases: 1, ..SESSION },
    session::World { steps: 1, crashes: 1, ..SESSION },
    session::World { clocks: Clocks::Worst, steps: 1, cuts: 1, ..SESSION },
    session::World { clocks: Clocks::Worst, steps: 1, deletions: 1, ..SESSION },
    session::World { clocks: Clocks::Worst, ..SESSION },
    session::World { clocks: Clocks::Worst, prompt: true, cuts: 1, ..SESSION },
    session::World {
        clocks: Clocks::Worst,
        prompt: true,
        joined: true,
        sessions: 3,
        crashes: 1,
        ..SESSION
    },
    session::World {
        clocks: Clocks::Worst,
        prompt: true,
        joined: true,
        sessions: 3,
        releases: 1,
        ..SESSION
    },
    session::World { clocks: Clocks::Worst, prompt: true, joined: true, steps: 3, ..SESSION },
    session::World {
        clocks: Clocks::Worst,
        prompt: true,
        joined: true,
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
        Some(_) | None => return misused(),
    };
    let first = (arguments[0] == "short").then_some(FIRST);
    let holds = match arguments[1..] {
        [] => see("lease", records, first) && see("zookeeper", sessions, first),
        ["lease"] => see("lease", records, first),
        ["zookeeper"] => see("zookeeper", sessions, first),
        _ => return misused(),
    };
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn misused() -> ExitCode {
    eprintln!("usage: {USAGE}");
    ExitCode::from(2)
}

/// Sees each of `worlds` to its end, or its `first` ways; false where something does not hold.
fn see<M>(machine: &str, worlds: &[M], first: Option<usize>) -> bool
where
    M: Model + Debug + Copy + Send + Sync + 'static,
    M::State: Debug + Hash + Send + Sync + Clone + PartialEq,
    M::Action: Debug + Send + Sync + Clone + PartialEq,
{
    let begun = Instant::now();
    let mut all = 0;
    for world in worlds {
        println!("model: {machine}: {world:?}");
        let Some(states) = see_one(*world, first) else { return false };
        all += states;
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "model: {machine}: {all} states in {seconds:.0} s, {} MB at the most: all holds",
        memory()
    );
    true
}

/// Goes through one world, path by path, and returns how many states it has; none where something does not hold.
fn see_one<M>(world: M, first: Option<usize>) -> Option<usize>
where
    M: Model + Debug + Send + Sync + 'static,
    M::State: Debug + Hash + Send + Sync + Clone + PartialEq,
    M::Action: Debug + Send + Sync + Clone + PartialEq,
{
    let checker = world.checker().finish_when(HasDiscoveries::AnyFailures);
    let checker = if let Some(first) = first { checker.target_state_count(first) } else { checker };
    let checker = checker.spawn_dfs();
    let is_cut_short = |seen: usize| first.is_some_and(|first| seen >= first);
    let checker = checker.report(&mut WriteReporter::new(&mut stderr()));
    for property in checker.model().properties() {
        let found = checker.discovery(property.name);
        let is_hoped_for = match property.expectation {
            Expectation::Sometimes => true,
            Expectation::Always | Expectation::Eventually => false,
        };
        // FaultKind is hoped for may lie beyond.
        let is_beyond = is_hoped_for && is_cut_short(checker.state_count());
        if is_hoped_for != found.is_some() && !is_beyond {
            let path = found.map(stateright::Path::into_actions).unwrap_or_default();
            println!(
                "model: after {} states, {} steps: {} does not hold",
                checker.unique_state_count(),
                path.len(),
                property.name
            );
            for action in &path {
                println!("  {action:?}");
            }
            return None;
        }
    }
    let how = if is_cut_short(checker.state_count()) { "the first of them" } else { "all of them" };
    println!(
        "model: {} states, {} ways into them: {how}",
        checker.unique_state_count(),
        checker.state_count()
    );
    Some(checker.unique_state_count())
}

/// The most memory that this process has had, in megabytes; zero where Linux does not tell.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) / 1_000
}
