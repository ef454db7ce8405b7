//! A namespace of Leases on an API server, and an account whose Role lets candidates use them.

use super::{Store, Timing};
use crate::rig::{Account, ApiServer, Namespace};
use crate::rig::{ELECTION, ELECTIONS, NOISE};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, SystemTime};

/// The pause before each poll, so that polling does not keep the API server busy.
const POLL: Duration = Duration::from_millis(20);

const ADMITTED: &str = "the administrator may, and the API server answers";

pub(crate) struct Leases {
    pub(crate) namespace: Namespace,
    /// The account of the candidates.
    pub(crate) account: Account,
}

impl Leases {
    /// A new namespace on a server of the test's own.
    pub(crate) fn on(server: &ApiServer) -> Self {
        let namespace = server.namespace();
        let account = namespace.account("shop", &ELECTIONS);
        Self { namespace, account }
    }

    /// The spec of the default election's Lease.
    pub(crate) fn spec(&self) -> LeaseSpec {
        self.lease(ELECTION).and_then(|lease| lease.spec).expect("there is a Lease")
    }

    pub(crate) fn lease(&self, election: &str) -> Option<Lease> {
        self.namespace.admin.lease(election).expect(ADMITTED)
    }
}

impl Store for Leases {
    /// A Lease stores whole seconds only.
    const FAST: Timing = Timing::of_ms(6000, 4000, 500, 500);
    const CALM: Timing = Timing::of_ms(9000, 6000, 1000, 1000);
    const SLOW: Timing = Timing::of_ms(8000, 6000, 2000, 1000);
    /// Every request costs an API server and its etcd time, too.
    const NOISE: Duration = NOISE.saturating_mul(2);

    /// A new namespace on the shared server.
    fn fresh() -> Self {
        Self::on(ApiServer::shared())
    }

    fn flags(&self) -> BTreeMap<&'static str, String> {
        BTreeMap::from([
            ("--backend", "lease".to_owned()),
            ("--kubeconfig", self.account.access.kubeconfig_path()),
        ])
    }

    fn holder(&self, election: &str) -> String {
        thread::sleep(POLL);
        let spec = self.lease(election).and_then(|lease| lease.spec);
        spec.and_then(|spec| spec.holder_identity).unwrap_or_default()
    }

    /// The time that the writing sidecar put into the record.
    fn written(&self, election: &str) -> SystemTime {
        let spec = self.lease(election).and_then(|lease| lease.spec);
        spec.and_then(|spec| spec.renew_time).expect("there is a Lease").0.into()
    }

    fn remove(&self, election: &str) {
        self.namespace.admin.delete(election).expect(ADMITTED);
    }
}
