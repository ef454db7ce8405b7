//! Simulates the machines that ship under faults and checks every property: `make prove`.
//!
//! Each seed is one scenario. A failing scenario is shrunk and printed in the notation of the
//! transcripts, with the command that replays it. Start with [`hunt::hunt`].
#![expect(clippy::print_stderr, reason = "usage errors go to stderr")]

use baton_sim::hunt;
use baton_sim::hunt::StopAfter;
use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "prove [--seeds N | --minutes N | --traces N] [--from SEED] [--trace FILE], or prove --replay \
     SEED [--trace FILE]";

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let Some(command) = parse(&arguments) else {
        eprintln!("usage: {USAGE}");
        return ExitCode::from(2);
    };
    match command {
        Command::Replay { seed, trace } => hunt::replay(seed, trace.as_deref()),
        Command::Traces { from, seeds } => hunt::print_trace_hashes(from, seeds),
        Command::Hunt { from, stop_after, trace } if hunt::limits_match_theory() => {
            hunt::hunt(from, stop_after, trace.as_deref())
        }
        Command::Hunt { .. } => {
            eprintln!("prove: the limit of an assumption is not where theory puts it");
            ExitCode::FAILURE
        }
    }
}

/// The command that the arguments select.
enum Command {
    Hunt { from: u64, stop_after: StopAfter, trace: Option<PathBuf> },
    Traces { from: u64, seeds: u64 },
    Replay { seed: u64, trace: Option<PathBuf> },
}

fn parse(arguments: &[String]) -> Option<Command> {
    let (mut stop_after, mut from, mut traces, mut replay, mut trace) =
        (StopAfter::Seeds(100_000), 0, None, None, None);
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { return None };
        if name == "--trace" {
            trace = Some(PathBuf::from(value));
            continue;
        }
        let number: u64 = value.parse().ok()?;
        match name.as_str() {
            "--seeds" => stop_after = StopAfter::Seeds(number),
            "--minutes" => stop_after = StopAfter::Time(Duration::from_mins(number)),
            "--from" => from = number,
            "--traces" => traces = Some(number),
            "--replay" => replay = Some(number),
            _ => return None,
        }
    }
    Some(match (replay, traces) {
        (Some(seed), _) => Command::Replay { seed, trace },
        (None, Some(seeds)) => Command::Traces { from, seeds },
        (None, None) => Command::Hunt { from, stop_after, trace },
    })
}
