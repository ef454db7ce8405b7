//! How long an ensemble may take to elect a leader and to end sessions.
//!
//! Pure. Start with [`CheckerState::session_end_bound`].

use super::state::CheckerState;
use crate::clock::Moment;
use std::time::Duration;

impl CheckerState {
    /// Computes [`Self::lag`].
    pub(super) fn drifted_lag(&self) -> Option<Duration> {
        let drift = self.candidates.first()?.timing.drift();
        Some(drift.max_elapsed(self.tick * 3 / 4)).filter(|lag| !lag.is_zero())
    }

    /// Since when no candidate can hold up the queue. A candidate with intermittent access keeps a
    /// session alive without using it.
    pub(super) fn queue_moves_since(&self) -> Option<Moment> {
        if self.tick.is_zero() {
            return Some(Moment::START);
        }
        let has_intermittent_fault =
            self.candidates.iter().any(|candidate| candidate.intermittent_faults > 0);
        Some(self.quiet_since).filter(|_| !has_intermittent_fault)
    }

    /// How long servers may have been without a leader after `moment`. They notice a fault of a
    /// server after it has been silent for the sync limit, which the simulated servers measure in
    /// true time.
    pub(super) fn election_time_after(&self, moment: Moment) -> Duration {
        let limit = self.tick * (self.sync_limit + 1);
        let is_server_fault_recent = self.store_faults > 0
            || self
                .server_fault_at
                .is_some_and(|server_fault_at| server_fault_at + limit >= moment);
        if is_server_fault_recent { limit } else { Duration::ZERO }
    }

    /// How long a session with this timeout may live if it is unused from `since` on. Its last
    /// heartbeat reaches the leading server with the next ping, within half a tick. A new leader
    /// counts from its own start. Then the timeout and the rest of a tick pass on that server's
    /// clock. After a fault the servers may first have to elect a leader.
    pub(super) fn session_end_bound(&self, timeout: Duration, since: Moment) -> Duration {
        self.slowest_clock
            .true_time_for(timeout + self.tick * 3 / 2)
            .max(self.election_time_after(since))
    }
}
