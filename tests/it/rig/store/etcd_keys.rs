//! A prefix of keys in etcd.

use super::{Store, Timing};
use crate::rig::NOISE;
use crate::rig::etcd::{Etcd, EtcdAdmin};
use serde_json::Value;
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, SystemTime};
use uuid::Uuid;

/// The pause before each poll, so that polling does not keep etcd busy.
const POLL: Duration = Duration::from_millis(20);

pub(crate) struct EtcdKeys {
    pub(crate) admin: EtcdAdmin,
    endpoints: String,
    prefix: String,
}

impl EtcdKeys {
    /// A new prefix, which candidates reach at all members.
    pub(crate) fn on(etcd: &Etcd) -> Self {
        Self::at(etcd, &etcd.endpoints())
    }

    /// A new prefix, which candidates reach at these endpoints.
    pub(crate) fn at(etcd: &Etcd, endpoints: &str) -> Self {
        let (endpoints, prefix) = (endpoints.to_owned(), format!("/{}", Uuid::new_v4()));
        Self { admin: etcd.admin(), endpoints, prefix }
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn record_key(&self, election: &str) -> String {
        format!("{}/{election}/record", self.prefix)
    }

    pub(crate) fn term_key(&self, election: &str) -> String {
        format!("{}/{election}/term", self.prefix)
    }

    /// The fields of the record; null if there is none, or if etcd does not answer.
    pub(crate) fn record(&self, election: &str) -> Value {
        let found = self.admin.try_read(&self.record_key(election)).ok().flatten();
        found.and_then(|found| serde_json::from_str(&found.value).ok()).unwrap_or_default()
    }
}

impl Store for EtcdKeys {
    const FAST: Timing = Timing::of_ms(3000, 2000, 250, 250);
    const CALM: Timing = Timing::of_ms(9000, 6000, 1000, 1000);
    const SLOW: Timing = Timing::of_ms(8000, 6000, 2000, 1000);
    /// Every request costs etcd time, too.
    const NOISE: Duration = NOISE.saturating_mul(2);

    /// A new prefix in the shared etcd.
    fn fresh() -> Self {
        Self::on(Etcd::shared())
    }

    fn flags(&self) -> BTreeMap<&'static str, String> {
        BTreeMap::from([
            ("--backend", "etcd".to_owned()),
            ("--etcd-endpoints", self.endpoints.clone()),
            ("--etcd-prefix", self.prefix.clone()),
        ])
    }

    fn holder(&self, election: &str) -> String {
        thread::sleep(POLL);
        self.record(election)["holderIdentity"].as_str().unwrap_or_default().to_owned()
    }

    /// The time that the writing sidecar put into the record.
    fn written(&self, election: &str) -> SystemTime {
        let record = self.record(election);
        let time = record["renewTime"].as_str().expect("there is a record");
        humantime::parse_rfc3339(time).expect("it is a time")
    }

    fn remove(&self, election: &str) {
        self.admin.delete(&self.record_key(election));
    }
}
