//! The faults of a run, edited at its present moment.
//!
//! Pure. Start with [`FaultList::of`]. A fault may target the leader, and only the records of the
//! run name the candidate that led.

use baton_sim::clock::Moment;
use baton_sim::live::LiveRun;
use baton_sim::recording::Fact;
use baton_sim::scenario::{CandidateFault, Fault, FaultKind};
use std::time::Duration;

/// The faults of a run, ordered by their start.
pub(crate) struct FaultList {
    now: Moment,
    faults: Vec<Fault>,
    /// The candidate that each fault has affected, for the faults that have begun.
    affected: Vec<Option<usize>>,
}

impl FaultList {
    pub(crate) fn of(run: &LiveRun) -> Self {
        let now = run.now();
        let began = |fact: &Fact| match fact {
            Fact::FaultBegan(_, affected, _) => Some(*affected),
            Fact::FaultEnded(..)
            | Fact::ClockRate(..)
            | Fact::Started(_)
            | Fact::Exited(_)
            | Fact::Claimed(..)
            | Fact::ClaimEnded(_)
            | Fact::Promised(..)
            | Fact::Sent(..)
            | Fact::Performed(..)
            | Fact::Replied(..)
            | Fact::Notified(_)
            | Fact::Holder(_)
            | Fact::Role(..)
            | Fact::Noted(_) => None,
        };
        let past = run.records().iter().take_while(|record| record.at <= now);
        let affected = past.filter_map(|record| began(&record.fact)).collect();
        Self { now, faults: run.scenario().faults.clone(), affected }
    }

    /// Whether `is_meant` accepts the kind of an active fault and the candidate that it affected.
    pub(crate) fn has_active(&self, is_meant: impl Fn(FaultKind, Option<usize>) -> bool) -> bool {
        self.active(is_meant).next().is_some()
    }

    /// Adds a fault that begins now.
    pub(crate) fn with(mut self, duration: Duration, kind: FaultKind) -> Vec<Fault> {
        let later = self.faults.partition_point(|fault| fault.at <= self.now);
        self.faults.insert(later, Fault { at: self.now, duration, kind });
        self.faults
    }

    /// Ends every active fault that is meant, now. `None` if there is none.
    pub(crate) fn ending_all(
        self,
        is_meant: impl Fn(FaultKind, Option<usize>) -> bool,
    ) -> Option<Vec<Fault>> {
        let ending: Vec<_> = self.active(is_meant).collect();
        self.ending(&ending)
    }

    /// Ends only the last active fault that is meant, now. `None` if there is none.
    pub(crate) fn ending_last(
        self,
        is_meant: impl Fn(FaultKind, Option<usize>) -> bool,
    ) -> Option<Vec<Fault>> {
        let ending: Vec<_> = self.active(is_meant).last().into_iter().collect();
        self.ending(&ending)
    }

    /// The indices of the active faults that are meant.
    fn active(
        &self,
        is_meant: impl Fn(FaultKind, Option<usize>) -> bool,
    ) -> impl Iterator<Item = usize> {
        let begun = self.faults.iter().zip(&self.affected).enumerate();
        begun.filter_map(move |(index, (fault, affected))| {
            (is_active(fault, self.now) && is_meant(fault.kind, *affected)).then_some(index)
        })
    }

    /// Ends these faults now. Removes a fault that also began now.
    fn ending(mut self, ending: &[usize]) -> Option<Vec<Fault>> {
        if ending.is_empty() {
            return None;
        }
        for index in ending {
            let fault = &mut self.faults[*index];
            fault.duration = self.now.since(fault.at);
        }
        for index in ending.iter().rev() {
            if self.faults[*index].duration.is_zero() {
                self.faults.remove(*index);
            }
        }
        Some(self.faults)
    }
}

/// A process that was killed or stopped stays down if the fault has no duration.
fn is_active(fault: &Fault, now: Moment) -> bool {
    let stays = fault.duration.is_zero()
        && matches!(
            fault.kind,
            FaultKind::Candidate(_, CandidateFault::Crash | CandidateFault::Stop)
        );
    stays || now < fault.end()
}
