//! `room`: how many test cases this machine can run at once under its current load.
//!
//! `make test` and `tests/e2e/run.sh` pass the result to libtest. It measures for two seconds.

#![expect(
    clippy::disallowed_methods,
    reason = "not part of Baton: it measures the machine with its own clock"
)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it prints a number, and how it was computed"
)]

#[path = "../noise/sampler.rs"]
mod sampler;

use clap::Parser;
use sampler::{Sampler, processors};
use std::thread;
use std::time::{Duration, Instant};

/// How long to measure.
const SPAN: Duration = Duration::from_secs(2);

/// Print how many test cases this machine can run at once
#[derive(Parser)]
#[command(name = "room")]
struct Flags {
    /// Cases per idle processor
    per_processor: f64,
}

fn main() {
    let Flags { per_processor } = Flags::parse();
    let (begun, sampler) = (Instant::now(), Sampler::begin());
    thread::sleep(SPAN);
    let (lost, crowd, processors) = (sampler.lost(begun), sampler.crowd(begun), processors());
    let room = cases(per_processor, processors, crowd, lost);
    eprintln!(
        "room: {processors} processors, {crowd:.1} runnable tasks per processor, late by {lost:.0?} within a second: \
         {room} cases at once"
    );
    println!("{room}");
}

/// The number of cases for the processor time that `crowd` tasks per processor and late wake-ups
/// leave.
fn cases(per_processor: f64, processors: f64, crowd: f64, lost: Duration) -> f64 {
    let share = processors / (1.0 + crowd);
    let kept = (1.0 - lost.as_secs_f64()).max(0.0);
    (per_processor * share * kept).ceil().max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_and_late_wake_ups_reduce_the_number() {
        let ms = Duration::from_millis;
        let on_two = |crowd, lost| cases(3.0, 2.0, crowd, ms(lost)).to_string();
        assert_eq!(on_two(0.0, 20), "6");
        assert_eq!(on_two(2.0, 20), "2");
        assert_eq!(on_two(2.0, 600), "1");
        assert_eq!(on_two(0.0, 5000), "1");
        assert_eq!(cases(3.0, 16.0, 0.1, ms(20)).to_string(), "43");
    }
}
