//! Attacks the machines that ship, in simulated worlds: `make prove`.
//!
//! Each seed is a world with a storm in it; the judge looks on, and nothing may go wrong. Start with `hunt.rs`. A failure
//! is shrunk and told in the words of the transcripts, with the command that tells it again.
#![expect(clippy::print_stderr, reason = "a command line that is wrong is told")]

use baton_sim::hunt;
use baton_sim::hunt::Length;
use std::env;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str =
    "prove [--seeds N | --minutes N | --traces N] [--from SEED], or prove --replay SEED";

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let Some(command) = parse(&arguments) else {
        eprintln!("usage: {USAGE}");
        return ExitCode::from(2);
    };
    match command {
        Command::Replay(seed) => hunt::replay(seed),
        Command::Traces { from, seeds } => hunt::traces(from, seeds),
        Command::Hunt { from, length } if hunt::edges_hold() => hunt::hunt(from, length),
        Command::Hunt { .. } => {
            eprintln!("prove: an assumption ends elsewhere than theory says");
            ExitCode::FAILURE
        }
    }
}

/// FaultKind the program is asked to do.
enum Command {
    Hunt { from: u64, length: Length },
    Traces { from: u64, seeds: u64 },
    Replay(u64),
}

fn parse(arguments: &[String]) -> Option<Command> {
    let (mut length, mut from, mut traces, mut replay) = (Length::Seeds(100_000), 0, None, None);
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { return None };
        let number: u64 = value.parse().ok()?;
        match name.as_str() {
            "--seeds" => length = Length::Seeds(number),
            "--minutes" => length = Length::Time(Duration::from_mins(number)),
            "--from" => from = number,
            "--traces" => traces = Some(number),
            "--replay" => replay = Some(number),
            _ => return None,
        }
    }
    Some(match (replay, traces) {
        (Some(seed), _) => Command::Replay(seed),
        (None, Some(seeds)) => Command::Traces { from, seeds },
        (None, None) => Command::Hunt { from, length },
    })
}
