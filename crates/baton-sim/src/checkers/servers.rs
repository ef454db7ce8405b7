//! What the servers of an ensemble may take their time for.

use super::facts::Facts;
use crate::clock::Moment;
use std::time::Duration;

impl Facts {
    /// How old an answer of an ensemble must be to count for a claim. All its candidates allow for
    /// the same drift.
    pub(super) fn lag(&self) -> Option<Duration> {
        let drift = self.candidates.first()?.timing.drift();
        Some(drift.max_elapsed(self.tick * 3 / 4)).filter(|lag| !lag.is_zero())
    }

    /// Since when nobody has been able to hold up the line of an ensemble: who limps keeps a session that it does not use.
    pub(super) fn line_moves_since(&self) -> Option<Moment> {
        if self.tick.is_zero() {
            return Some(Moment::START);
        }
        let limps = self.candidates.iter().any(|known| known.limps > 0);
        Some(self.quiet_since).filter(|_| !limps)
    }

    /// How long servers may have looked for a leader after `moment`. They notice that one of them is struck, or was, when it has
    /// been silent for as many ticks as they wait for each other, which the simulated ones count by true time.
    pub(super) fn elect_for(&self, moment: Moment) -> Duration {
        let limit = self.tick * (self.sync_limit + 1);
        let are_struck =
            self.store_faults > 0 || self.struck.is_some_and(|struck| struck + limit >= moment);
        if are_struck { limit } else { Duration::ZERO }
    }

    /// How long sessions last that nobody has used from `since` on, with a time-out of `timeout`. The last sign of one reaches the
    /// leading server within half a tick, with the next ping; a new leader counts from its start. From then on it takes the time-out
    /// and what is left of a tick, on that server's clock. Servers that were struck may first have to find a leader.
    pub(super) fn end_sessions_in(&self, timeout: Duration, since: Moment) -> Duration {
        self.slowest.takes(timeout + self.tick * 3 / 2).max(self.elect_for(since))
    }
}
