//! How servers serve candidates: requests, replies, watches, connections.
//!
//! Pure. Start with [`Ensemble::requested`]: a read is answered at once, of what this server has applied; the rest goes to
//! whoever leads, and is answered when this server applies it.

use crate::ensemble::quorum::Message;
use crate::ensemble::server::{Connection, Role, Server};
use crate::ensemble::tree::{Change, Tree};
use crate::ensemble::{Caller, Ensemble};
use crate::store::Effect;
use crate::trace::Departure;
use baton_election::machine::{Request, Verb};
use baton_election::queue::messages::{QueueEvent, QueueRequest, SessionId};
use std::mem::take;
use std::time::Duration;

impl Ensemble {
    /// A candidate's request has come in.
    pub(super) fn requested(&mut self, caller: Caller, request: &QueueRequest) {
        let server = &mut self.servers[caller.server];
        if server.down > 0 || !server.serves() {
            return self.reply(caller, request, QueueEvent::Unknown);
        }
        match request {
            QueueRequest::Begin { timeout } => {
                self.sessions += 1;
                let session = SessionId(self.sessions);
                let timeout = (*timeout).clamp(self.kind.tick * 2, self.kind.tick * 20);
                self.connect(caller, session);
                self.agree(caller, session, &QueueRequest::Begin { timeout });
            }
            QueueRequest::Resume { .. } => {
                let client = &self.clients[caller.from];
                // A server that is behind what the client has seen does not take it in.
                let Some(session) = client.session.filter(|_| client.seen <= server.applied) else {
                    return self.reply(caller, request, QueueEvent::Unknown);
                };
                self.connect(caller, session);
                self.take_up(caller, session);
            }
            QueueRequest::Close
            | QueueRequest::MakePath
            | QueueRequest::Join { .. }
            | QueueRequest::List
            | QueueRequest::Watch { .. }
            | QueueRequest::Check { .. }
            | QueueRequest::ReadLeader
            | QueueRequest::Announce { .. } => {
                let connection = server
                    .connections
                    .get(&caller.from)
                    .filter(|own| own.number == caller.connection);
                let Some(session) = connection.and_then(|connection| connection.session) else {
                    return self.reply(caller, request, QueueEvent::Unknown);
                };
                server.touch(session, self.now);
                if request.verb() == Verb::List || request.verb() == Verb::Read {
                    let reply = server.tree.read(request);
                    if let (QueueRequest::Watch { name }, QueueEvent::Found { .. }) =
                        (request, &reply)
                    {
                        server.watch(name, caller.from, caller.connection);
                    }
                    self.reply(caller, request, reply);
                } else {
                    self.agree(caller, session, request);
                }
            }
        }
    }

    fn connect(&mut self, caller: Caller, session: SessionId) {
        let connection = Connection { number: caller.connection, session: Some(session) };
        let server = &mut self.servers[caller.server];
        server.connections.insert(caller.from, connection);
        server.watches.retain(|(_, from, _)| *from != caller.from);
    }

    /// Hands a request to whoever leads.
    fn agree(&mut self, caller: Caller, session: SessionId, request: &QueueRequest) {
        match &self.servers[caller.server].role {
            Role::Leading(_) => self.propose_for(caller.server, caller, session, request),
            Role::Following { leader, stream, .. } => {
                let (leader, stream) = (*leader, *stream);
                self.tell(
                    caller.server,
                    leader,
                    stream,
                    Message::Forward(caller, session, request.clone()),
                );
            }
            Role::Looking => {}
        }
    }

    fn take_up(&mut self, caller: Caller, session: SessionId) {
        let shown = self.servers[caller.server].clock.read(self.now);
        match &mut self.servers[caller.server].role {
            Role::Leading(leadership) => {
                let tracker = leadership.tracker.as_mut();
                let timeout =
                    tracker.and_then(|tracker| tracker.take_up(session, caller.server, shown));
                self.taken_up(caller.server, caller, session, timeout);
            }
            Role::Following { leader, stream, .. } => {
                let (leader, stream) = (*leader, *stream);
                self.tell(caller.server, leader, stream, Message::Revalidate(caller, session));
            }
            Role::Looking => {}
        }
    }

    /// A session was taken up again, or is over.
    pub(super) fn taken_up(
        &mut self,
        own: usize,
        caller: Caller,
        session: SessionId,
        timeout: Option<Duration>,
    ) {
        let resume = QueueRequest::Resume { timeout: timeout.unwrap_or_default() };
        if let Some(timeout) = timeout {
            self.reply(caller, &resume, QueueEvent::Connected { session, timeout });
        } else {
            self.servers[own].connections.remove(&caller.from);
            self.reply(caller, &resume, QueueEvent::Expired);
        }
    }

    /// The server applies what was agreed on, up to a length of its log.
    pub(super) fn apply(&mut self, own: usize, length: usize) {
        while self.servers[own].applied < length.min(self.servers[own].log.len()) {
            let server = &mut self.servers[own];
            let place = server.log[server.applied];
            server.applied += 1;
            let gone = server.tree.apply(&self.entries[place].change);
            if self.servers[own].applied > self.agreed_length {
                self.agreed_length += 1;
                self.agreed_on(place);
            }
            self.fire(own, &gone);
            if let Change::Close(session) = self.entries[place].change {
                self.hang_up(own, place, session);
            }
            let asked_here =
                self.entries[place].caller.as_ref().filter(|(caller, ..)| caller.server == own);
            if let Some((caller, request, reply)) = asked_here
                && (is_connected(&self.servers[own], *caller) || *request == QueueRequest::Close)
            {
                let (caller, request, reply) = (*caller, request.clone(), reply.clone());
                self.reply(caller, &request, reply);
            }
        }
    }

    /// A majority has it: nothing can undo it any more.
    fn agreed_on(&mut self, place: usize) {
        let first = |tree: &Tree| tree.first().map(|znode| znode.owner);
        let before = first(&self.agreed);
        let entry = &self.entries[place];
        self.agreed.apply(&entry.change);
        if first(&self.agreed) != before {
            let departure = match (&entry.change, &entry.caller) {
                (Change::DeleteFirst, _) => Some(Departure::Deleted),
                (Change::Close(session), Some(_)) if before == Some(*session) => {
                    Some(Departure::GivenUp)
                }
                (
                    Change::None
                    | Change::Open(..)
                    | Change::Close(_)
                    | Change::MakePath
                    | Change::Join(_)
                    | Change::Litter(_)
                    | Change::Acknowledge(..),
                    _,
                ) => None,
            };
            self.tell_first(departure);
        }
        let entry = &self.entries[place];
        if let Some((caller, request, reply)) = &entry.caller {
            self.effects.push_back(Effect::Performed {
                from: caller.from,
                request: request.clone(),
                event: reply.clone(),
            });
        }
    }

    /// Tells the world who is first in the line now, and why whoever was so before is not.
    pub(super) fn tell_first(&mut self, departure: Option<Departure>) {
        let (holder, owner) =
            self.agreed.first().map(|znode| (znode.identity.clone(), znode.owner)).unzip();
        self.effects.push_back(Effect::Holder { holder, departure });
        if owner.is_some() && self.clients.iter().all(|client| client.session != owner) {
            self.effects.push_back(Effect::Orphaned);
        }
    }

    /// Tells whoever watches that these znodes are gone.
    fn fire(&mut self, own: usize, gone: &[String]) {
        if gone.is_empty() {
            return;
        }
        let (fired, kept) = take(&mut self.servers[own].watches)
            .into_iter()
            .partition(|(name, ..)| gone.contains(name));
        self.servers[own].watches = kept;
        let fired: Vec<(String, usize, u64)> = fired;
        for (_, to, connection) in fired {
            self.effects.push_back(Effect::News { to, connection, event: QueueEvent::WatchFired });
        }
    }

    /// A session is over, so its connection is closed, unless its own client waits for just that.
    fn hang_up(&mut self, own: usize, place: usize, session: SessionId) {
        let closer = self.entries[place].caller.as_ref().map(|(caller, ..)| caller.connection);
        let server = &mut self.servers[own];
        let ended: Vec<_> = server
            .connections
            .iter()
            .filter(|(_, held)| held.session == Some(session))
            .map(|(to, held)| (*to, held.number))
            .collect();
        for (to, connection) in ended {
            server.connections.remove(&to);
            if closer != Some(connection) {
                self.effects.push_back(Effect::News {
                    to,
                    connection,
                    event: QueueEvent::Disconnected,
                });
            }
        }
    }

    fn reply(&mut self, caller: Caller, request: &QueueRequest, event: QueueEvent) {
        let client = &mut self.clients[caller.from];
        if client.connection != caller.connection {
            return;
        }
        client.shown = (caller.call, self.servers[caller.server].applied);
        if let (QueueRequest::Begin { .. }, QueueEvent::Connected { session, .. }) =
            (request, &event)
        {
            (client.session, client.seen) = (Some(*session), 0);
        }
        self.effects.push_back(Effect::Reply { to: caller.from, call: caller.call, event });
    }
}

fn is_connected(server: &Server, caller: Caller) -> bool {
    server.connections.get(&caller.from).is_some_and(|own| own.number == caller.connection)
}
