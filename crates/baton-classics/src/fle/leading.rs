//! The leader's half of the handshake, and its quorum (`Leader.lead`, `LearnerHandler.run`).
//!
//! Pure. Start with [`FleNode::lead`].

use super::{FleNode, Message, State};
use crate::machine::{NodeId, Purpose, majority};
use baton_election::instant::Instant;
use std::collections::{BTreeMap, BTreeSet};

/// A server in the state LEADING.
#[derive(Debug)]
pub(super) struct Leading {
    /// The new epoch, once a quorum has told its accepted epochs.
    epoch: Option<u64>,
    /// The accepted epochs of the servers that are connected, and the leader's own.
    accepted: BTreeMap<NodeId, u64>,
    /// The servers whose promise of the new epoch counts (`electingFollowers`), those whose
    /// acknowledgment has arrived, and those that have stored the epoch.
    promised: BTreeSet<NodeId>,
    acknowledged: BTreeSet<NodeId>,
    stored: BTreeSet<NodeId>,
    /// Whether a quorum has stored the epoch.
    pub(super) is_established: bool,
    heard: BTreeMap<NodeId, Instant>,
    /// When the leader pings, or gives up the handshake.
    pub(super) due: Instant,
    pings: u32,
}

impl Leading {
    pub(super) fn hear(&mut self, from: NodeId, now: Instant) {
        if self.stored.contains(&from) {
            self.heard.insert(from, now);
        }
    }
}

impl FleNode {
    /// Waits for followers.
    pub(super) fn lead(&mut self, now: Instant) {
        let me = self.boot.me;
        self.state = State::Leading(Leading {
            epoch: None,
            accepted: BTreeMap::from([(me, self.stored.accepted_epoch)]),
            promised: BTreeSet::from([me]),
            acknowledged: BTreeSet::new(),
            stored: BTreeSet::from([me]),
            is_established: false,
            heard: BTreeMap::new(),
            due: now + self.settings.handshake(),
            pings: 0,
        });
    }

    /// A follower connects. The epoch is one more than the latest that a quorum has promised
    /// (`getEpochToPropose`).
    pub(super) fn accept_follower(&mut self, from: NodeId, accepted_epoch: u64) {
        let quorum = majority(self.boot.candidates);
        let State::Leading(leading) = &mut self.state else { return };
        leading.accepted.insert(from, accepted_epoch);
        leading.acknowledged.remove(&from);
        leading.stored.remove(&from);
        if let Some(epoch) = leading.epoch {
            self.outbox.send(from, Message::LeaderInfo { epoch });
        } else if leading.accepted.len() >= quorum {
            let latest = leading.accepted.values().max().copied().unwrap_or_default();
            let epoch = latest + 1;
            leading.epoch = Some(epoch);
            self.stored.accepted_epoch = epoch;
            for follower in leading.accepted.keys().filter(|node| **node != self.boot.me) {
                self.outbox.send(*follower, Message::LeaderInfo { epoch });
            }
        }
    }

    /// A follower promises the epoch. `state` is its current epoch and its last zxid, if the promise
    /// counts. A follower that has seen more than the leader is refused (`waitForEpochAck`).
    pub(super) fn count_epoch_ack(&mut self, from: NodeId, epoch: u64, state: Option<(u64, u64)>) {
        let quorum = majority(self.boot.candidates);
        let own = (self.stored.current_epoch, self.stored.zxid);
        let State::Leading(leading) = &mut self.state else { return };
        if leading.epoch != Some(epoch) {
            return;
        }
        let had_quorum = leading.promised.len() >= quorum;
        if !had_quorum && state > Some(own) {
            self.outbox.send(from, Message::Closed);
            return;
        }
        if state.is_some() {
            leading.promised.insert(from);
        }
        leading.acknowledged.insert(from);
        let message = Message::NewLeader { epoch, zxid: self.stored.zxid };
        if had_quorum {
            self.outbox.send(from, message);
        } else if leading.promised.len() >= quorum {
            self.stored.current_epoch = epoch;
            for follower in &leading.acknowledged {
                self.outbox.send(*follower, message);
            }
        }
    }

    /// A follower has stored the epoch. The leader may act once a quorum has.
    pub(super) fn count_ack(&mut self, from: NodeId, epoch: u64, now: Instant) {
        let quorum = majority(self.boot.candidates);
        let State::Leading(leading) = &mut self.state else { return };
        if leading.epoch != Some(epoch) {
            return;
        }
        leading.stored.insert(from);
        leading.heard.insert(from, now);
        if leading.is_established {
            self.outbox.send(from, Message::UpToDate { epoch });
        } else if leading.stored.len() >= quorum {
            leading.is_established = true;
            self.vote.epoch = epoch;
            leading.due = now + self.settings.tick / 2;
            for follower in leading.stored.iter().filter(|node| **node != self.boot.me) {
                self.outbox.send(*follower, Message::UpToDate { epoch });
            }
        }
    }

    /// Pings twice a tick. Once a tick, the leader checks that it has heard from a quorum within
    /// `syncLimit` ticks.
    pub(super) fn continue_leading(&mut self, now: Instant) {
        let (quorum, silence) = (majority(self.boot.candidates), self.settings.silence());
        let State::Leading(leading) = &mut self.state else { return };
        if now < leading.due {
            return;
        }
        leading.pings += 1;
        let synced = leading.heard.values().filter(|at| now.since(**at) <= silence).count();
        let checks = leading.pings.is_multiple_of(2);
        if !leading.is_established || checks && synced + 1 < quorum {
            for follower in leading.accepted.keys().filter(|node| **node != self.boot.me) {
                self.outbox.send(*follower, Message::Closed);
            }
            self.look_for_leader(now);
            return;
        }
        leading.due = now + self.settings.tick / 2;
        for follower in leading.stored.iter().filter(|node| **node != self.boot.me) {
            self.outbox.push(*follower, Message::Ping, Purpose::Heartbeat);
        }
    }
}
