//! Mutants: each algorithm without one of its rules, which the checker must notice.
//!
//! Pure. Every test runs the algorithm and its mutant over the same seeds.

mod baton;
mod bully;
mod fle;
mod kafka;
mod lease;
mod raft;
mod ring;
mod sentinel;
mod stonith;

use baton_classics::draw;
use baton_classics::machine::Algorithm;
use baton_classics::measure::{self, Outcomes};
use baton_classics::scenario::Scenario;

/// How many seeds of drawn scenarios a test runs.
const DRAWN: u64 = 50;

/// The outcomes of runs of `scenario` over some seeds.
fn runs<A: Algorithm + Copy>(
    algorithm: A,
    seeds: u64,
    scenario: impl Fn(u64) -> Scenario,
) -> Outcomes {
    let mut sum = Outcomes::default();
    for seed in 0..seeds {
        sum.add(&measure::run_scenario(algorithm, scenario(seed)));
    }
    sum
}

/// A scenario without faults for `algorithm`.
fn calm<A: Algorithm>(algorithm: &A, candidates: usize, seed: u64) -> Scenario {
    draw::calm(candidates, seed, algorithm.patience())
}
