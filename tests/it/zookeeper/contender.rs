//! Candidates of Curator, of kazoo and of ours in one line, as [`Contender`]s.

use crate::rig::{
    Contender, ELECTION, InZooKeeper, Peer, Rig, Side, Store as _, Znodes, eventually,
};
use std::time::Duration;

/// How long anything may take that is only waited for, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Program {
    Curator,
    Kazoo,
    Baton,
}

impl<'a> Contender<'a, Znodes> {
    /// Starts a candidate with the session time-out of the rig, at all servers.
    pub(super) fn start(rig: &'a Rig<Znodes>, program: Program, name: &str) -> Self {
        Self::start_at(rig, program, name, &rig.store.flags()["--zookeeper-servers"])
    }

    /// The same, at servers of the test's choice.
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

    /// Waits until it stands in line behind another, and knows it if it is ours.
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
