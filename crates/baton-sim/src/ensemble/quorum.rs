//! How the servers of an ensemble speak to each other: proposals, acknowledgements, pings, elections.
//!
//! Pure. Start with [`Ensemble::received`]. A stream between two servers loses nothing and keeps its order; what is sent
//! while one of them is cut off comes in later, unless the stream is no more by then.

use crate::ensemble::server::{Leadership, Role};
use crate::ensemble::tracker::{Tracker, Verdict};
use crate::ensemble::tree::{Change, Tree};
use crate::ensemble::{Caller, Effect, Ensemble, Entry, Happens};
use baton_election::queue::messages::{QueueEvent, QueueRequest, SessionId};
use std::collections::BTreeSet;
use std::time::Duration;

/// What one server tells another.
#[derive(Clone, Debug)]
pub(super) enum Message {
    /// A leader's whole log, for one who begins to follow.
    Sync(Vec<usize>),
    Propose(usize),
    Commit(usize),
    UpToDate,
    Ping,
    /// Whether a session was taken up.
    Revalidated(Caller, SessionId, Option<Duration>),
    /// The follower has so much of the log.
    Ack(usize),
    /// Who was heard of since the last ping.
    Pong(BTreeSet<SessionId>),
    Forward(Caller, SessionId, QueueRequest),
    Revalidate(Caller, SessionId),
}

impl Ensemble {
    /// Sends over the stream of that number.
    pub(super) fn tell(&mut self, from: usize, to: usize, stream: u64, message: Message) {
        let latency = self.chance.lasting(self.kind.latency.0, self.kind.latency.1);
        let arrives =
            self.now + self.slow_ping(from, to, &message).unwrap_or_default().max(latency);
        let last = &mut self.streams[from][to];
        *last = arrives.max(*last);
        self.queue.put(*last, Happens::Message { from, to, stream, message });
    }

    /// How long this message takes at least, if it is a ping or its answer and a fault slows those.
    fn slow_ping(&self, from: usize, to: usize, message: &Message) -> Option<Duration> {
        let is_ping = matches!(message, Message::Ping | Message::Pong(_));
        let slow = || self.servers[from].slow_pings.iter().chain(&self.servers[to].slow_pings);
        if is_ping { slow().max().copied() } else { None }
    }

    pub(super) fn received(&mut self, from: usize, to: usize, stream: u64, message: Message) {
        let now = self.now;
        match &mut self.servers[to].role {
            Role::Following { leader, stream: own, heard_at, .. }
                if *leader == from && *own == stream =>
            {
                *heard_at = now;
                self.learnt(to, from, stream, message);
            }
            Role::Leading(leadership) => {
                let Some(learner) =
                    leadership.learners.get_mut(&from).filter(|learner| learner.stream == stream)
                else {
                    return;
                };
                learner.heard_at = now;
                self.told(to, from, message);
            }
            Role::Following { .. } | Role::Looking => {}
        }
    }

    /// A follower hears from its leader.
    fn learnt(&mut self, own: usize, leader: usize, stream: u64, message: Message) {
        match message {
            Message::Sync(log) => {
                self.servers[own].log = log;
                self.ack(own, leader, stream);
            }
            Message::Propose(entry) => {
                self.servers[own].log.push(entry);
                self.ack(own, leader, stream);
            }
            Message::Commit(length) => self.apply(own, length),
            Message::UpToDate => {
                if let Role::Following { serves, .. } = &mut self.servers[own].role {
                    *serves = true;
                }
                self.stirred();
            }
            Message::Ping => {
                let Role::Following { touched, .. } = &mut self.servers[own].role else { return };
                let touched = std::mem::take(touched);
                self.tell(own, leader, stream, Message::Pong(touched));
            }
            Message::Revalidated(caller, session, timeout) => {
                self.taken_up(own, caller, session, timeout);
            }
            Message::Ack(_) | Message::Pong(_) | Message::Forward(..) | Message::Revalidate(..) => {
            }
        }
    }

    fn ack(&mut self, own: usize, leader: usize, stream: u64) {
        let length = self.servers[own].log.len();
        self.tell(own, leader, stream, Message::Ack(length));
    }

    /// A leader hears from a follower.
    fn told(&mut self, own: usize, from: usize, message: Message) {
        let shown = self.servers[own].clock.read(self.now);
        let Role::Leading(leadership) = &mut self.servers[own].role else { return };
        match message {
            Message::Ack(length) => {
                if let Some(learner) = leadership.learners.get_mut(&from) {
                    learner.acked = learner.acked.max(length);
                }
                self.count(own);
            }
            Message::Pong(sessions) => {
                if let Some(tracker) = &mut leadership.tracker {
                    for session in sessions {
                        tracker.touch(session, shown);
                    }
                }
            }
            Message::Forward(caller, session, request) => {
                self.propose_for(own, caller, session, &request);
            }
            Message::Revalidate(caller, session) => {
                let timeout = leadership
                    .tracker
                    .as_mut()
                    .and_then(|tracker| tracker.take_up(session, from, shown));
                let Some(stream) = leadership.learners.get(&from).map(|learner| learner.stream)
                else {
                    return;
                };
                self.tell(own, from, stream, Message::Revalidated(caller, session, timeout));
            }
            Message::Sync(_)
            | Message::Propose(_)
            | Message::Commit(_)
            | Message::UpToDate
            | Message::Ping
            | Message::Revalidated(..) => {}
        }
    }

    /// The leader `own` proposes what a candidate asked for.
    pub(super) fn propose_for(
        &mut self,
        own: usize,
        caller: Caller,
        session: SessionId,
        request: &QueueRequest,
    ) {
        let shown = self.servers[own].clock.read(self.now);
        let Role::Leading(leadership) = &mut self.servers[own].role else { return };
        let Leadership { epoch, counter, outstanding, tracker: Some(tracker), .. } =
            &mut **leadership
        else {
            return;
        };
        let zxid = *epoch << 32 | (*counter + 1);
        let (change, reply) = match (request, tracker.judge(session, caller.server)) {
            (QueueRequest::Begin { timeout }, _) => {
                tracker.open(session, *timeout, Some(caller.server), shown);
                outstanding.prepare(request, session, zxid)
            }
            (_, Verdict::Lives) => outstanding.prepare(request, session, zxid),
            (_, Verdict::Over) => (Change::None, QueueEvent::Expired),
            (_, Verdict::Moved) => (Change::None, QueueEvent::Unknown),
        };
        if let Change::Close(session) = change {
            tracker.closing(session);
        }
        if reply == QueueEvent::Unknown {
            // A late word of another server took the session away, and only this request shows it.
            self.effects.push_back(Effect::Stirred);
        }
        self.propose(own, Entry { zxid, change, caller: Some((caller, request.clone(), reply)) });
    }

    /// The leader `own` proposes a transaction.
    pub(super) fn propose(&mut self, own: usize, entry: Entry) {
        let Role::Leading(leadership) = &mut self.servers[own].role else { return };
        leadership.counter += 1;
        leadership.outstanding.apply(&entry.change);
        self.entries.push(entry);
        let place = self.entries.len() - 1;
        self.servers[own].log.push(place);
        self.tell_learners(own, &Message::Propose(place));
        self.count(own);
    }

    /// Commits what a majority has on its disks.
    pub(super) fn count(&mut self, own: usize) {
        let majority = self.servers.len() / 2;
        let server = &mut self.servers[own];
        let Role::Leading(leadership) = &mut server.role else { return };
        let acked = || leadership.learners.values().map(|learner| learner.acked);
        let is_agreed =
            |length: &usize| acked().filter(|acked| acked >= length).count() >= majority;
        let agreed =
            if majority == 0 { Some(server.log.len()) } else { acked().filter(is_agreed).max() };
        let Some(length) = agreed else { return };
        let length = length.min(server.log.len());
        if leadership.tracker.is_none() {
            // A new leader counts from when it has a majority that has all it has.
            if length < server.log.len() {
                return;
            }
            self.apply(own, length);
            return self.establish(own);
        }
        if length > server.applied {
            self.apply(own, length);
            self.tell_learners(own, &Message::Commit(length));
        }
    }

    fn establish(&mut self, own: usize) {
        let server = &mut self.servers[own];
        let shown = server.clock.read(self.now);
        let tracker = Tracker::new(self.kind.tick, &server.tree.sessions, shown);
        let next = server.clock.when(tracker.next(shown));
        let Role::Leading(leadership) = &mut server.role else { return };
        leadership.tracker = Some(tracker);
        let term = leadership.term;
        self.queue.put(next, Happens::Expiry { server: own, term });
        self.stirred();
        let length = self.servers[own].applied;
        self.tell_learners(own, &Message::Commit(length));
        self.tell_learners(own, &Message::UpToDate);
    }

    fn tell_learners(&mut self, own: usize, message: &Message) {
        for to in 0..self.servers.len() {
            let Role::Leading(leadership) = &self.servers[own].role else { return };
            if let Some(stream) = leadership.learners.get(&to).map(|learner| learner.stream) {
                self.tell(own, to, stream, message.clone());
            }
        }
    }

    /// Half a tick has passed for a leader: it pings, and steps down where no majority was heard of for too long.
    pub(super) fn ping(&mut self, own: usize, term: u64) {
        let (now, limit) = (self.now, self.kind.tick * self.kind.sync_limit);
        let majority = self.servers.len() / 2;
        let server = &mut self.servers[own];
        let Role::Leading(leadership) = &mut server.role else { return };
        if leadership.term != term {
            return;
        }
        leadership.learners.retain(|_, learner| now.since(learner.heard_at) <= limit);
        let next = server.clock.when(server.clock.read(now) + self.kind.tick / 2);
        if leadership.learners.len() < majority {
            return self.look(own);
        }
        self.tell_learners(own, &Message::Ping);
        self.queue.put(next, Happens::Ping { server: own, term });
    }

    /// A bucket of sessions is over.
    pub(super) fn expire(&mut self, own: usize, term: u64) {
        let server = &mut self.servers[own];
        let shown = server.clock.read(self.now);
        let Role::Leading(leadership) = &mut server.role else { return };
        let Some(tracker) = leadership.tracker.as_mut().filter(|_| leadership.term == term) else {
            return;
        };
        let over = tracker.expire(shown);
        let next = server.clock.when(tracker.next(shown));
        self.queue.put(next, Happens::Expiry { server: own, term });
        for session in over {
            let Role::Leading(leadership) = &self.servers[own].role else { return };
            let zxid = leadership.epoch << 32 | (leadership.counter + 1);
            self.propose(own, Entry { zxid, change: Change::Close(session), caller: None });
        }
    }

    /// A follower looks whether its leader has been silent for too long.
    pub(super) fn listen(&mut self, own: usize, stream: u64) {
        let limit = self.kind.tick * self.kind.sync_limit;
        let Role::Following { stream: current, heard_at, .. } = &self.servers[own].role else {
            return;
        };
        if *current != stream {
            return;
        }
        let silent = *heard_at + limit;
        if silent <= self.now {
            self.look(own);
        } else {
            self.queue.put(silent, Happens::Silence { server: own, stream });
        }
    }

    /// All servers come back from a backup that is so many transactions old, and number anew from there. None of them takes up
    /// a session whose client has seen more than they have, though it may still be there, until its time is over.
    pub(super) fn set_back(&mut self, ago: usize) {
        let length = self.agreed_length.saturating_sub(ago);
        let newest = (0..self.servers.len())
            .max_by_key(|own| self.servers[*own].applied)
            .expect("there is a server");
        let log = self.servers[newest].log[..length].to_vec();
        let mut tree = Tree::default();
        for place in &log {
            tree.apply(&self.entries[*place].change);
        }
        self.epoch = log.last().map_or(0, |place| self.entries[*place].zxid >> 32);
        for own in 0..self.servers.len() {
            let server = &mut self.servers[own];
            (server.log, server.applied, server.tree) = (log.clone(), length, tree.clone());
            self.look(own);
        }
        for client in &mut self.clients {
            client.seen = usize::MAX;
        }
        (self.agreed, self.agreed_length) = (tree, length);
        self.tell_first(None);
    }
}
