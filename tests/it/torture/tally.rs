//! The figures of one program in runs beside others, and the measurement of its memory.
//!
//! Reads /proc. Start with [`Tally`].

use super::spans::Verdict;
use crate::rig::Moment;
use std::fmt;
use std::fs;
use std::time::Duration;

/// How often memory is measured.
const PERIOD: Duration = Duration::from_secs(1);

/// The figures of one program, in one run or in several.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) verdict: Verdict,
    pub(super) acted: usize,
    pub(super) void: usize,
    /// The bytes on all links to the store.
    carried: usize,
    census: Census,
    duration: Duration,
}

impl Tally {
    pub(super) fn of(verdict: Verdict, census: Census, carried: usize, duration: Duration) -> Self {
        Self { verdict, carried, census, duration, ..Self::default() }
    }

    /// Adds the figures of another run.
    pub(super) fn add(&mut self, other: Self) {
        self.verdict.terms += other.verdict.terms;
        self.verdict.overlaps += other.verdict.overlaps;
        self.verdict.together += other.verdict.together;
        self.verdict.longest_gap = self.verdict.longest_gap.max(other.verdict.longest_gap);
        self.acted += other.acted;
        self.void += other.void;
        self.carried += other.carried;
        self.census.kibibytes += other.census.kibibytes;
        self.census.processes += other.census.processes;
        self.duration += other.duration;
    }

    pub(super) fn minutes(&self) -> f64 {
        self.duration.as_secs_f64() / 60.0
    }

    /// The bytes per minute of all candidates together, both ways.
    pub(super) fn bytes_per_minute(&self) -> usize {
        let seconds = usize::try_from(self.duration.as_secs()).expect("a run is short");
        (60 * self.carried).checked_div(seconds).unwrap_or_default()
    }

    /// The resident memory of one candidate, on average.
    pub(super) fn resident_kibibytes(&self) -> usize {
        self.census.kibibytes.checked_div(self.census.processes).unwrap_or_default()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { terms, overlaps, together, longest_gap } = self.verdict;
        write!(
            f,
            "{terms} terms, {overlaps} overlaps, two leaders for {together:.3?}, longest time \
             without a leader {longest_gap:.1?}, {} B to and from the store per minute, {} KiB \
             resident, {} faults acted, {} were void",
            self.bytes_per_minute(),
            self.resident_kibibytes(),
            self.acted,
            self.void
        )
    }
}

/// The resident memory of processes, summed over all measurements.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Census {
    kibibytes: usize,
    processes: usize,
    last: Option<Moment>,
}

impl Census {
    /// Measures these processes, at most once per [`PERIOD`].
    pub(super) fn observe(&mut self, now: Moment, processes: impl Iterator<Item = u32>) {
        if self.last.is_some_and(|last| now.since(last) < PERIOD) {
            return;
        }
        self.last = Some(now);
        for kibibytes in processes.filter_map(resident) {
            self.kibibytes += kibibytes;
            self.processes += 1;
        }
    }
}

/// The resident memory of a process in KiB; `None` if it has ended.
fn resident(pid: u32) -> Option<usize> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}
