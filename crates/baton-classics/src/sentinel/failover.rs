//! The failover: agreement that the master is down, the vote, and the promotion of a replica.
//!
//! Pure. Start with [`SentinelNode::fail_over`], which follows `sentinelFailoverStateMachine`.

use super::{Message, Opinion, PERIOD, SentinelNode};
use crate::machine::{NodeId, Purpose, majority};
use baton_election::instant::Instant;
use std::time::Duration;

/// A candidate gives up after this long without a majority (`SENTINEL_ELECTION_TIMEOUT`).
const ELECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest random time by which a start is dated ahead, so that sentinels rarely try again at
/// once (`SENTINEL_MAX_DESYNC`).
const LONGEST_DESYNC: Duration = Duration::from_secs(1);
/// A replica is promoted only if it has answered within this time.
const FRESH: Duration = Duration::from_secs(5);

/// A failover that this sentinel carries out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failover {
    epoch: u64,
    started: Instant,
    /// The replica that the elected sentinel promotes.
    promoted: Option<NodeId>,
}

impl SentinelNode {
    /// One step. A sentinel that sees the master down asks the others. If enough agree, it asks for
    /// votes, and with a majority it promotes a replica.
    pub(super) fn fail_over(&mut self, now: Instant) {
        match self.failover {
            None if self.is_down(self.stored.master, now) => {
                self.ask(false, now);
                if self.agrees_on_death(now) && now >= self.not_before {
                    self.start(now);
                }
            }
            None => {}
            Some(Failover { epoch, started, promoted: None }) => {
                if now.since(started) > ELECTION_TIMEOUT {
                    self.failover = None;
                } else if self.has_majority(epoch, now) {
                    self.promote(epoch, started, now);
                } else {
                    self.ask(true, now);
                }
            }
            Some(Failover { epoch, started, promoted: Some(replica) }) => {
                self.finish(epoch, started, replica, now);
            }
        }
    }

    /// Asks once a second.
    fn ask(&mut self, wants_vote: bool, now: Instant) {
        if now < self.ask_at {
            return;
        }
        self.ask_at = now + PERIOD;
        let (epoch, master) = (self.stored.epoch, self.stored.master);
        for peer in self.boot.peers() {
            self.outbox.send(peer, Message::IsMasterDown { epoch, master, wants_vote });
        }
    }

    /// The answers that still count.
    fn fresh_answers(&self, now: Instant) -> impl Iterator<Item = &Opinion> {
        self.answers.values().filter(move |answer| now.since(answer.at) <= PERIOD * 5)
    }

    /// ODOWN: a quorum of sentinels has not heard from the master (here, a majority).
    fn agrees_on_death(&self, now: Instant) -> bool {
        let down = self.fresh_answers(now).filter(|answer| answer.is_down).count();
        down + 1 >= majority(self.boot.candidates)
    }

    fn start(&mut self, now: Instant) {
        self.stored.epoch += 1;
        let wait = self.rng.duration_between(Duration::ZERO, LONGEST_DESYNC);
        let epoch = self.stored.epoch;
        self.failover = Some(Failover { epoch, started: now + wait, promoted: None });
        self.not_before = now + wait + self.settings.failover_timeout * 2;
        self.vote(self.boot.me, epoch, now);
        self.ask_at = now;
        self.ask(true, now);
    }

    /// One vote for each epoch, and it is stored before the answer (`sentinelVoteLeader`).
    pub(super) fn vote(&mut self, candidate: NodeId, epoch: u64, now: Instant) {
        self.stored.epoch = self.stored.epoch.max(epoch);
        let has_voted = self.stored.vote.is_some_and(|(voted, _)| voted >= epoch);
        if has_voted || epoch < self.stored.epoch {
            return;
        }
        self.stored.vote = Some((epoch, candidate));
        if candidate != self.boot.me {
            let wait = self.rng.duration_between(Duration::ZERO, LONGEST_DESYNC);
            self.not_before = now + wait + self.settings.failover_timeout * 2;
        }
    }

    fn has_majority(&self, epoch: u64, now: Instant) -> bool {
        let own = self.stored.vote;
        let votes = self.fresh_answers(now).map(|answer| answer.vote).chain([own]);
        let votes = votes.filter(|vote| *vote == Some((epoch, self.boot.me))).count();
        votes >= majority(self.boot.candidates)
    }

    /// Promotes the replica with the smallest number among those that answer. Without a difference
    /// in priority and offset, Redis takes the smallest run identifier.
    fn promote(&mut self, epoch: u64, started: Instant, now: Instant) {
        let master = self.stored.master;
        let is_fresh = |node: &NodeId| {
            *node == self.boot.me
                || self.instances.get(node).is_some_and(|one| now.since(one.heard) < FRESH)
        };
        let mut nodes = (0..self.boot.candidates).map(NodeId).filter(|node| *node != master);
        let Some(replica) = nodes.find(is_fresh) else {
            self.failover = None;
            return;
        };
        self.failover = Some(Failover { epoch, started, promoted: Some(replica) });
        if replica == self.boot.me {
            self.replicate(None);
        } else {
            self.outbox.send(replica, Message::ReplicaOf { master: None });
        }
        self.finish(epoch, started, replica, now);
    }

    /// Once the replica reports that it is a master, announces it and lets the others replicate it.
    fn finish(&mut self, epoch: u64, started: Instant, replica: NodeId, now: Instant) {
        let is_master = if replica == self.boot.me {
            self.stored.replica_of.is_none()
        } else {
            self.instances.get(&replica).is_some_and(|one| one.replica_of.is_none())
        };
        if !is_master {
            if now.since(started) > self.settings.failover_timeout {
                self.failover = None;
            } else if replica != self.boot.me {
                self.outbox.push(replica, Message::Ping, Purpose::Election);
            }
            return;
        }
        self.failover = None;
        self.stored.master = replica;
        self.stored.config_epoch = epoch;
        self.adopted_at = now;
        self.announce(Purpose::Election);
        for peer in self.boot.peers().filter(|peer| *peer != replica) {
            self.outbox.send(peer, Message::ReplicaOf { master: Some(replica) });
        }
        if replica != self.boot.me {
            self.replicate(Some(replica));
        }
    }
}
