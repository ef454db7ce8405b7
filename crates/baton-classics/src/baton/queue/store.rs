//! A store with sessions, a queue of ephemeral znodes, an announcement, and one-shot watches.
//!
//! Pure. Start with [`Store::handle_request`], whose replies are those that
//! [`QueueRequest`] lists.

use super::Message;
use crate::machine::{NodeId, Outbox, Purpose};
use baton_election::instant::Instant;
use baton_election::queue::messages::{Announcement, QueueEvent, QueueRequest, SessionId};
use std::collections::BTreeMap;
use std::time::Duration;

/// The store.
#[derive(Debug, Default)]
pub struct Store {
    sessions: BTreeMap<SessionId, Session>,
    last_session: u64,
    /// The id of the last transaction.
    zxid: u64,
    has_path: bool,
    joins: u32,
    /// The znodes of candidates in the order of the queue.
    queue: Vec<(String, SessionId)>,
    announcement: Option<(String, SessionId)>,
    /// The watched znode, and the node and connection that watch it.
    watches: Vec<(String, NodeId, u64)>,
    pub(super) outbox: Outbox<Message>,
}

#[derive(Debug)]
struct Session {
    node: NodeId,
    connection: u64,
    timeout: Duration,
    expires_at: Instant,
}

impl Store {
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.sessions.values().map(|session| session.expires_at).min()
    }

    /// Ends sessions that were silent for too long.
    pub(super) fn expire_sessions(&mut self, now: Instant) {
        let is_over = |session: &Session| session.expires_at <= now;
        while let Some((id, _)) = self.sessions.iter().find(|(_, session)| is_over(session)) {
            let id = *id;
            if let Some(Session { node, connection, .. }) = self.end_session(id) {
                let event = QueueEvent::Disconnected;
                self.outbox.send(node, Message::Watch { connection, event });
            }
        }
    }

    pub(super) fn handle_request(
        &mut self,
        from: NodeId,
        number: u64,
        request: &QueueRequest,
        session: Option<SessionId>,
        purpose: Purpose,
        now: Instant,
    ) {
        self.expire_sessions(now);
        let event = if let QueueRequest::Begin { timeout } = request {
            self.begin(from, number, *timeout, now)
        } else if let Some(id) = session
            && let Some(session) = self.sessions.get_mut(&id)
        {
            session.expires_at = now + session.timeout;
            if matches!(request, QueueRequest::Resume { .. }) {
                session.connection = number;
                self.watches.retain(|(_, node, _)| *node != from);
            }
            self.perform(id, request)
        } else {
            QueueEvent::Expired
        };
        self.outbox.push(from, Message::Reply { number, event }, purpose);
    }

    fn begin(
        &mut self,
        node: NodeId,
        connection: u64,
        timeout: Duration,
        now: Instant,
    ) -> QueueEvent {
        self.last_session += 1;
        let id = SessionId(self.last_session);
        let expires_at = now + timeout;
        self.sessions.insert(id, Session { node, connection, timeout, expires_at });
        self.watches.retain(|(_, watcher, _)| *watcher != node);
        QueueEvent::Connected { session: id, timeout }
    }

    fn perform(&mut self, id: SessionId, request: &QueueRequest) -> QueueEvent {
        match request {
            QueueRequest::Begin { .. } => QueueEvent::Unknown,
            QueueRequest::Resume { .. } => {
                let timeout = self.sessions.get(&id).map(|session| session.timeout);
                QueueEvent::Connected { session: id, timeout: timeout.unwrap_or_default() }
            }
            QueueRequest::Close => {
                self.end_session(id);
                QueueEvent::Closed
            }
            QueueRequest::MakePath => {
                self.has_path = true;
                QueueEvent::Made
            }
            QueueRequest::Join { .. } | QueueRequest::List if !self.has_path => QueueEvent::Missing,
            QueueRequest::Join { prefix, .. } => {
                self.zxid += 1;
                let name = format!("{prefix}{:010}", self.joins);
                self.joins += 1;
                self.queue.push((name.clone(), id));
                QueueEvent::Joined { name, czxid: self.zxid }
            }
            QueueRequest::List => {
                QueueEvent::Listed(self.queue.iter().map(|(name, _)| name.clone()).collect())
            }
            QueueRequest::Watch { name } => {
                let Some(owner) = self.owner(name) else { return QueueEvent::Missing };
                if let Some(session) = self.sessions.get(&id) {
                    let watch = (name.clone(), session.node, session.connection);
                    if !self.watches.contains(&watch) {
                        self.watches.push(watch);
                    }
                }
                QueueEvent::Found { owner: Some(owner) }
            }
            QueueRequest::Check { name } | QueueRequest::Announce { name, .. }
                if self.owner(name).is_none() =>
            {
                QueueEvent::Missing
            }
            QueueRequest::Check { .. } => QueueEvent::Checked,
            QueueRequest::ReadLeader => {
                let announcement = self.announcement.clone();
                QueueEvent::Leader(
                    announcement.map(|(text, owner)| Announcement { text, owner: Some(owner) }),
                )
            }
            QueueRequest::Announce { replaces, .. } if self.announcement.is_some() != *replaces => {
                QueueEvent::Changed
            }
            QueueRequest::Announce { text, .. } => {
                self.zxid += 1;
                self.announcement = Some((text.clone(), id));
                QueueEvent::Announced
            }
        }
    }

    fn owner(&self, name: &str) -> Option<SessionId> {
        self.queue.iter().find(|(child, _)| child == name).map(|(_, owner)| *owner)
    }

    /// Deletes the znodes of a session, and fires the watches on them.
    fn end_session(&mut self, id: SessionId) -> Option<Session> {
        let session = self.sessions.remove(&id);
        self.zxid += 1;
        self.announcement.take_if(|(_, owner)| *owner == id);
        let gone: Vec<_> = self.queue.extract_if(.., |(_, owner)| *owner == id).collect();
        let is_gone = |name: &String| gone.iter().any(|(child, _)| child == name);
        for (_, node, connection) in self.watches.extract_if(.., |(name, ..)| is_gone(name)) {
            let event = QueueEvent::WatchFired;
            self.outbox.send(node, Message::Watch { connection, event });
        }
        session
    }
}
