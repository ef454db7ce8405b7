//! Counts how much a run gave the checkers to check, because a run without leaders or faults proves
//! nothing.
//!
//! Pure. Start with [`Coverage`].

use crate::trace::Worker;
use std::fmt;

/// Counts of the events that the properties depend on.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Coverage {
    pub(super) terms: u64,
    promises: u64,
    promises_to_waiting: u64,
    promises_in_files: u64,
    pub(super) commands: u64,
    pub(super) losses: u64,
    pub(super) releases: u64,
    pub(super) conflicts: u64,
    pub(super) unknowns: u64,
    /// Writes that were applied as a version that another record had before.
    pub(super) recurring_versions: u64,
    pub(super) faults: u64,
    /// Periods without faults that were so long that no transition was allowed: over a record, and
    /// over an ensemble.
    pub(super) calm_periods: [u64; 2],
    /// Releases on behalf of an ended run, over a record and over an ensemble.
    pub(super) ended_run_releases: [u64; 2],
}

impl Coverage {
    /// Each count and its name.
    pub(crate) fn counts(&self) -> [(&'static str, u64); 15] {
        [
            ("terms", self.terms),
            ("promises to polls", self.promises),
            ("promises to waiting requests", self.promises_to_waiting),
            ("promises in status files", self.promises_in_files),
            ("commands", self.commands),
            ("losses", self.losses),
            ("releases", self.releases),
            ("conflicts", self.conflicts),
            ("unknown outcomes", self.unknowns),
            ("recurring versions", self.recurring_versions),
            ("faults", self.faults),
            ("calm periods over a record", self.calm_periods[0]),
            ("calm periods over an ensemble", self.calm_periods[1]),
            ("releases for an ended run over a record", self.ended_run_releases[0]),
            ("releases for an ended run over an ensemble", self.ended_run_releases[1]),
        ]
    }

    /// A worker gets a promise.
    pub(super) fn add_promise(&mut self, worker: Worker) {
        match worker {
            Worker::Named(_) | Worker::Anonymous => self.promises += 1,
            Worker::Waiting => self.promises_to_waiting += 1,
            Worker::FileReader => self.promises_in_files += 1,
        }
    }

    /// A candidate releases the record or session of its ended run.
    pub(super) fn add_release_for_ended_run(&mut self, is_record: bool) {
        self.ended_run_releases[usize::from(!is_record)] += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.terms += other.terms;
        self.promises += other.promises;
        self.promises_to_waiting += other.promises_to_waiting;
        self.promises_in_files += other.promises_in_files;
        self.commands += other.commands;
        self.losses += other.losses;
        self.releases += other.releases;
        self.conflicts += other.conflicts;
        self.unknowns += other.unknowns;
        self.recurring_versions += other.recurring_versions;
        self.faults += other.faults;
        for (counts, others) in [
            (&mut self.calm_periods, other.calm_periods),
            (&mut self.ended_run_releases, other.ended_run_releases),
        ] {
            counts.iter_mut().zip(others).for_each(|(count, other)| *count += other);
        }
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, count)) in self.counts().into_iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{count} {name}")?;
        }
        Ok(())
    }
}
