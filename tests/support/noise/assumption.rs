//! Assumptions of test cases about the machine, and the measurements that break them.
//!
//! Pure. Start with [`broken`].

use std::fmt;
use std::time::Duration;

/// A bound on the machine, never on the program under test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Assumption {
    /// Within any second, a thread that only sleeps loses at most this much to late wake-ups.
    LosesAtMost(Duration),
    /// Every store that a test waits for starts within this time.
    StoresStartWithin(Duration),
    /// Over any ten seconds, at most this many tasks per processor want to run.
    TasksPerProcessor(f64),
}

/// Measurements of the machine over a span of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    /// The most that the sampling thread lost to late wake-ups within a second.
    pub(crate) lost: Duration,
    /// The store that took longest to start, if any started.
    pub(crate) slowest_start: Option<(&'static str, Duration)>,
    /// The most tasks per processor that wanted to run.
    pub(crate) crowd: f64,
}

/// Every assumption that did not hold, each with its figure; `None` if all of them held.
pub(crate) fn broken(assumptions: &[Assumption], seen: &Seen) -> Option<String> {
    let broken: Vec<String> =
        assumptions.iter().filter_map(|assumption| assumption.broken_by(seen)).collect();
    (!broken.is_empty()).then(|| broken.join("; "))
}

impl Assumption {
    fn broken_by(self, seen: &Seen) -> Option<String> {
        match self {
            Self::LosesAtMost(limit) => (seen.lost > limit).then(|| {
                let lost = seen.lost;
                format!("a sleeping thread woke late by {lost:.0?} within a second, {limit:?} is assumed")
            }),
            Self::StoresStartWithin(limit) => seen
                .slowest_start
                .filter(|(_, took)| *took > limit)
                .map(|(what, took)| format!("{what} took {took:.1?} to start, {limit:?} is assumed")),
            Self::TasksPerProcessor(limit) => (seen.crowd > limit).then(|| {
                let crowd = seen.crowd;
                format!("{crowd:.1} tasks per processor wanted to run, {limit:.1} is assumed")
            }),
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lost, slowest_start, crowd } = self;
        write!(f, "late by {lost:.0?} within a second, {crowd:.1} tasks per processor")?;
        match slowest_start {
            Some((what, took)) => write!(f, ", {what} started in {took:.1?}"),
            None => Ok(()),
        }
    }
}
