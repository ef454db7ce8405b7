//! How servers elect a leader, and how a follower joins it.
//!
//! Pure. Start with [`Ensemble::elect`]. The server with the newest log wins, as in ZooKeeper's
//! fast leader election.

use crate::ensemble::quorum::Message;
use crate::ensemble::server::{Leadership, Learner, Role};
use crate::ensemble::{Ensemble, EnsembleEvent};
use std::collections::{BTreeMap, BTreeSet};

impl Ensemble {
    /// Ends the role of server `id`: it disconnects its clients and looks for a leader.
    pub(super) fn start_looking(&mut self, id: usize) {
        self.servers[id].role = Role::Looking;
        self.disconnect_clients(id);
        let wait = self.rng.duration_between(
            self.config.latency.1 * 4,
            self.config.latency.1 * 4 + self.config.tick / 2,
        );
        self.queue.push(self.now + wait, EnsembleEvent::Election);
    }

    /// Lets each reachable server without a leader follow the current one, or elects a new one.
    pub(super) fn elect(&mut self) {
        let is_looking = |id: &usize| {
            self.servers[*id].is_reachable() && matches!(self.servers[*id].role, Role::Looking)
        };
        let looking: Vec<_> = (0..self.servers.len()).filter(is_looking).collect();
        let is_leading = |id: &usize| {
            self.servers[*id].is_reachable() && matches!(&self.servers[*id].role, Role::Leading(_))
        };
        let epoch_of = |id: &usize| match &self.servers[*id].role {
            Role::Leading(leadership) => leadership.epoch,
            Role::Looking | Role::Following { .. } => 0,
        };
        let leader = (0..self.servers.len())
            .filter(is_leading)
            .max_by_key(epoch_of)
            .filter(|id| epoch_of(id) == self.epoch);
        match leader {
            Some(leader) => looking.into_iter().for_each(|id| self.follow(id, leader)),
            None if looking.len() > self.servers.len() / 2 => {
                let zxid = |id: &usize| {
                    self.servers[*id].last().map(|index| self.transactions[index].zxid)
                };
                let best = looking
                    .iter()
                    .copied()
                    .max_by_key(|id| (zxid(id), *id))
                    .expect("a majority is not empty");
                self.lead(best);
                looking.into_iter().filter(|id| *id != best).for_each(|id| self.follow(id, best));
                self.commit_acknowledged(best);
            }
            None => {}
        }
    }

    fn lead(&mut self, id: usize) {
        self.epoch += 1;
        self.terms += 1;
        let (term, epoch) = (self.terms, self.epoch);
        let server = &mut self.servers[id];
        let mut outstanding = server.tree.clone();
        for index in &server.log[server.applied..] {
            outstanding.apply(&self.transactions[*index].change);
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
        self.queue.push(self.now + self.config.tick / 2, EnsembleEvent::Ping { server: id, term });
    }

    fn follow(&mut self, id: usize, leader: usize) {
        self.terms += 1;
        let (now, stream) = (self.now, self.terms);
        let touched = BTreeSet::new();
        self.servers[id].role =
            Role::Following { leader, stream, serves: false, heard_at: now, touched };
        let log = self.servers[leader].log.clone();
        let applied = self.servers[leader].applied;
        let Role::Leading(leadership) = &mut self.servers[leader].role else { return };
        let is_established = leadership.tracker.is_some();
        leadership.learners.insert(id, Learner { stream, acked: 0, heard_at: now });
        self.send(leader, id, stream, Message::Sync(log));
        if is_established {
            self.send(leader, id, stream, Message::Commit(applied));
            self.send(leader, id, stream, Message::UpToDate);
        }
        self.queue.push(
            now + self.config.tick * self.config.sync_limit,
            EnsembleEvent::Silence { server: id, stream },
        );
    }
}
