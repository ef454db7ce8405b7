//! The time that a claim leaves a candidate for its calls.
//!
//! Pure. Start with [`CandidateView::call_budget`]. The budgets follow from the timing.

use super::CandidateView;
use std::time::Duration;

impl CandidateView {
    /// How long a call may take if three of them must fit after a renewal.
    pub(in crate::checkers) fn call_budget(&self) -> Duration {
        self.call_budget_with_lag(None)
    }

    /// The same where an answer counts only if it is older than another one by `lag`.
    pub(in crate::checkers) fn call_budget_with_lag(&self, lag: Option<Duration>) -> Duration {
        self.min_claim(lag).saturating_sub(self.timing.retry_period()) / 3
    }

    /// The shortest claim in calm, where an answer counts only if it is older than another one by
    /// `lag`. Late timers may shorten a claim by up to a quarter of the lag.
    pub(in crate::checkers) fn min_claim(&self, lag: Option<Duration>) -> Duration {
        let (left, retry_period) = (self.claim_for_three_calls(lag), self.timing.retry_period());
        let call = left.saturating_sub(retry_period) / 3;
        left.saturating_sub(lag.unwrap_or_default() / 4).max(retry_period + call)
    }

    /// Whether its last claim left time for three calls.
    pub(in crate::checkers) fn claim_allows_three_calls(&self, lag: Option<Duration>) -> bool {
        self.claim_length >= self.claim_for_three_calls(lag)
    }

    /// The shortest claim that leaves time for three calls.
    fn claim_for_three_calls(&self, lag: Option<Duration>) -> Duration {
        let (renew_deadline, retry_period) =
            (self.timing.renew_deadline(), self.timing.retry_period());
        let Some(lag) = lag else { return renew_deadline };
        let heartbeats =
            u32::try_from(lag.as_nanos() / retry_period.as_nanos()).unwrap_or(u32::MAX);
        let least = self.timing.drift().min_elapsed(self.timing.lease_duration());
        renew_deadline.min(least.saturating_sub(retry_period.saturating_mul(heartbeats + 1)))
    }
}
