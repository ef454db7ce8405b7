//! The start and the end of a process, as the checkers see them.
//!
//! Pure. Start with [`CheckerState::started`].

use super::ended_runs::EndedRun;
use super::state::CheckerState;
use super::withdrawals::Causes;
use crate::clock::Moment;
use crate::trace::{ExitCause, TraceContext};
use baton_election::identity::Identity;
use baton_election::instant::Instant;

impl CheckerState {
    pub(super) fn started(
        &mut self,
        context: &TraceContext<'_>,
        number: usize,
        identity: &Identity,
        from: Instant,
    ) {
        let began = context.clocks[number].when(from).max(context.now);
        let candidate = &mut self.candidates[number];
        *candidate = candidate.restarted(identity.clone());
        candidate.run.started_at = Some(context.now);
        candidate.is_campaigning = true;
        (candidate.campaigns_from, candidate.campaigns_since) = (from, began);
        candidate.fault_free_since = began;
        if candidate.faults + self.store_faults > 0 {
            candidate.disturbed(context.local_time(number));
        }
        self.disturbed(began);
    }

    pub(super) fn exited(&mut self, number: usize, cause: ExitCause, now: Moment) {
        self.expire_unacknowledged_write(number);
        let candidate = &mut self.candidates[number];
        (candidate.claim, candidate.term, candidate.is_campaigning, candidate.withdrawal) =
            (None, None, false, None);
        candidate.ended_run = EndedRun::of(candidate, cause);
        candidate.run.started_at = None;
        candidate.causes = Causes::default();
        candidate.commands.orphan();
        self.disturbed(now);
    }

    /// Restarts the store's fault-free period at the unacknowledged write of a candidate. The
    /// candidate may never use the lease that it wrote, but others have to wait for it.
    pub(super) fn expire_unacknowledged_write(&mut self, number: usize) {
        let wrote = self.candidates[number].unacknowledged().unwrap_or(Moment::START);
        self.store_fault_free_since = self.store_fault_free_since.max(wrote);
    }
}
