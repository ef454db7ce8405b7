//! Attacks the machines that ship, in simulated worlds: `make prove`.
//!
//! Each seed is a world with a storm in it; the judge looks on, and nothing may go wrong. Start with `hunt.rs`. A failure
//! is shrunk and told in the words of the transcripts, with the command that tells it again.
#![expect(clippy::disallowed_methods, reason = "how long a run takes is measured by a clock of its own")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "stories are the product; what is under way is told")]

mod edge;
mod hunt;
mod judge;
mod shrink;
#[path = "../transcripts/spell.rs"]
mod spell;
mod story;

use hunt::Length;
use std::env;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "prove [--seeds N | --minutes N] [--from SEED], or prove --replay SEED";

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let Some((length, from, replay)) = parse(&arguments) else {
        eprintln!("usage: {USAGE}");
        return ExitCode::from(2);
    };
    match replay {
        Some(seed) => hunt::replay(seed),
        None if edge::hold() => hunt::hunt(from, length),
        None => {
            eprintln!("prove: an assumption ends elsewhere than theory says");
            ExitCode::FAILURE
        }
    }
}

/// How long to hunt, from which seed on, or which seed to tell again.
fn parse(arguments: &[String]) -> Option<(Length, u64, Option<u64>)> {
    let (mut length, mut from, mut replay) = (Length::Seeds(100_000), 0, None);
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { return None };
        let number: u64 = value.parse().ok()?;
        match name.as_str() {
            "--seeds" => length = Length::Seeds(number),
            "--minutes" => length = Length::Time(Duration::from_mins(number)),
            "--from" => from = number,
            "--replay" => replay = Some(number),
            _ => return None,
        }
    }
    Some((length, from, replay))
}
