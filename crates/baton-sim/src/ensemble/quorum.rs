//! Messages between servers: proposals, acknowledgements, pings, and session handling.
//!
//! Pure. Start with [`Ensemble::received`]. A stream between two servers is reliable and ordered. A
//! message to or from a partitioned server arrives after the partition if the stream still exists.

use crate::ensemble::server::{Leadership, Role};
use crate::ensemble::tracker::{SessionStatus, Tracker};
use crate::ensemble::tree::{Change, Tree};
use crate::ensemble::{Caller, Effect, Ensemble, EnsembleEvent, Transaction};
use baton_election::queue::messages::{QueueEvent, QueueRequest, SessionId};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// A message between servers.
#[derive(Clone, Debug)]
pub(super) enum Message {
    /// The leader's whole log, for a new follower.
    Sync(Vec<usize>),
    Propose(usize),
    Commit(usize),
    UpToDate,
    Ping,
    /// The timeout of a resumed session, or `None` if it has ended.
    Revalidated(Caller, SessionId, Option<Duration>),
    /// The follower has this much of the log on disk.
    Ack(usize),
    /// The sessions that were active since the last ping.
    Pong(BTreeSet<SessionId>),
    Forward(Caller, SessionId, QueueRequest),
    Revalidate(Caller, SessionId),
}

impl Ensemble {
    /// Sends `message` on the stream with this number.
    pub(super) fn send(&mut self, from: usize, to: usize, stream: u64, message: Message) {
        let latency = self.rng.duration_between(self.config.latency.0, self.config.latency.1);
        let arrives =
            self.now + self.slow_ping(from, to, &message).unwrap_or_default().max(latency);
        let last = &mut self.streams[from][to];
        *last = arrives.max(*last);
        self.queue.push(*last, EnsembleEvent::Message { from, to, stream, message });
    }

    /// The least delivery time of `message` if it is a ping, or the answer to one, that a fault
    /// slows down.
    fn slow_ping(&self, from: usize, to: usize, message: &Message) -> Option<Duration> {
        let is_ping = matches!(message, Message::Ping | Message::Pong(_));
        let slow = || self.servers[from].slow_pings.iter().chain(&self.servers[to].slow_pings);
        if is_ping { slow().max().copied() } else { None }
    }

    /// Server `to` receives a message, which it ignores unless the stream still exists.
    pub(super) fn received(&mut self, from: usize, to: usize, stream: u64, message: Message) {
        let now = self.now;
        match &mut self.servers[to].role {
            Role::Following { leader, stream: current, heard_at, .. }
                if *leader == from && *current == stream =>
            {
                *heard_at = now;
                self.follower_received(to, from, stream, message);
            }
            Role::Leading(leadership) => {
                let Some(learner) =
                    leadership.learners.get_mut(&from).filter(|learner| learner.stream == stream)
                else {
                    return;
                };
                learner.heard_at = now;
                self.leader_received(to, from, message);
            }
            Role::Following { .. } | Role::Looking => {}
        }
    }

    /// A follower receives a message from its leader.
    fn follower_received(&mut self, id: usize, leader: usize, stream: u64, message: Message) {
        match message {
            Message::Sync(log) => {
                self.servers[id].log = log;
                self.ack(id, leader, stream);
            }
            Message::Propose(transaction) => {
                self.servers[id].log.push(transaction);
                self.ack(id, leader, stream);
            }
            Message::Commit(length) => self.apply(id, length),
            Message::UpToDate => {
                if let Role::Following { serves, .. } = &mut self.servers[id].role {
                    *serves = true;
                }
                self.disturbed();
            }
            Message::Ping => {
                let Role::Following { touched, .. } = &mut self.servers[id].role else { return };
                let touched = std::mem::take(touched);
                self.send(id, leader, stream, Message::Pong(touched));
            }
            Message::Revalidated(caller, session, timeout) => {
                self.session_resumed(id, caller, session, timeout);
            }
            Message::Ack(_) | Message::Pong(_) | Message::Forward(..) | Message::Revalidate(..) => {
            }
        }
    }

    fn ack(&mut self, id: usize, leader: usize, stream: u64) {
        let length = self.servers[id].log.len();
        self.send(id, leader, stream, Message::Ack(length));
    }

    /// A leader receives a message from a follower.
    fn leader_received(&mut self, id: usize, from: usize, message: Message) {
        let local_time = self.servers[id].clock.read(self.now);
        let Role::Leading(leadership) = &mut self.servers[id].role else { return };
        match message {
            Message::Ack(length) => {
                if let Some(learner) = leadership.learners.get_mut(&from) {
                    learner.acked = learner.acked.max(length);
                }
                self.commit_acknowledged(id);
            }
            Message::Pong(sessions) => {
                if let Some(tracker) = &mut leadership.tracker {
                    for session in sessions {
                        tracker.touch(session, local_time);
                    }
                }
            }
            Message::Forward(caller, session, request) => {
                self.propose_for(id, caller, session, &request);
            }
            Message::Revalidate(caller, session) => {
                let timeout = leadership
                    .tracker
                    .as_mut()
                    .and_then(|tracker| tracker.resume_session(session, from, local_time));
                let Some(stream) = leadership.learners.get(&from).map(|learner| learner.stream)
                else {
                    return;
                };
                self.send(id, from, stream, Message::Revalidated(caller, session, timeout));
            }
            Message::Sync(_)
            | Message::Propose(_)
            | Message::Commit(_)
            | Message::UpToDate
            | Message::Ping
            | Message::Revalidated(..) => {}
        }
    }

    /// The leader `id` proposes a client's request.
    pub(super) fn propose_for(
        &mut self,
        id: usize,
        caller: Caller,
        session: SessionId,
        request: &QueueRequest,
    ) {
        let local_time = self.servers[id].clock.read(self.now);
        let Role::Leading(leadership) = &mut self.servers[id].role else { return };
        let Leadership { epoch, counter, outstanding, tracker: Some(tracker), .. } =
            &mut **leadership
        else {
            return;
        };
        let zxid = *epoch << 32 | (*counter + 1);
        let (change, reply) = match (request, tracker.session_status(session, caller.server)) {
            (QueueRequest::Begin { timeout }, _) => {
                tracker.open(session, *timeout, Some(caller.server), local_time);
                outstanding.prepare(request, session, zxid)
            }
            (_, SessionStatus::Live) => outstanding.prepare(request, session, zxid),
            (_, SessionStatus::Expired) => (Change::None, QueueEvent::Expired),
            (_, SessionStatus::Moved) => (Change::None, QueueEvent::Unknown),
        };
        if let Change::Close(session) = change {
            tracker.mark_closing(session);
        }
        if reply == QueueEvent::Unknown {
            // Another server has resumed the session, which only this request reveals.
            self.effects.push_back(Effect::Disturbed);
        }
        self.propose(
            id,
            Transaction { zxid, change, caller: Some((caller, request.clone(), reply)) },
        );
    }

    /// The leader `id` proposes a transaction.
    pub(super) fn propose(&mut self, id: usize, transaction: Transaction) {
        let Role::Leading(leadership) = &mut self.servers[id].role else { return };
        leadership.counter += 1;
        leadership.outstanding.apply(&transaction.change);
        self.transactions.push(Rc::new(transaction));
        let index = self.transactions.len() - 1;
        self.servers[id].log.push(index);
        self.broadcast(id, &Message::Propose(index));
        self.commit_acknowledged(id);
    }

    /// Commits what a majority has on disk.
    pub(super) fn commit_acknowledged(&mut self, id: usize) {
        let majority = self.servers.len() / 2;
        let server = &mut self.servers[id];
        let Role::Leading(leadership) = &mut server.role else { return };
        let acked = || leadership.learners.values().map(|learner| learner.acked);
        let is_committed =
            |length: &usize| acked().filter(|acked| acked >= length).count() >= majority;
        let committed =
            if majority == 0 { Some(server.log.len()) } else { acked().filter(is_committed).max() };
        let Some(length) = committed else { return };
        let length = length.min(server.log.len());
        if leadership.tracker.is_none() {
            // A new leader is established once a majority has its whole log.
            if length < server.log.len() {
                return;
            }
            self.apply(id, length);
            return self.establish(id);
        }
        if length > server.applied {
            self.apply(id, length);
            self.broadcast(id, &Message::Commit(length));
        }
    }

    fn establish(&mut self, id: usize) {
        let server = &mut self.servers[id];
        let local_time = server.clock.read(self.now);
        let tracker = Tracker::new(self.config.tick, &server.tree.sessions, local_time);
        let next = server.clock.when(tracker.next_bucket(local_time));
        let Role::Leading(leadership) = &mut server.role else { return };
        leadership.tracker = Some(tracker);
        let term = leadership.term;
        self.queue.push(next, EnsembleEvent::Expiry { server: id, term });
        self.disturbed();
        let length = self.servers[id].applied;
        self.broadcast(id, &Message::Commit(length));
        self.broadcast(id, &Message::UpToDate);
    }

    fn broadcast(&mut self, id: usize, message: &Message) {
        for to in 0..self.servers.len() {
            let Role::Leading(leadership) = &self.servers[id].role else { return };
            if let Some(stream) = leadership.learners.get(&to).map(|learner| learner.stream) {
                self.send(id, to, stream, message.clone());
            }
        }
    }

    /// Pings all followers every half tick. The leader steps down if it has not heard from a
    /// majority within the sync limit.
    pub(super) fn ping(&mut self, id: usize, term: u64) {
        let (now, limit) = (self.now, self.config.tick * self.config.sync_limit);
        let majority = self.servers.len() / 2;
        let server = &mut self.servers[id];
        let Role::Leading(leadership) = &mut server.role else { return };
        if leadership.term != term {
            return;
        }
        leadership.learners.retain(|_, learner| now.since(learner.heard_at) <= limit);
        let next = server.clock.when(server.clock.read(now) + self.config.tick / 2);
        if leadership.learners.len() < majority {
            return self.start_looking(id);
        }
        self.broadcast(id, &Message::Ping);
        self.queue.push(next, EnsembleEvent::Ping { server: id, term });
    }

    /// Closes the sessions whose bucket has expired.
    pub(super) fn expire(&mut self, id: usize, term: u64) {
        let server = &mut self.servers[id];
        let local_time = server.clock.read(self.now);
        let Role::Leading(leadership) = &mut server.role else { return };
        let Some(tracker) = leadership.tracker.as_mut().filter(|_| leadership.term == term) else {
            return;
        };
        let expired = tracker.expire(local_time);
        let next = server.clock.when(tracker.next_bucket(local_time));
        self.queue.push(next, EnsembleEvent::Expiry { server: id, term });
        for session in expired {
            let Role::Leading(leadership) = &self.servers[id].role else { return };
            let zxid = leadership.epoch << 32 | (leadership.counter + 1);
            self.propose(id, Transaction { zxid, change: Change::Close(session), caller: None });
        }
    }

    /// A follower whose leader has been silent for the sync limit looks for a new one.
    pub(super) fn check_silence(&mut self, id: usize, stream: u64) {
        let limit = self.config.tick * self.config.sync_limit;
        let Role::Following { stream: current, heard_at, .. } = &self.servers[id].role else {
            return;
        };
        if *current != stream {
            return;
        }
        let silent_at = *heard_at + limit;
        if silent_at <= self.now {
            self.start_looking(id);
        } else {
            self.queue.push(silent_at, EnsembleEvent::Silence { server: id, stream });
        }
    }

    /// All servers return to a backup that is `ago` transactions old, and reuse zxids from there.
    /// None of them resumes a session whose client has seen more than they have, even if the
    /// session exists until it times out.
    pub(super) fn restore_backup(&mut self, ago: usize) {
        let length = self.committed_len.saturating_sub(ago);
        let newest = (0..self.servers.len())
            .max_by_key(|id| self.servers[*id].applied)
            .expect("an ensemble is not empty");
        let log = self.servers[newest].log[..length].to_vec();
        let mut tree = Tree::default();
        for index in &log {
            tree.apply(&self.transactions[*index].change);
        }
        self.epoch = log.last().map_or(0, |index| self.transactions[*index].zxid >> 32);
        for id in 0..self.servers.len() {
            let server = &mut self.servers[id];
            (server.log, server.applied, server.tree) = (log.clone(), length, tree.clone());
            self.start_looking(id);
        }
        for client in &mut self.clients {
            client.seen = usize::MAX;
        }
        (self.committed, self.committed_len) = (tree, length);
        self.report_holder(None);
    }
}
