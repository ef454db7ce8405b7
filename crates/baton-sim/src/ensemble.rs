//! A simulated ZooKeeper ensemble: sessions in buckets, delayed heartbeats, partitioned followers
//! that still serve, and elections.
//!
//! Pure. Start with [`Ensemble::perform`]. The connected server answers reads from what it has
//! applied; every other request needs a quorum. `quorum.rs` has the messages between servers,
//! `tracker.rs` the end of sessions, and `tree.rs` the replicated state. Sources: ZooKeeper's
//! `Learner`, `LearnerHandler`, `Leader`, and `SessionTrackerImpl`.

mod leader_election;
mod quorum;
mod server;
mod service;
mod tracker;
mod tree;
mod view;

use crate::clock::{Clock, Moment};
use crate::event_queue::EventQueue;
use crate::rng::Rng;
use crate::scenario::{EnsembleConfig, ExternalAction, ServerFault, ServerTarget};
use crate::store::{Arrival, Effect, NewProcess, Store};
use crate::world::StoreView;
use baton_election::identity::Identity;
use baton_election::queue::QueueElection;
use baton_election::queue::messages::{QueueEvent, QueueRequest, SessionId};
use baton_election::queue::timing::SessionTiming;
use quorum::Message;
use server::{Role, Server};
use std::collections::VecDeque;
use std::mem::take;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use tree::{Change, Tree};

/// The servers, their clients, and the state that they agree on.
#[derive(Clone, Debug)]
pub struct Ensemble {
    config: EnsembleConfig,
    rng: Rng,
    now: Moment,
    servers: Vec<Server>,
    clients: Vec<Client>,
    /// Every transaction that was ever proposed. Copies of the world share them.
    transactions: Vec<Rc<Transaction>>,
    /// The committed state, and how many transactions it includes.
    committed: Tree,
    committed_len: usize,
    epoch: u64,
    terms: u64,
    sessions: u64,
    queue: EventQueue<EnsembleEvent>,
    /// When the last message from one server to another arrives.
    streams: Vec<Vec<Moment>>,
    /// Events that wait for the end of a pause or partition.
    blocked: Vec<EnsembleEvent>,
    effects: VecDeque<Effect<QueueElection>>,
}

#[derive(Clone, Debug)]
struct Transaction {
    zxid: u64,
    change: Change,
    caller: Option<(Caller, QueueRequest, QueueEvent)>,
}

/// The origin of a request, and where the reply goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Caller {
    server: usize,
    from: usize,
    call: u64,
    connection: u64,
}

/// The client of a candidate.
#[derive(Clone, Debug, Default)]
struct Client {
    /// The current connection, whose number determines the server.
    connection: u64,
    session: Option<SessionId>,
    /// The number of transactions that it has seen; the maximum after a restore.
    seen: usize,
    /// The session that this call was granted, and its timeout.
    granted: Option<(u64, SessionId, Duration)>,
    /// The last session that a reply granted, as saved in the state directory.
    saved: Option<(SessionId, Duration)>,
    /// The number of the last call with a reply, and how many transactions that reply reflects.
    last_reply: (u64, usize),
}

/// An event within the ensemble.
#[derive(Clone, Debug)]
enum EnsembleEvent {
    Message { from: usize, to: usize, stream: u64, message: Message },
    Request { caller: Caller, request: QueueRequest },
    Ping { server: usize, term: u64 },
    Expiry { server: usize, term: u64 },
    Silence { server: usize, stream: u64 },
    Election,
}

impl Ensemble {
    /// Servers that have just started, and one client per candidate.
    pub fn new(config: EnsembleConfig, candidates: usize, seed: u64) -> Self {
        let servers: Vec<_> = config
            .clock_rates
            .iter()
            .map(|rate| Server::new(Clock::new(config.clock_start, *rate)))
            .collect();
        let mut ensemble = Self {
            rng: Rng::new(seed),
            now: Moment::START,
            servers,
            clients: (0..candidates)
                .map(|number| Client { connection: number as u64, ..Client::default() })
                .collect(),
            transactions: Vec::new(),
            committed: Tree::default(),
            committed_len: 0,
            epoch: 0,
            terms: 0,
            sessions: 0,
            queue: EventQueue::default(),
            streams: vec![vec![Moment::START; config.clock_rates.len()]; config.clock_rates.len()],
            blocked: Vec::new(),
            effects: VecDeque::new(),
            config,
        };
        ensemble.queue.push(Moment::START, EnsembleEvent::Election);
        ensemble
    }

    fn server_of(&self, connection: u64) -> usize {
        usize::try_from(connection % self.config.clock_rates.len() as u64)
            .expect("a remainder is below the number of servers")
    }

    /// Whether `event` has to wait because a server is paused or partitioned.
    fn is_blocked(&self, event: &EnsembleEvent) -> bool {
        match event {
            EnsembleEvent::Message { from, to, .. } => {
                !self.servers[*from].is_reachable() || !self.servers[*to].is_reachable()
            }
            EnsembleEvent::Request { caller, .. } => self.servers[caller.server].paused > 0,
            EnsembleEvent::Ping { server, .. }
            | EnsembleEvent::Expiry { server, .. }
            | EnsembleEvent::Silence { server, .. } => self.servers[*server].paused > 0,
            EnsembleEvent::Election => false,
        }
    }

    fn handle(&mut self, event: EnsembleEvent) {
        if self.is_blocked(&event) {
            return self.blocked.push(event);
        }
        match event {
            EnsembleEvent::Message { from, to, stream, message } => {
                self.received(from, to, stream, message);
            }
            EnsembleEvent::Request { caller, request } => self.requested(caller, &request),
            EnsembleEvent::Ping { server, term } => self.ping(server, term),
            EnsembleEvent::Expiry { server, term } => self.expire(server, term),
            EnsembleEvent::Silence { server, stream } => self.check_silence(server, stream),
            EnsembleEvent::Election => self.elect(),
        }
    }

    /// Disconnects all clients of a server.
    fn disconnect_clients(&mut self, id: usize) {
        for (to, connection) in self.servers[id].drop_connections() {
            self.effects.push_back(Effect::WatchEvent {
                to,
                connection,
                event: QueueEvent::Disconnected,
            });
        }
        self.disturbed();
    }

    /// Reports a change that may affect candidates.
    fn disturbed(&mut self) {
        self.effects.push_back(Effect::Disturbed);
    }

    /// Requeues the blocked events, and starts an election.
    fn retry_blocked(&mut self) {
        for event in take(&mut self.blocked) {
            self.queue.push(self.now, event);
        }
        self.queue.push(self.now + self.config.latency.1, EnsembleEvent::Election);
    }

    /// The peers of a crashed server learn of it at once, because its connections break.
    fn report_crash(&mut self, dead: usize) {
        for id in 0..self.servers.len() {
            let server = &mut self.servers[id];
            let lost_leader = server.is_reachable()
                && matches!(server.role, Role::Following { leader, .. } if leader == dead);
            if lost_leader {
                self.start_looking(id);
            } else if let (true, Role::Leading(leadership)) =
                (server.is_reachable(), &mut server.role)
            {
                leadership.learners.remove(&dead);
            }
        }
    }

    /// The servers that a fault affects, from `first` on.
    fn affected_servers(&self, target: ServerTarget, first: usize) -> Range<usize> {
        match target {
            ServerTarget::From(_) => first..self.servers.len(),
            ServerTarget::Server(_)
            | ServerTarget::QuorumLeader
            | ServerTarget::OfElectionLeader => first..first + 1,
        }
    }

    fn quorum_leader(&self) -> usize {
        let leads = |server: &Server| match &server.role {
            Role::Leading(leadership) => leadership.epoch == self.epoch,
            Role::Looking | Role::Following { .. } => false,
        };
        self.servers.iter().position(leads).unwrap_or(0)
    }
}

impl Store for Ensemble {
    type Election = QueueElection;

    fn machine(&mut self, start: NewProcess<'_>) -> QueueElection {
        let NewProcess { number, candidate, identity, jitter, from, ended_run } = start;
        let timing = SessionTiming::new(candidate.timing, self.config.configured_tick)
            .expect("a drawn scenario has valid timing");
        let machine = QueueElection::new(identity, timing, jitter, from);
        let client = &mut self.clients[number];
        match (ended_run, client.saved) {
            (Some(ended_run), Some((session, timeout))) => {
                (client.session, client.seen) = (Some(session), 0);
                machine.with_ended_run(ended_run, session, timeout)
            }
            (_, None) | (None, _) => machine,
        }
    }

    fn on_send(&mut self, from: usize, request: &QueueRequest) -> u64 {
        let client = &mut self.clients[from];
        if let QueueRequest::Begin { .. } | QueueRequest::Resume { .. } = request {
            // The next server, in an order that differs between candidates.
            client.connection += 1 + u64::from(self.rng.permille(300));
            if let QueueRequest::Begin { .. } = request {
                let forgotten = client.session.take();
                if forgotten.is_some()
                    && forgotten == self.committed.first().map(|znode| znode.owner)
                {
                    self.effects.push_back(Effect::SessionForgotten);
                }
            }
        }
        self.clients[from].connection
    }

    fn perform(&mut self, arrival: Arrival, request: &QueueRequest) -> Option<QueueEvent> {
        let Arrival { now, from, call, attached: connection } = arrival;
        self.now = now;
        let caller = Caller { server: self.server_of(connection), from, call, connection };
        self.handle(EnsembleEvent::Request { caller, request: request.clone() });
        None
    }

    fn on_reply(&mut self, from: usize, call: u64) {
        let client = &mut self.clients[from];
        if client.last_reply.0 == call {
            client.seen = client.seen.max(client.last_reply.1);
        }
        if let Some((_, session, timeout)) = client.granted.take_if(|(of, ..)| *of == call) {
            client.saved = Some((session, timeout));
        }
    }

    fn is_connected(&self, to: usize, connection: u64) -> bool {
        self.clients[to].connection == connection
    }

    fn next_at(&self) -> Moment {
        self.queue.next_at()
    }

    fn step(&mut self, now: Moment) {
        self.now = now;
        if let Some(event) = self.queue.pop() {
            self.handle(event);
        }
    }

    fn next_effect(&mut self) -> Option<Effect<QueueElection>> {
        self.effects.pop_front()
    }

    fn begin_server_fault(
        &mut self,
        now: Moment,
        target: ServerTarget,
        leader: Option<usize>,
        fault: ServerFault,
    ) -> usize {
        self.now = now;
        let first_server = match target {
            ServerTarget::Server(number) | ServerTarget::From(number) => {
                number % self.servers.len()
            }
            ServerTarget::QuorumLeader => self.quorum_leader(),
            ServerTarget::OfElectionLeader => {
                leader.map_or(0, |leader| self.server_of(self.clients[leader].connection))
            }
        };
        for id in self.affected_servers(target, first_server) {
            let server = &mut self.servers[id];
            match fault {
                ServerFault::Partition => server.partitioned += 1,
                ServerFault::Pause => server.paused += 1,
                ServerFault::Crash => {
                    server.down += 1;
                    self.start_looking(id);
                    self.report_crash(id);
                }
                ServerFault::SlowPings(duration) => server.slow_pings.push(duration),
            }
        }
        first_server
    }

    fn end_server_fault(
        &mut self,
        now: Moment,
        target: ServerTarget,
        first_server: usize,
        fault: ServerFault,
    ) {
        self.now = now;
        let all = self.affected_servers(target, first_server);
        for server in &mut self.servers[all] {
            match fault {
                ServerFault::Partition => server.partitioned -= 1,
                ServerFault::Pause => server.paused -= 1,
                ServerFault::Crash => server.down -= 1,
                ServerFault::SlowPings(duration) => {
                    let ended = server.slow_pings.iter().position(|other| *other == duration);
                    server.slow_pings.remove(ended.expect("an active fault"));
                }
            }
        }
        self.retry_blocked();
    }

    fn apply_external_action(&mut self, now: Moment, action: ExternalAction) {
        self.now = now;
        let leader_id = self.quorum_leader();
        let change = match action {
            ExternalAction::Delete => Change::DeleteFirst,
            ExternalAction::CreateStrayNode { is_numbered } => {
                Change::StrayNode(if is_numbered { "n_0000000000" } else { "notes" })
            }
            ExternalAction::CloseSession(candidate) => match self.clients[candidate].session {
                Some(session) => Change::Close(session),
                None => return,
            },
            ExternalAction::EditLabel
            | ExternalAction::FalseDeletionEvent
            | ExternalAction::Recreate
            | ExternalAction::ClearHolder
            | ExternalAction::SetHolder(_) => return,
        };
        if let Role::Leading(leadership) = &mut self.servers[leader_id].role {
            let zxid = leadership.epoch << 32 | (leadership.counter + 1);
            if let (Change::Close(session), Some(tracker)) = (&change, &mut leadership.tracker) {
                tracker.mark_closing(*session);
            }
            self.propose(leader_id, Transaction { zxid, change, caller: None });
        }
    }

    fn restore(&mut self, now: Moment, ago: usize) {
        self.now = now;
        self.restore_backup(ago);
    }

    fn changes(&self) -> u64 {
        0
    }

    fn holder(&self) -> (Option<&Identity>, Duration) {
        (self.committed.first().map(|znode| &znode.identity), Duration::ZERO)
    }

    fn view(&self) -> StoreView {
        self.store_view()
    }
}
