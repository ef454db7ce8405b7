//! How much there was to judge: a run in which nothing happened has shown nothing.

use std::fmt;

/// Counts of what gives a judge something to look at.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Coverage {
    pub(super) terms: u64,
    pub(super) promises: u64,
    pub(super) losses: u64,
    pub(super) releases: u64,
    pub(super) conflicts: u64,
    pub(super) unknowns: u64,
    pub(super) faults: u64,
    /// Times in which nothing had been wrong for so long that nothing might happen: over a record, and over an ensemble.
    pub(super) calm_runs: [u64; 2],
}

impl Coverage {
    /// Each count, by name.
    pub(crate) fn counts(&self) -> [(&'static str, u64); 9] {
        [
            ("terms", self.terms),
            ("promises", self.promises),
            ("losses", self.losses),
            ("releases", self.releases),
            ("conflicts", self.conflicts),
            ("unknown outcomes", self.unknowns),
            ("faults", self.faults),
            ("calm_runs over a record", self.calm_runs[0]),
            ("calm_runs over an ensemble", self.calm_runs[1]),
        ]
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.terms += other.terms;
        self.promises += other.promises;
        self.losses += other.losses;
        self.releases += other.releases;
        self.conflicts += other.conflicts;
        self.unknowns += other.unknowns;
        self.faults += other.faults;
        self.calm_runs = [0, 1].map(|held| self.calm_runs[held] + other.calm_runs[held]);
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (what, count)) in self.counts().into_iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{count} {what}")?;
        }
        Ok(())
    }
}
