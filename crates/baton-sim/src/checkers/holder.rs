//! The current holder of the record, since when it holds it, and why the previous holder is gone.
//!
//! Pure. Start with [`CheckerState::holder_changed`].

use super::candidate_view::CandidateView;
use super::state::CheckerState;
use crate::clock::Moment;
use crate::trace::Departure;
use baton_election::identity::Identity;
use std::time::Duration;

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
        }
    }
}
