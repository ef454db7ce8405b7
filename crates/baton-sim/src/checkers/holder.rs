//! The holder of the record: who it is, since when, and why the previous one is gone.
//!
//! Pure. Start with [`CheckerState::holder_changed`]. Many properties ask at each event which
//! candidate is the holder, so the answer is found only when it changes.

use super::candidate_view::CandidateView;
use super::ended_runs::EndedRun;
use super::state::CheckerState;
use crate::clock::Moment;
use crate::trace::Departure;
use baton_election::identity::Identity;
use std::time::Duration;

/// The owner of the identity in the record.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct HolderOwner {
    /// The candidate whose last started run it is.
    run: Option<usize>,
    /// The candidate whose ended run it is.
    ended_run: Option<usize>,
}

impl CheckerState {
    pub(super) fn holder_departed(&mut self, departure: Departure, now: Moment) {
        match departure {
            Departure::Released => self.is_release = true,
            Departure::Deleted => {
                // A disturbance between the deletion and its commit may keep candidates from
                // learning of it.
                let was_quiet = self
                    .external_change
                    .is_some_and(|(at, was_quiet)| was_quiet && self.quiet_since <= at);
                self.external_change = Some((now, was_quiet));
                self.disturbed(now);
            }
        }
    }

    pub(super) fn holder_changed(
        &mut self,
        holder: Option<&Identity>,
        lease: Duration,
        now: Moment,
    ) {
        if lease > self.longest_lease {
            self.longest_lease = lease;
            self.settling_time = self.longest_settling_time();
        }
        let is_external = self.is_external_change(now);
        self.released_at = (std::mem::take(&mut self.is_release) && !is_external).then_some(now);
        self.coverage.releases += u64::from(self.released_at.is_some());
        self.session_forgotten_at = None;
        if self.holder.as_ref() != holder {
            (self.holder, self.held_since) = (holder.cloned(), now);
            let is_record = self.tick.is_zero();
            let is_holder = |candidate: &&mut CandidateView| candidate.identity.as_ref() == holder;
            for candidate in self.candidates.iter_mut().filter(is_holder) {
                // A release of a record that is still in flight would replace an older version.
                candidate.run.has_sent_release &= !is_record;
            }
            self.find_holder();
        }
    }

    /// The candidate that is the holder.
    pub(super) const fn holding_candidate(&self) -> Option<usize> {
        self.holder_owner.run
    }

    /// The candidate whose ended run is the holder.
    pub(super) fn holding_ended_run(&self) -> Option<(usize, &EndedRun)> {
        let number = self.holder_owner.ended_run?;
        self.candidates[number].ended_run.as_ref().map(|run| (number, run))
    }

    /// Finds out again who the holder is. Call it after the holder or a run has changed.
    pub(super) fn find_holder(&mut self) {
        let Some(holder) = &self.holder else {
            self.holder_owner = HolderOwner::default();
            return;
        };
        let find =
            |is_holder: &dyn Fn(&CandidateView) -> bool| self.candidates.iter().position(is_holder);
        self.holder_owner = HolderOwner {
            run: find(&|candidate| candidate.identity.as_ref() == Some(holder)),
            ended_run: find(&|candidate| {
                candidate.ended_run.as_ref().is_some_and(|run| run.is_of(holder))
            }),
        };
    }
}
