//! An ensemble of ZooKeeper servers as candidates see it: sessions in buckets, touches that lag, followers that are cut off and
//! do not know it, elections of its own.
//!
//! Pure. It is a [`Store`]: start with [`Ensemble::perform`]. What the servers tell each other stands in `quorum.rs`, when a session
//! ends in `tracker.rs`, what they agree on in `tree.rs`. Sources: ZooKeeper's `Learner`, `LearnerHandler`, `Leader` and
//! `SessionTrackerImpl`. Reads are answered by the server that is asked, of what it has applied; all else is agreed on.

mod leader_election;
mod quorum;
mod server;
mod service;
mod tracker;
mod tree;

use crate::clock::{Clock, Moment};
use crate::rng::Chance;
use crate::scenario::{Candidate, Deed, EnsembleKind, Mishap, Which};
use crate::schedule::Queue;
use crate::store::{Arrival, Effect, Store};
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::queue::QueueElection;
use baton_election::queue::messages::{QueueEvent, QueueRequest, SessionId};
use baton_election::queue::timing::SessionTiming;
use baton_election::timing::Jitter;
use quorum::Message;
use server::{Role, Server};
use std::collections::VecDeque;
use std::mem::take;
use std::ops::Range;
use std::time::Duration;
use tree::{Change, Tree};

/// The servers, and what they have agreed on.
#[derive(Debug)]
pub struct Ensemble {
    kind: EnsembleKind,
    chance: Chance,
    now: Moment,
    servers: Vec<Server>,
    clients: Vec<Client>,
    /// Every transaction that was ever proposed.
    entries: Vec<Entry>,
    /// What a majority has agreed on, and how much that is.
    agreed: Tree,
    agreed_length: usize,
    epoch: u64,
    terms: u64,
    sessions: u64,
    queue: Queue<Happens>,
    /// When the last message from one server to another comes in.
    streams: Vec<Vec<Moment>>,
    /// What waits until two servers can speak, or one goes on.
    held: Vec<Happens>,
    effects: VecDeque<Effect<QueueElection>>,
}

/// A transaction.
#[derive(Debug)]
struct Entry {
    zxid: u64,
    change: Change,
    caller: Option<(Caller, QueueRequest, QueueEvent)>,
}

/// Who asked, and where the reply goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Caller {
    server: usize,
    from: usize,
    call: u64,
    connection: u64,
}

/// What the client of a candidate knows.
#[derive(Clone, Debug, Default)]
struct Client {
    /// Its present connection, whose number tells the server.
    connection: u64,
    session: Option<SessionId>,
    /// The newest transaction that it knows of; more than there are where the servers have been set back since.
    seen: usize,
    /// What the reply on its way shows, by call.
    shown: (u64, usize),
}

/// What happens among the servers.
#[derive(Clone, Debug)]
enum Happens {
    Message { from: usize, to: usize, stream: u64, message: Message },
    Request { caller: Caller, request: QueueRequest },
    Ping { server: usize, term: u64 },
    Expiry { server: usize, term: u64 },
    Silence { server: usize, stream: u64 },
    Election,
}

impl Ensemble {
    /// Servers that have just been started, and as many clients.
    pub fn new(kind: EnsembleKind, candidates: usize, seed: u64) -> Self {
        let servers: Vec<_> =
            kind.rates.iter().map(|rate| Server::new(Clock::new(kind.shows, *rate))).collect();
        let mut ensemble = Self {
            chance: Chance::new(seed),
            now: Moment::START,
            servers,
            clients: (0..candidates)
                .map(|number| Client { connection: number as u64, ..Client::default() })
                .collect(),
            entries: Vec::new(),
            agreed: Tree::default(),
            agreed_length: 0,
            epoch: 0,
            terms: 0,
            sessions: 0,
            queue: Queue::default(),
            streams: vec![vec![Moment::START; kind.rates.len()]; kind.rates.len()],
            held: Vec::new(),
            effects: VecDeque::new(),
            kind,
        };
        ensemble.queue.put(Moment::START, Happens::Election);
        ensemble
    }

    fn server_of(&self, connection: u64) -> usize {
        usize::try_from(connection % self.kind.rates.len() as u64)
            .expect("it is less than a length")
    }

    /// Whether what happens has to wait, for its server stands still or is cut off.
    fn has_to_wait(&self, happens: &Happens) -> bool {
        match happens {
            Happens::Message { from, to, .. } => {
                !self.servers[*from].is_reachable() || !self.servers[*to].is_reachable()
            }
            Happens::Request { caller, .. } => self.servers[caller.server].still > 0,
            Happens::Ping { server, .. }
            | Happens::Expiry { server, .. }
            | Happens::Silence { server, .. } => self.servers[*server].still > 0,
            Happens::Election => false,
        }
    }

    fn happen(&mut self, happens: Happens) {
        if self.has_to_wait(&happens) {
            return self.held.push(happens);
        }
        match happens {
            Happens::Message { from, to, stream, message } => {
                self.received(from, to, stream, message);
            }
            Happens::Request { caller, request } => self.requested(caller, &request),
            Happens::Ping { server, term } => self.ping(server, term),
            Happens::Expiry { server, term } => self.expire(server, term),
            Happens::Silence { server, stream } => self.listen(server, stream),
            Happens::Election => self.elect(),
        }
    }

    /// All candidates of a server are let go.
    fn part(&mut self, own: usize) {
        for (to, connection) in self.servers[own].drop_connections() {
            self.effects.push_back(Effect::News {
                to,
                connection,
                event: QueueEvent::Disconnected,
            });
        }
        self.stirred();
    }

    /// Something among the servers changed that candidates may feel.
    fn stirred(&mut self) {
        self.effects.push_back(Effect::Stirred);
    }

    /// What waited happens now, as far as it can.
    fn release(&mut self) {
        for happens in take(&mut self.held) {
            self.queue.put(self.now, happens);
        }
        self.queue.put(self.now + self.kind.latency.1, Happens::Election);
    }

    /// Whoever speaks to a server that died hears of it at once.
    fn miss(&mut self, dead: usize) {
        for own in 0..self.servers.len() {
            let server = &mut self.servers[own];
            let is_orphaned = server.is_reachable()
                && matches!(server.role, Role::Following { leader, .. } if leader == dead);
            if is_orphaned {
                self.look(own);
            } else if let (true, Role::Leading(leadership)) =
                (server.is_reachable(), &mut server.role)
            {
                leadership.learners.remove(&dead);
            }
        }
    }

    /// The servers that are struck where `first` is the first of them.
    fn all_struck(&self, which: Which, first: usize) -> Range<usize> {
        match which {
            Which::From(_) => first..self.servers.len(),
            Which::Server(_) | Which::Leading | Which::OfLeader => first..first + 1,
        }
    }

    fn leading(&self) -> usize {
        let leads = |server: &Server| matches!(&server.role, Role::Leading(leadership) if leadership.epoch == self.epoch);
        self.servers.iter().position(leads).unwrap_or(0)
    }
}

impl Store for Ensemble {
    type Election = QueueElection;

    fn machine(
        &self,
        identity: Identity,
        candidate: &Candidate,
        jitter: Jitter,
        from: Instant,
    ) -> QueueElection {
        let timing = SessionTiming::new(candidate.timing, self.kind.told_tick)
            .expect("what was drawn was tried");
        QueueElection::new(identity, timing, jitter, from)
    }

    fn sets_out(&mut self, from: usize, request: &QueueRequest) -> u64 {
        let client = &mut self.clients[from];
        if let QueueRequest::Begin { .. } | QueueRequest::Resume { .. } = request {
            // The next server, in an order that is another one for each candidate.
            client.connection += 1 + u64::from(self.chance.in_thousand(300));
            if let QueueRequest::Begin { .. } = request {
                let forgotten = client.session.take();
                if forgotten.is_some() && forgotten == self.agreed.first().map(|znode| znode.owner)
                {
                    self.effects.push_back(Effect::Orphaned);
                }
            }
        }
        self.clients[from].connection
    }

    fn perform(&mut self, arrival: Arrival, request: &QueueRequest) -> Option<QueueEvent> {
        let Arrival { now, from, call, connection } = arrival;
        self.now = now;
        let caller = Caller { server: self.server_of(connection), from, call, connection };
        self.happen(Happens::Request { caller, request: request.clone() });
        None
    }

    fn heard(&mut self, from: usize, call: u64) {
        let client = &mut self.clients[from];
        if client.shown.0 == call {
            client.seen = client.seen.max(client.shown.1);
        }
    }

    fn is_connected(&self, to: usize, connection: u64) -> bool {
        self.clients[to].connection == connection
    }

    fn next(&self) -> Moment {
        self.queue.next()
    }

    fn turn(&mut self, now: Moment) {
        self.now = now;
        if let Some(happens) = self.queue.take() {
            self.happen(happens);
        }
    }

    fn next_effect(&mut self) -> Option<Effect<QueueElection>> {
        self.effects.pop_front()
    }

    fn strike(
        &mut self,
        now: Moment,
        which: Which,
        leader: Option<usize>,
        mishap: Mishap,
    ) -> usize {
        self.now = now;
        let struck = match which {
            Which::Server(number) | Which::From(number) => number % self.servers.len(),
            Which::Leading => self.leading(),
            Which::OfLeader => {
                leader.map_or(0, |leader| self.server_of(self.clients[leader].connection))
            }
        };
        for own in self.all_struck(which, struck) {
            let server = &mut self.servers[own];
            match mishap {
                Mishap::Cut => server.cut += 1,
                Mishap::Still => server.still += 1,
                Mishap::Down => {
                    server.down += 1;
                    self.look(own);
                    self.miss(own);
                }
                Mishap::SlowPings(takes) => server.slow_pings.push(takes),
            }
        }
        struck
    }

    fn mend(&mut self, now: Moment, which: Which, struck: usize, mishap: Mishap) {
        self.now = now;
        let all = self.all_struck(which, struck);
        for server in &mut self.servers[all] {
            match mishap {
                Mishap::Cut => server.cut -= 1,
                Mishap::Still => server.still -= 1,
                Mishap::Down => server.down -= 1,
                Mishap::SlowPings(takes) => {
                    let ended = server.slow_pings.iter().position(|other| *other == takes);
                    server.slow_pings.remove(ended.expect("a fault that began"));
                }
            }
        }
        self.release();
    }

    fn meddle(&mut self, now: Moment, deed: Deed) {
        self.now = now;
        let leading = self.leading();
        let change = match deed {
            Deed::Delete => Change::DeleteFirst,
            Deed::Litter { is_numbered: true } => Change::Litter("n_0000000000"),
            Deed::Litter { is_numbered: false } => Change::Litter("notes"),
            Deed::Label | Deed::Rumour | Deed::Remake | Deed::Wipe | Deed::Seize(_) => return,
        };
        if let Role::Leading(leadership) = &self.servers[leading].role {
            let zxid = leadership.epoch << 32 | (leadership.counter + 1);
            self.propose(leading, Entry { zxid, change, caller: None });
        }
    }

    fn restore(&mut self, now: Moment, ago: usize) {
        self.now = now;
        self.set_back(ago);
    }

    fn changes(&self) -> u64 {
        0
    }

    fn holder(&self) -> (Option<&Identity>, Duration) {
        (self.agreed.first().map(|znode| &znode.identity), Duration::ZERO)
    }
}
