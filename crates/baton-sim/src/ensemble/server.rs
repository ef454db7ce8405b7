//! One server of an ensemble: its log, its part in it, and whoever is connected to it.
//!
//! Pure data, and what changes in it alone; `quorum.rs` lets servers speak to each other.

use crate::clock::{Clock, Moment};
use crate::ensemble::tracker::Tracker;
use crate::ensemble::tree::Tree;
use baton_election::queue::messages::SessionId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A server.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) clock: Clock,
    /// By how many faults it is down, partitioned off from the other servers, or stands paused.
    pub(super) down: u32,
    pub(super) partitioned: u32,
    pub(super) paused: u32,
    /// How long its pings take, for each fault that slows them down.
    pub(super) slow_pings: Vec<Duration>,
    /// FaultKind it has on its disk, as places in the list of all transactions.
    pub(super) log: Vec<usize>,
    /// How many of them it has applied.
    pub(super) applied: usize,
    pub(super) tree: Tree,
    pub(super) role: Role,
    /// Who is connected, by candidate.
    pub(super) connections: BTreeMap<usize, Connection>,
    /// One-shot watches: a znode's name, a candidate, and its connection.
    pub(super) watches: Vec<(String, usize, u64)>,
}

/// FaultKind a server does in the ensemble.
#[derive(Debug)]
pub(super) enum Role {
    /// Looks for a leader.
    Looking,
    Following {
        leader: usize,
        /// Names the connection to the leader: what belongs to another is not listened to.
        stream: u64,
        /// The leader said that it is up to date.
        serves: bool,
        heard_at: Moment,
        /// Sessions that were heard of since the leader's last ping.
        touched: BTreeSet<SessionId>,
    },
    Leading(Box<Leadership>),
}

/// FaultKind a leader keeps.
#[derive(Debug)]
pub(super) struct Leadership {
    /// Tells this term's timers from those of another.
    pub(super) term: u64,
    pub(super) epoch: u64,
    pub(super) counter: u64,
    pub(super) learners: BTreeMap<usize, Learner>,
    /// With all that it has proposed.
    pub(super) outstanding: Tree,
    /// From when a majority has followed.
    pub(super) tracker: Option<Tracker>,
}

/// A follower, as its leader knows it.
#[derive(Debug)]
pub(super) struct Learner {
    pub(super) stream: u64,
    /// How much of the log it is known to have on its disk.
    pub(super) acked: usize,
    pub(super) heard_at: Moment,
}

/// A candidate's connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    pub(super) number: u64,
    pub(super) session: Option<SessionId>,
}

impl Server {
    pub(super) fn new(clock: Clock) -> Self {
        let (log, watches, tree) = (Vec::new(), Vec::new(), Tree::default());
        let (down, partitioned, paused, applied) = (0, 0, 0, 0);
        let (role, connections, slow_pings) = (Role::Looking, BTreeMap::new(), Vec::new());
        Self {
            clock,
            down,
            partitioned,
            paused,
            slow_pings,
            log,
            applied,
            tree,
            role,
            connections,
            watches,
        }
    }

    /// Whether it can speak to the others.
    pub(super) const fn is_reachable(&self) -> bool {
        self.down == 0 && self.partitioned == 0 && self.paused == 0
    }

    /// Whether it serves candidates.
    pub(super) fn serves(&self) -> bool {
        match &self.role {
            Role::Looking => false,
            Role::Following { serves, .. } => *serves,
            Role::Leading(leadership) => leadership.tracker.is_some(),
        }
    }

    /// The number of the last transaction on its disk.
    pub(super) fn last(&self) -> Option<usize> {
        self.log.last().copied()
    }

    /// Notes a sign of life of `session`: the leader's id count, or what it is told at its next ping.
    pub(super) fn touch(&mut self, session: SessionId, now: Moment) {
        let shown = self.clock.read(now);
        match &mut self.role {
            Role::Looking => {}
            Role::Following { touched, .. } => {
                touched.insert(session);
            }
            Role::Leading(leadership) => {
                if let Some(tracker) = &mut leadership.tracker {
                    tracker.touch(session, shown);
                }
            }
        }
    }

    /// Tells `from` once when the znode of that name is gone; who watches already is told once all the same.
    pub(super) fn watch(&mut self, name: &str, from: usize, connection: u64) {
        let is_held =
            |held: &(String, usize, u64)| held.0 == name && (held.1, held.2) == (from, connection);
        if !self.watches.iter().any(is_held) {
            self.watches.push((name.to_owned(), from, connection));
        }
    }

    /// Lets all candidates go, and returns them and their connections.
    pub(super) fn drop_connections(&mut self) -> Vec<(usize, u64)> {
        self.watches.clear();
        std::mem::take(&mut self.connections)
            .into_iter()
            .map(|(from, connection)| (from, connection.number))
            .collect()
    }
}
