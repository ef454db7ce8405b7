//! The store of a rig, as an observer sees it, and the timings of its elections.
//!
//! A scenario that does not depend on the store is written once, for any [`Store`], and runs over
//! each: see [`over_every_store`].

mod etcd_keys;
mod files;
mod leases;
mod znodes;

use super::Timing;
pub(crate) use etcd_keys::EtcdKeys;
pub(crate) use files::Files;
pub(crate) use leases::Leases;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};
pub(crate) use znodes::Znodes;

/// A store that holds elections.
pub(crate) trait Store: Send + Sync {
    /// For scenarios that wait for leases to expire.
    const FAST: Timing;
    /// For scenarios in which nothing may expire, however busy the machine is.
    const CALM: Timing;
    /// For scenarios with a release: only a watch, and no poll once a retry period, reports it in
    /// time.
    const SLOW: Timing;
    /// The allowance of upper bounds beyond the promised time; see [`super::NOISE`].
    const NOISE: Duration;

    /// A new, empty store for this rig.
    fn fresh() -> Self;

    /// The flags that make a candidate use this store.
    fn flags(&self) -> BTreeMap<&'static str, String>;

    /// How long an election may lack a leader after a crash: docs/concepts/guarantees.md, with the
    /// default drift.
    fn takeover(&self, timing: Timing) -> Duration {
        timing.takeover() + Self::NOISE
    }

    /// The identity in the record of an election; empty if it was released or is missing.
    fn holder(&self, election: &str) -> String;

    /// When the record was last written.
    fn written(&self, election: &str) -> SystemTime;

    /// Removes the record, as only an intruder does.
    fn remove(&self, election: &str);
}

/// Makes each of these scenarios a test over every store.
macro_rules! over_every_store {
    ($($scenario:ident),* $(,)?) => {
        crate::rig::over_every_record!($($scenario),*);

        mod over_znodes {
            $(#[test]
            fn $scenario() {
                super::$scenario::<crate::rig::Znodes>();
            })*
        }
    };
}

/// Makes each of these scenarios a test over every store that keeps a record.
macro_rules! over_every_record {
    ($($scenario:ident),* $(,)?) => {
        mod over_files {
            $(#[test]
            fn $scenario() {
                super::$scenario::<crate::rig::Files>();
            })*
        }

        mod over_leases {
            $(#[test]
            fn $scenario() {
                super::$scenario::<crate::rig::Leases>();
            })*
        }

        mod over_etcd {
            $(#[test]
            fn $scenario() {
                super::$scenario::<crate::rig::EtcdKeys>();
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

    /// The same, with another lease duration, for servers that grant such sessions.
    pub(crate) const fn lasting(self, lease_duration: Duration) -> Self {
        Self { lease_duration, ..self }
    }

    /// The same, with another renew deadline.
    pub(crate) const fn renewing_for(self, renew_deadline: Duration) -> Self {
        Self { renew_deadline, ..self }
    }

    /// How long one call may take: three attempts fit between a renewal and its predecessor's
    /// deadline.
    pub(crate) fn call_timeout(self) -> Duration {
        self.renew_deadline.saturating_sub(self.retry_period) / 3
    }
}
