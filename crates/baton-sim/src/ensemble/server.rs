//! One server of an ensemble: its log, its role, and its clients.
//!
//! Pure. Start with [`Server`]. Messages between servers are in `quorum.rs`.

use crate::clock::{Clock, Moment};
use crate::ensemble::tracker::Tracker;
use crate::ensemble::tree::Tree;
use baton_election::queue::messages::SessionId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) clock: Clock,
    /// The number of active faults: crashes, partitions, and pauses.
    pub(super) down: u32,
    pub(super) partitioned: u32,
    pub(super) paused: u32,
    /// The ping time of each active fault that slows down pings.
    pub(super) slow_pings: Vec<Duration>,
    /// The log on disk, as indices of transactions.
    pub(super) log: Vec<usize>,
    /// How many of these it has applied.
    pub(super) applied: usize,
    pub(super) tree: Tree,
    pub(super) role: Role,
    /// The connections, by candidate.
    pub(super) connections: BTreeMap<usize, Connection>,
    /// One-shot watches: znode name, candidate, and connection.
    pub(super) watches: Vec<(String, usize, u64)>,
}

/// The role of a server in the ensemble.
#[derive(Clone, Debug)]
pub(super) enum Role {
    /// It has no leader.
    Looking,
    Following {
        leader: usize,
        /// Identifies the connection to the leader. Messages of other connections are ignored.
        stream: u64,
        /// Whether the leader has declared it up to date.
        serves: bool,
        heard_at: Moment,
        /// Sessions that were active since the leader's last ping.
        touched: BTreeSet<SessionId>,
    },
    Leading(Box<Leadership>),
}

/// The state of a leader.
#[derive(Clone, Debug)]
pub(super) struct Leadership {
    /// Distinguishes the timers of this term from those of others.
    pub(super) term: u64,
    pub(super) epoch: u64,
    pub(super) counter: u64,
    pub(super) learners: BTreeMap<usize, Learner>,
    /// The state after all its proposals.
    pub(super) outstanding: Tree,
    /// Present once a majority follows.
    pub(super) tracker: Option<Tracker>,
}

/// A follower from its leader's point of view.
#[derive(Clone, Debug)]
pub(super) struct Learner {
    pub(super) stream: u64,
    /// How much of the log it has acknowledged.
    pub(super) acked: usize,
    pub(super) heard_at: Moment,
}

/// A connection of a candidate.
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

    /// Whether it can communicate with other servers.
    pub(super) const fn is_reachable(&self) -> bool {
        self.down == 0 && self.partitioned == 0 && self.paused == 0
    }

    /// Whether it serves clients.
    pub(super) fn serves(&self) -> bool {
        match &self.role {
            Role::Looking => false,
            Role::Following { serves, .. } => *serves,
            Role::Leading(leadership) => leadership.tracker.is_some(),
        }
    }

    /// The index of the last transaction on disk.
    pub(super) fn last(&self) -> Option<usize> {
        self.log.last().copied()
    }

    /// Records activity of `session`, in the leader's tracker or for the answer to the next ping.
    pub(super) fn touch(&mut self, session: SessionId, now: Moment) {
        let local_time = self.clock.read(now);
        match &mut self.role {
            Role::Looking => {}
            Role::Following { touched, .. } => {
                touched.insert(session);
            }
            Role::Leading(leadership) => {
                if let Some(tracker) = &mut leadership.tracker {
                    tracker.touch(session, local_time);
                }
            }
        }
    }

    /// Watches a znode once for `from`. Repeated watches of one connection fire once.
    pub(super) fn watch(&mut self, name: &str, from: usize, connection: u64) {
        let is_same = |watch: &(String, usize, u64)| {
            watch.0 == name && (watch.1, watch.2) == (from, connection)
        };
        if !self.watches.iter().any(is_same) {
            self.watches.push((name.to_owned(), from, connection));
        }
    }

    /// Drops all connections, and returns their candidates and numbers.
    pub(super) fn drop_connections(&mut self) -> Vec<(usize, u64)> {
        self.watches.clear();
        std::mem::take(&mut self.connections)
            .into_iter()
            .map(|(from, connection)| (from, connection.number))
            .collect()
    }
}
