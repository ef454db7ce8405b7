//! How much time a claim leaves a candidate for its calls.
//!
//! Pure. The budgets follow from the timing alone and from how long the last claim was.

use super::Known;
use std::time::Duration;

impl Known {
    /// How long one call may take, so that three of them fit after a renewal.
    pub(in crate::checkers) fn call(&self) -> Duration {
        self.call_within(None)
    }

    /// The same where an answer has to be older than another by `lag` to count.
    pub(in crate::checkers) fn call_within(&self, lag: Option<Duration>) -> Duration {
        self.leads_for(lag).saturating_sub(self.timing.retry_period()) / 3
    }

    /// How long a claim is at the least when all is calm, if an answer has to be older than another by `lag` to count. Timers are
    /// late, so that the answer which just counts may be a heartbeat older: a quarter of the lag is no reason to hurry.
    pub(in crate::checkers) fn leads_for(&self, lag: Option<Duration>) -> Duration {
        let (left, retry_period) = (self.leads_for_three_calls(lag), self.timing.retry_period());
        let call = left.saturating_sub(retry_period) / 3;
        left.saturating_sub(lag.unwrap_or_default() / 4).max(retry_period + call)
    }

    /// Whether its last claim left room for three calls.
    pub(in crate::checkers) fn holds_for_three_calls(&self, lag: Option<Duration>) -> bool {
        self.holds_for >= self.leads_for_three_calls(lag)
    }

    /// How long a claim is that leaves room for three calls.
    fn leads_for_three_calls(&self, lag: Option<Duration>) -> Duration {
        let (renew_deadline, retry_period) =
            (self.timing.renew_deadline(), self.timing.retry_period());
        let Some(lag) = lag else { return renew_deadline };
        let heartbeats =
            u32::try_from(lag.as_nanos() / retry_period.as_nanos()).unwrap_or(u32::MAX);
        let least = self.timing.drift().min_elapsed(self.timing.lease_duration());
        renew_deadline.min(least.saturating_sub(retry_period.saturating_mul(heartbeats + 1)))
    }
}
