//! How servers serve clients: requests, replies, watches, and connections.
//!
//! Pure. Start with [`Ensemble::requested`]. A read is answered at once from what this server has
//! applied. Other requests go to the leader, and are answered when this server applies them.

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
    /// A client's request arrives.
    pub(super) fn requested(&mut self, caller: Caller, request: &QueueRequest) {
        let server = &mut self.servers[caller.server];
        if server.down > 0 || !server.serves() {
            return self.reply(caller, request, QueueEvent::Unknown);
        }
        match request {
            QueueRequest::Begin { timeout } => {
                self.sessions += 1;
                let session = SessionId(self.sessions);
                let timeout = (*timeout).clamp(self.config.tick * 2, self.config.tick * 20);
                self.connect(caller, session);
                self.submit(caller, session, &QueueRequest::Begin { timeout });
            }
            QueueRequest::Resume { .. } => {
                let client = &self.clients[caller.from];
                // A server that is behind what the client has seen rejects it.
                let Some(session) = client.session.filter(|_| client.seen <= server.applied) else {
                    return self.reply(caller, request, QueueEvent::Unknown);
                };
                self.connect(caller, session);
                self.resume_session(caller, session);
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
                    .filter(|connection| connection.number == caller.connection);
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
                    self.submit(caller, session, request);
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

    /// Passes a request to the leader.
    fn submit(&mut self, caller: Caller, session: SessionId, request: &QueueRequest) {
        match &self.servers[caller.server].role {
            Role::Leading(_) => self.propose_for(caller.server, caller, session, request),
            Role::Following { leader, stream, .. } => {
                let (leader, stream) = (*leader, *stream);
                self.send(
                    caller.server,
                    leader,
                    stream,
                    Message::Forward(caller, session, request.clone()),
                );
            }
            Role::Looking => {}
        }
    }

    fn resume_session(&mut self, caller: Caller, session: SessionId) {
        let local_time = self.servers[caller.server].clock.read(self.now);
        match &mut self.servers[caller.server].role {
            Role::Leading(leadership) => {
                let tracker = leadership.tracker.as_mut();
                let timeout = tracker
                    .and_then(|tracker| tracker.resume_session(session, caller.server, local_time));
                self.session_resumed(caller.server, caller, session, timeout);
            }
            Role::Following { leader, stream, .. } => {
                let (leader, stream) = (*leader, *stream);
                self.send(caller.server, leader, stream, Message::Revalidate(caller, session));
            }
            Role::Looking => {}
        }
    }

    /// Replies with the outcome of a resumption; the session has ended if `timeout` is `None`.
    pub(super) fn session_resumed(
        &mut self,
        id: usize,
        caller: Caller,
        session: SessionId,
        timeout: Option<Duration>,
    ) {
        let resume = QueueRequest::Resume { timeout: timeout.unwrap_or_default() };
        if let Some(timeout) = timeout {
            self.reply(caller, &resume, QueueEvent::Connected { session, timeout });
        } else {
            self.servers[id].connections.remove(&caller.from);
            self.reply(caller, &resume, QueueEvent::Expired);
        }
    }

    /// Applies committed transactions up to `length` entries of the log.
    pub(super) fn apply(&mut self, id: usize, length: usize) {
        while self.servers[id].applied < length.min(self.servers[id].log.len()) {
            let server = &mut self.servers[id];
            let index = server.log[server.applied];
            server.applied += 1;
            let gone = server.tree.apply(&self.transactions[index].change);
            if self.servers[id].applied > self.committed_len {
                self.committed_len += 1;
                self.transaction_committed(index);
            }
            self.fire_watches(id, &gone);
            if let Change::Close(session) = self.transactions[index].change {
                self.close_connections(id, index, session);
            }
            let local_caller =
                self.transactions[index].caller.as_ref().filter(|(caller, ..)| caller.server == id);
            if let Some((caller, request, reply)) = local_caller
                && (is_connected(&self.servers[id], *caller) || *request == QueueRequest::Close)
            {
                let (caller, request, reply) = (*caller, request.clone(), reply.clone());
                self.reply(caller, &request, reply);
            }
        }
    }

    /// Applies a transaction to the committed state: a majority has it, so it is final.
    fn transaction_committed(&mut self, index: usize) {
        let first = |tree: &Tree| tree.first().map(|znode| znode.owner);
        let before = first(&self.committed);
        let transaction = &self.transactions[index];
        self.committed.apply(&transaction.change);
        if first(&self.committed) != before {
            let departure = match (&transaction.change, &transaction.caller) {
                (Change::DeleteFirst, _) => Some(Departure::Deleted),
                (Change::Close(session), Some(_)) if before == Some(*session) => {
                    Some(Departure::Released)
                }
                (
                    Change::None
                    | Change::Open(..)
                    | Change::Close(_)
                    | Change::MakePath
                    | Change::Join(_)
                    | Change::StrayNode(_)
                    | Change::Announce(..),
                    _,
                ) => None,
            };
            self.report_holder(departure);
        }
        let transaction = &self.transactions[index];
        if let Some((caller, request, reply)) = &transaction.caller {
            self.effects.push_back(Effect::Performed {
                from: caller.from,
                request: request.clone(),
                event: reply.clone(),
            });
        }
    }

    /// Reports the head of the queue, and why the previous one is gone.
    pub(super) fn report_holder(&mut self, departure: Option<Departure>) {
        let (holder, owner) =
            self.committed.first().map(|znode| (znode.identity.clone(), znode.owner)).unzip();
        self.effects.push_back(Effect::HolderChanged { holder, departure });
        if owner.is_some() && self.clients.iter().all(|client| client.session != owner) {
            self.effects.push_back(Effect::SessionForgotten);
        }
    }

    /// Fires the watches of znodes that are gone.
    fn fire_watches(&mut self, id: usize, gone: &[String]) {
        if gone.is_empty() {
            return;
        }
        let (fired, kept) = take(&mut self.servers[id].watches)
            .into_iter()
            .partition(|(name, ..)| gone.contains(name));
        self.servers[id].watches = kept;
        let fired: Vec<(String, usize, u64)> = fired;
        for (_, to, connection) in fired {
            self.effects.push_back(Effect::WatchEvent {
                to,
                connection,
                event: QueueEvent::WatchFired,
            });
        }
    }

    /// Closes the connection of an ended session, unless its client waits for the reply to its own
    /// close.
    fn close_connections(&mut self, id: usize, index: usize, session: SessionId) {
        let closer = self.transactions[index].caller.as_ref().map(|(caller, ..)| caller.connection);
        let server = &mut self.servers[id];
        let ended: Vec<_> = server
            .connections
            .iter()
            .filter(|(_, held)| held.session == Some(session))
            .map(|(to, held)| (*to, held.number))
            .collect();
        for (to, connection) in ended {
            server.connections.remove(&to);
            if closer != Some(connection) {
                self.effects.push_back(Effect::WatchEvent {
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
        client.last_reply = (caller.call, self.servers[caller.server].applied);
        if let (QueueRequest::Begin { .. }, QueueEvent::Connected { session, timeout }) =
            (request, &event)
        {
            (client.session, client.seen) = (Some(*session), 0);
            client.granted = Some((caller.call, *session, *timeout));
        }
        self.effects.push_back(Effect::Reply { to: caller.from, call: caller.call, event });
    }
}

fn is_connected(server: &Server, caller: Caller) -> bool {
    server
        .connections
        .get(&caller.from)
        .is_some_and(|connection| connection.number == caller.connection)
}
