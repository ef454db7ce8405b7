//! What every test here stands on: a namespace, an account with one Role, and candidates that elect by it.

use crate::rig::{Access, Account, ApiServer, Candidate, ELECTION, NOISE, Namespace, Rig, Start, Timing, eventually};
use k8s_openapi::api::coordination::v1::Lease;
use std::sync::Arc;
use std::time::Duration;

/// A Lease knows whole seconds, and two API servers share this machine with compilers.
pub(super) const TIMING: Timing = Timing::of_ms(9000, 6000, 1000, 1000);

/// How long candidates may take to find each other on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Ground {
    pub(super) rig: Rig,
    pub(super) account: Account,
    pub(super) namespace: Namespace,
}

impl Ground {
    /// On the API server that all tests share.
    pub(super) fn new() -> Self {
        Self::on(ApiServer::shared())
    }

    pub(super) fn on(server: &ApiServer) -> Self {
        let namespace = server.namespace();
        let account = namespace.account("shop", &[ELECTION]);
        Self { rig: Rig::new(TIMING), account, namespace }
    }

    pub(super) fn candidate(&self, name: &str) -> Start<'_> {
        self.candidate_by(&self.account.access, name)
    }

    /// One that reaches the API server in another way.
    pub(super) fn candidate_by(&self, access: &Access, name: &str) -> Start<'_> {
        let kubeconfig = access.kubeconfig().to_str().expect("our paths are UTF-8").to_owned();
        self.rig.candidate(name).flag("--backend", "lease").flag("--kubeconfig", kubeconfig)
    }

    /// A leader, and others that follow it.
    pub(super) fn leader_and_followers<const N: usize>(
        &self,
        names: [&str; N],
    ) -> (Arc<Candidate>, [Arc<Candidate>; N]) {
        let leader = self.candidate("leader").start();
        assert_eq!(self.rig.leader().identity, leader.identity);
        let followers = names.map(|name| self.candidate(name).start());
        for follower in &followers {
            eventually(PATIENCE, "it follows", || self.rig.stands(follower, "following"));
        }
        self.rig.hear_enough();
        (leader, followers)
    }

    pub(super) fn lease(&self) -> Lease {
        self.namespace.admin.lease(ELECTION).expect("the administrator may").expect("there is a Lease")
    }

    pub(super) fn holder(&self) -> String {
        self.lease().spec.and_then(|spec| spec.holder_identity).unwrap_or_default()
    }

    pub(super) fn holds(&self, candidate: &Candidate) -> bool {
        self.holder() == candidate.identity
    }

    /// How long the election may be without a leader after a crash.
    pub(super) fn takeover(&self) -> Duration {
        self.rig.timing.takeover() + 2 * NOISE
    }
}
