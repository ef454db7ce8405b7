//! Where the candidates of a rig meet, as a bystander sees it, and how much time they are given there.
//!
//! A story that does not depend on the store is written once, for any [`Store`], and told over each: see
//! [`over_every_store`].

mod files;
mod leases;
mod znodes;

use super::Timing;
pub(crate) use files::Files;
pub(crate) use leases::Leases;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};
pub(crate) use znodes::Znodes;

/// Elections, somewhere.
pub(crate) trait Store: Send + Sync {
    /// For stories that wait for leases to run out.
    const FAST: Timing;
    /// For stories in which nothing may run out, however busy the machine is.
    const CALM: Timing;
    /// For stories of the release: nobody would hear of it so soon by looking once a retry period.
    const SLOW: Timing;
    /// What upper bounds allow beyond the promised time; see [`super::NOISE`].
    const NOISE: Duration;

    /// One with nothing in it, of this rig's own.
    fn fresh() -> Self;

    /// The flags that lead a candidate here.
    fn flags(&self) -> BTreeMap<&'static str, String>;

    /// How long an election may be without a leader after a crash: README, "What is promised", with the default drift.
    fn takeover(&self, timing: Timing) -> Duration {
        timing.takeover() + Self::NOISE
    }

    /// The identity in the record of an election; empty when it was released or is not there.
    fn holder(&self, election: &str) -> String;

    /// When the record was written that stands there now.
    fn written(&self, election: &str) -> SystemTime;

    /// Removes the record, as somebody does who should not.
    fn remove(&self, election: &str);
}

/// Makes each of these stories a test over every store.
macro_rules! over_every_store {
    ($($story:ident),* $(,)?) => {
        crate::rig::over_every_record!($($story),*);

        mod over_znodes {
            $(#[test]
            fn $story() {
                super::$story::<crate::rig::Znodes>();
            })*
        }
    };
}

/// Makes each of these stories a test over every store that keeps a record.
macro_rules! over_every_record {
    ($($story:ident),* $(,)?) => {
        mod over_files {
            $(#[test]
            fn $story() {
                super::$story::<crate::rig::Files>();
            })*
        }

        mod over_leases {
            $(#[test]
            fn $story() {
                super::$story::<crate::rig::Leases>();
            })*
        }
    };
}
pub(crate) use over_every_record;
pub(crate) use over_every_store;

impl Timing {
    pub(crate) const FAST: Self = Files::FAST;
    pub(crate) const CALM: Self = Files::CALM;

    /// The same, with another answer validity.
    pub(crate) const fn valid_for(self, answer_validity: Duration) -> Self {
        Self { answer_validity, ..self }
    }

    /// The same, where the servers let sessions last so long.
    pub(crate) const fn lasting(self, lease_duration: Duration) -> Self {
        Self { lease_duration, ..self }
    }

    /// The same, with a leader that leads so long without an answer.
    pub(crate) const fn renewing_for(self, renew_deadline: Duration) -> Self {
        Self { renew_deadline, ..self }
    }

    /// How long one call may take: three tries fit between a renewal and the deadline of the one before.
    pub(crate) fn call_timeout(self) -> Duration {
        self.renew_deadline.saturating_sub(self.retry_period) / 3
    }
}
