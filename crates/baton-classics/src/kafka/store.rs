//! A store with sessions, two znodes, and watches, as far as the controller's election needs it.
//!
//! Pure. Start with [`Store::handle_request`].

use super::{Message, Request};
use crate::machine::{NodeId, Outbox, Purpose};
use baton_election::instant::Instant;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The store.
#[derive(Debug)]
pub struct Store {
    session_timeout: Duration,
    sessions: BTreeMap<u64, Session>,
    last_session: u64,
    /// The broker that `/controller` names, and the session that owns it.
    controller: Option<(NodeId, u64)>,
    epoch: u64,
    changes: u64,
    watchers: BTreeSet<NodeId>,
    pub(super) outbox: Outbox<Message>,
}

#[derive(Debug)]
struct Session {
    broker: NodeId,
    expires_at: Instant,
}

impl Store {
    pub(super) fn new(session_timeout: Duration) -> Self {
        Self {
            session_timeout,
            sessions: BTreeMap::new(),
            last_session: 0,
            controller: None,
            epoch: 0,
            changes: 0,
            watchers: BTreeSet::new(),
            outbox: Outbox::default(),
        }
    }

    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.sessions.values().map(|session| session.expires_at).min()
    }

    /// Ends sessions that were silent for too long, with their znodes and watches.
    pub(super) fn expire_sessions(&mut self, now: Instant) {
        let is_over = |session: &Session| session.expires_at <= now;
        while let Some((number, broker)) = self
            .sessions
            .iter()
            .find(|(_, session)| is_over(session))
            .map(|(number, session)| (*number, session.broker))
        {
            self.sessions.remove(&number);
            self.watchers.remove(&broker);
            self.outbox.send(broker, Message::Expired { session: number });
            if self.controller.is_some_and(|(_, owner)| owner == number) {
                self.controller = None;
                self.controller_changed();
            }
        }
    }

    pub(super) fn handle_request(
        &mut self,
        from: NodeId,
        number: u64,
        request: Request,
        now: Instant,
    ) {
        self.expire_sessions(now);
        if request == Request::Connect {
            self.last_session += 1;
            let session = Session { broker: from, expires_at: now + self.session_timeout };
            self.sessions.insert(self.last_session, session);
            self.outbox.send(from, Message::Connected { session: self.last_session });
            return;
        }
        let Some(session) = self.sessions.get_mut(&number) else {
            self.outbox.send(from, Message::Expired { session: number });
            return;
        };
        session.expires_at = now + self.session_timeout;
        match request {
            Request::Connect => {}
            Request::Ping => {
                let message = Message::Pong { changes: self.changes };
                self.outbox.push(from, message, Purpose::Heartbeat);
            }
            Request::ReadController => {
                self.watchers.insert(from);
                let Self { controller: owner, epoch, changes, .. } = *self;
                self.outbox.send(from, Message::Controller { owner, epoch, changes });
            }
            Request::ReadEpoch => self.outbox.send(from, Message::Epoch { epoch: self.epoch }),
            Request::Register { over } => {
                if self.controller.is_some() || over != self.epoch {
                    self.outbox.send(from, Message::Conflict);
                    return;
                }
                self.controller = Some((from, number));
                self.epoch += 1;
                self.outbox.send(from, Message::Registered { epoch: self.epoch });
                self.controller_changed();
            }
        }
    }

    /// Every watch fires once.
    fn controller_changed(&mut self) {
        self.changes += 1;
        for watcher in std::mem::take(&mut self.watchers) {
            self.outbox.send(watcher, Message::Changed);
        }
    }
}
