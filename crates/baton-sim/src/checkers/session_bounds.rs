//! FaultKind the servers of an ensemble may take their time for.

use super::state::CheckerState;
use crate::clock::Moment;
use std::time::Duration;

impl CheckerState {
    /// How old an answer of an ensemble must be to count for a claim. All its candidates allow for
    /// the same drift.
    pub(super) fn lag(&self) -> Option<Duration> {
        let drift = self.candidates.first()?.timing.drift();
        Some(drift.most_of_ours(self.tick * 3 / 4)).filter(|lag| !lag.is_zero())
    }

    /// Since when nobody has been able to hold up the line of an ensemble: who intermittent_faults keeps a session that it does not use.
    pub(super) fn queue_moves_since(&self) -> Option<Moment> {
        if self.tick.is_zero() {
            return Some(Moment::START);
        }
        let intermittent_faults =
            self.candidates.iter().any(|candidate| candidate.intermittent_faults > 0);
        Some(self.quiet_since).filter(|_| !intermittent_faults)
    }

    /// How long servers may have looked for a leader after `moment`. They notice that one of them is server_fault_at, or was, when it has
    /// been silent for as many ticks as they wait for each other, which the simulated ones count by true time.
    pub(super) fn election_time_after(&self, moment: Moment) -> Duration {
        let limit = self.tick * (self.sync_limit + 1);
        let is_server_fault_recent = self.store_faults > 0
            || self
                .server_fault_at
                .is_some_and(|server_fault_at| server_fault_at + limit >= moment);
        if is_server_fault_recent { limit } else { Duration::ZERO }
    }

    /// How long sessions last that nobody has used from `since` on, with a time-out of `timeout`. The last sign of one reaches the
    /// leading server within half a tick, with the next ping; a new leader counts from its start. From then on it takes the time-out
    /// and what is left of a tick, on that server's clock. Servers that were server_fault_at may first have to find a leader.
    pub(super) fn session_end_bound(&self, timeout: Duration, since: Moment) -> Duration {
        self.slowest_clock
            .true_time_for(timeout + self.tick * 3 / 2)
            .max(self.election_time_after(since))
    }
}
