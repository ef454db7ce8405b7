//! The durations of an election, and the bounds that they imply.

use std::time::Duration;

/// client-go's three durations, and the validity of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) lease_duration: Duration,
    pub(crate) renew_deadline: Duration,
    pub(crate) retry_period: Duration,
    pub(crate) answer_validity: Duration,
}

impl Timing {
    pub(crate) const fn of_ms(lease: u64, renew: u64, retry: u64, validity: u64) -> Self {
        Self {
            lease_duration: Duration::from_millis(lease),
            renew_deadline: Duration::from_millis(renew),
            retry_period: Duration::from_millis(retry),
            answer_validity: Duration::from_millis(validity),
        }
    }

    /// How long the election may lack a leader after a crash: docs/concepts/guarantees.md, with the
    /// default drift.
    pub(crate) fn takeover(self) -> Duration {
        self.lease_duration.mul_f64(1.1) + 2 * self.retry_period
    }
}
