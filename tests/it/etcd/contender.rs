//! Candidates of etcd's Go client and of ours beside one another, as [`Contender`]s.

use super::PATIENCE;
use crate::rig::{Contender, ELECTION, EtcdKeys, Peer, Rig, Side, eventually};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Program {
    /// `concurrency.Election` of etcd's Go client.
    Go,
    Baton,
}

impl<'a> Contender<'a, EtcdKeys> {
    /// Starts a candidate at these URLs of members. Its session is as long as the rig's lease.
    pub(super) fn start(
        rig: &'a Rig<EtcdKeys>,
        program: Program,
        name: &str,
        endpoints: &str,
    ) -> Self {
        let process = match program {
            Program::Baton => {
                Side::Ours(rig.candidate(name).flag("--etcd-endpoints", endpoints).start())
            }
            Program::Go => {
                let log = rig.folder().join(format!("{name}.log"));
                let ttl = rig.timing.lease_duration;
                let peer = Peer::etcd_election(endpoints, &prefix(rig), name, ttl, log);
                Side::Theirs(peer.once("campaigning"))
            }
        };
        Self::new(rig, name, process)
    }

    /// Waits until it follows, as the second candidate of its election.
    #[track_caller]
    pub(super) fn must_follow(&self) {
        eventually(PATIENCE, &format!("{} follows", self.name), || match &self.process {
            Side::Theirs(_) => self.rig.store.admin.count(&prefix(self.rig)) == 2,
            Side::Ours(ours) => self.rig.has_standing(ours, "following"),
        });
    }

    /// Waits for its end after it lost leadership.
    #[track_caller]
    pub(super) fn must_have_lost(&mut self) {
        let code = if self.is_ours() { 75 } else { 1 };
        assert_eq!(self.exit_code(), code, "{}", self.name);
    }
}

/// The prefix of the keys of etcd's client, which ends in no slash.
pub(super) fn prefix(rig: &Rig<EtcdKeys>) -> String {
    format!("{}/{ELECTION}", rig.store.prefix())
}
