//! How the servers of an ensemble elect their leader, and how a follower joins it.
//!
//! Pure. Start with [`Ensemble::elect`]. The server with the longest log wins, as in ZooKeeper's
//! fast leader election.

use crate::ensemble::quorum::Message;
use crate::ensemble::server::{Leadership, Learner, Role};
use crate::ensemble::{Ensemble, Happens};
use std::collections::{BTreeMap, BTreeSet};

impl Ensemble {
    /// The server follows or leads no more: it lets its candidates go, and looks for a leader.
    pub(super) fn look(&mut self, own: usize) {
        self.servers[own].role = Role::Looking;
        self.part(own);
        let wait = self
            .chance
            .lasting(self.kind.latency.1 * 4, self.kind.latency.1 * 4 + self.kind.tick / 2);
        self.queue.put(self.now + wait, Happens::Election);
    }

    /// Whoever looks and can be heard finds a leader, or becomes one.
    pub(super) fn elect(&mut self) {
        let looks = |own: &usize| {
            self.servers[*own].is_reachable() && matches!(self.servers[*own].role, Role::Looking)
        };
        let looking: Vec<_> = (0..self.servers.len()).filter(looks).collect();
        let leads = |own: &usize| {
            self.servers[*own].is_reachable()
                && matches!(&self.servers[*own].role, Role::Leading(_))
        };
        let newest = |own: &usize| match &self.servers[*own].role {
            Role::Leading(leadership) => leadership.epoch,
            Role::Looking | Role::Following { .. } => 0,
        };
        let leader = (0..self.servers.len())
            .filter(leads)
            .max_by_key(newest)
            .filter(|own| newest(own) == self.epoch);
        match leader {
            Some(leader) => looking.into_iter().for_each(|own| self.follow(own, leader)),
            None if looking.len() > self.servers.len() / 2 => {
                let zxid =
                    |own: &usize| self.servers[*own].last().map(|place| self.entries[place].zxid);
                let best = looking
                    .iter()
                    .copied()
                    .max_by_key(|own| (zxid(own), *own))
                    .expect("a majority is somebody");
                self.lead(best);
                looking
                    .into_iter()
                    .filter(|own| *own != best)
                    .for_each(|own| self.follow(own, best));
                self.count(best);
            }
            None => {}
        }
    }

    fn lead(&mut self, own: usize) {
        self.epoch += 1;
        self.terms += 1;
        let (term, epoch) = (self.terms, self.epoch);
        let server = &mut self.servers[own];
        let mut outstanding = server.tree.clone();
        for place in &server.log[server.applied..] {
            outstanding.apply(&self.entries[*place].change);
        }
        let leadership = Leadership {
            term,
            epoch,
            counter: 0,
            learners: BTreeMap::new(),
            outstanding,
            tracker: None,
        };
        server.role = Role::Leading(Box::new(leadership));
        self.queue.put(self.now + self.kind.tick / 2, Happens::Ping { server: own, term });
    }

    fn follow(&mut self, own: usize, leader: usize) {
        self.terms += 1;
        let (now, stream) = (self.now, self.terms);
        let touched = BTreeSet::new();
        self.servers[own].role =
            Role::Following { leader, stream, serves: false, heard_at: now, touched };
        let log = self.servers[leader].log.clone();
        let applied = self.servers[leader].applied;
        let Role::Leading(leadership) = &mut self.servers[leader].role else { return };
        let is_established = leadership.tracker.is_some();
        leadership.learners.insert(own, Learner { stream, acked: 0, heard_at: now });
        self.tell(leader, own, stream, Message::Sync(log));
        if is_established {
            self.tell(leader, own, stream, Message::Commit(applied));
            self.tell(leader, own, stream, Message::UpToDate);
        }
        self.queue.put(
            now + self.kind.tick * self.kind.sync_limit,
            Happens::Silence { server: own, stream },
        );
    }
}
