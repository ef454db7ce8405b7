//! Candidates of Curator, kazoo, and Baton in one queue, as [`Contender`]s.

use crate::rig::{
    Contender, ELECTION, InZooKeeper, Peer, Rig, Side, Store as _, Znodes, eventually,
};
use std::time::Duration;

/// A generous bound on anything that has to happen eventually, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Program {
    Curator,
    Kazoo,
    Baton,
}

impl<'a> Contender<'a, Znodes> {
    /// Starts a candidate with the session timeout of the rig, connected to any of the servers.
    pub(super) fn start(rig: &'a Rig<Znodes>, program: Program, name: &str) -> Self {
        Self::start_at(rig, program, name, &rig.store.flags()["--zookeeper-servers"])
    }

    /// The same, connected to one of `servers`.
    pub(super) fn start_at(
        rig: &'a Rig<Znodes>,
        program: Program,
        name: &str,
        servers: &str,
    ) -> Self {
        let election = InZooKeeper {
            servers,
            path: &format!("/baton/{ELECTION}"),
            session_timeout: rig.timing.lease_duration,
            folder: rig.folder(),
        };
        let process = match program {
            Program::Curator => Side::Theirs(Peer::curator(&election, name)),
            Program::Kazoo => Side::Theirs(Peer::kazoo(&election, name)),
            Program::Baton => {
                Side::Ours(rig.candidate(name).flag("--zookeeper-servers", servers).start())
            }
        };
        Self::new(rig, name, process)
    }

    /// Waits until the candidate is behind another in the queue. Baton's also has to report it.
    #[track_caller]
    pub(super) fn must_follow(&self) {
        eventually(PATIENCE, &format!("{} follows", self.name), || match &self.process {
            Side::Ours(ours) => self.rig.has_standing(ours, "following"),
            Side::Theirs(_) => self
                .rig
                .store
                .identities(ELECTION)
                .iter()
                .skip(1)
                .any(|identity| *identity == self.name),
        });
    }
}
