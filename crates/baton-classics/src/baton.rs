//! Baton's record election: the machine that ships, on the network of the classical algorithms.
//!
//! Pure. Start with [`Baton`]. The store is the one of `baton-sim`: one record with a version, and no
//! clock. It stands for the API server, a file, or etcd, and its own election is not simulated. The
//! rules of the election are in `baton-election/src/record.rs`.
//!
//! A candidate follows again when it has lost leadership, as with `--on-lost=stay`. Requests without a
//! reply have an unknown outcome after the machine's own timeout for calls.

use crate::machine::{Algorithm, Boot, Machine, NodeId, Outbox, Outgoing, Purpose, Role, earlier};
use baton_election::claim::Standing;
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::machine::{Election, Event as _};
use baton_election::record::RecordElection;
use baton_election::record::messages::{Intent, RecordEvent, RecordRequest, Snapshot};
use baton_election::timing::{Drift, Durations, Jitter, Timing};
use baton_election::transcript;
use baton_sim::clock::Moment;
use baton_sim::scenario::RecordConfig;
use baton_sim::store::{Arrival, RecordStore, Store as _};
use std::fmt;
use std::time::Duration;

/// Baton over one record, with its settings.
#[derive(Clone, Copy, Debug)]
pub struct Baton {
    /// The durations of the election.
    pub durations: Durations,
}

impl Baton {
    /// The defaults: 15 s, 10 s, and 2 s.
    pub const DEFAULT: Self = Self {
        durations: Durations {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            answer_validity: Duration::from_secs(2),
        },
    };
}

/// The messages between candidates and the store.
#[derive(Clone)]
pub enum Message {
    /// A request.
    Request {
        /// Numbers the sender's requests.
        number: u64,
        /// The request.
        request: RecordRequest,
        /// Why it is sent.
        purpose: Purpose,
    },
    /// The reply to a request.
    Reply {
        /// The number of the request.
        number: u64,
        /// The reply.
        event: RecordEvent,
    },
    /// A watch event.
    Watch {
        /// The event.
        event: RecordEvent,
    },
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request { number, request, .. } => {
                write!(f, "request {number}: {}", transcript::record_request(request))
            }
            Self::Reply { number, event } => write!(f, "reply {number}: {}", describe(event)),
            Self::Watch { event } => write!(f, "{}", describe(event)),
        }
    }
}

/// Describes an event as the transcripts of the machine do.
fn describe(event: &RecordEvent) -> String {
    let snapshot = |snapshot: &Snapshot| {
        let holder = snapshot.record.holder.as_ref().map_or("none", Identity::as_str);
        format!("{holder} v{}", snapshot.version.number)
    };
    let record =
        |record: &Option<Snapshot>| record.as_ref().map_or_else(|| "none".to_owned(), snapshot);
    match event {
        RecordEvent::Read(read) => format!("read: {}", record(read)),
        RecordEvent::Applied(applied) => format!("applied: {}", snapshot(applied)),
        RecordEvent::Conflict => "conflict".to_owned(),
        RecordEvent::Unknown => "unknown".to_owned(),
        RecordEvent::WatchEvent(now) => format!("watch event: {}", record(now)),
    }
}

/// A candidate or the store.
#[derive(Debug)]
pub enum BatonNode {
    /// A candidate.
    Candidate(Box<Candidate>),
    /// The store.
    Store(Box<Store>),
}

/// A candidate.
#[derive(Debug)]
pub struct Candidate {
    machine: RecordElection,
    store: NodeId,
    requests: u64,
    /// The request in flight, and when its outcome is unknown.
    in_flight: Option<(u64, Instant)>,
    role: Role,
    /// When the claim of `role` ends.
    deadline: Instant,
    outbox: Outbox<Message>,
}

/// The store.
#[derive(Debug)]
pub struct Store {
    record: RecordStore,
    candidates: usize,
    outbox: Outbox<Message>,
}

impl Algorithm for Baton {
    type Machine = BatonNode;
    type Durable = ();

    fn servers(&self) -> usize {
        1
    }

    fn uses_tcp(&self) -> bool {
        true
    }

    fn first(&self, _: NodeId, _: u64) {}

    fn durable(_: &BatonNode) {}

    fn patience(&self) -> Duration {
        self.durations.lease_duration
    }

    fn boot(&self, boot: Boot<()>) -> BatonNode {
        let outbox = Outbox::default();
        if boot.me.0 == boot.candidates {
            let config = RecordConfig { whole_seconds: true, checks_version: true };
            let record = RecordStore::new(config);
            let store = Store { record, candidates: boot.candidates, outbox };
            return BatonNode::Store(Box::new(store));
        }
        let timing = Timing::new(self.durations, Drift::default());
        let timing = timing.expect("the durations bear the default drift");
        let identity = Identity::parse(&boot.me.to_string());
        let identity = identity.expect("a number is an identity");
        let mut candidate = Candidate {
            machine: RecordElection::new(identity, timing, Jitter::new(boot.seed), boot.now),
            store: NodeId(boot.candidates),
            requests: 0,
            in_flight: None,
            role: Role::Looking,
            deadline: boot.now,
            outbox,
        };
        candidate.machine.handle_timeout(boot.now);
        candidate.poll(boot.now);
        BatonNode::Candidate(Box::new(candidate))
    }
}

impl Machine for BatonNode {
    type Message = Message;

    fn handle_message(&mut self, from: NodeId, message: Message, now: Instant) {
        match (self, message) {
            (Self::Store(store), Message::Request { number, request, purpose }) => {
                store.perform(from, number, &request, purpose);
            }
            (Self::Candidate(candidate), Message::Reply { number, event }) => {
                candidate.receive_reply(number, event, now);
            }
            (Self::Candidate(candidate), Message::Watch { event }) => {
                candidate.machine.handle_event(event, now);
                candidate.poll(now);
            }
            (Self::Store(_), Message::Reply { .. } | Message::Watch { .. })
            | (Self::Candidate(_), Message::Request { .. }) => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        let Self::Candidate(candidate) = self else { return };
        if candidate.in_flight.is_some_and(|(_, until)| now >= until) {
            candidate.in_flight = None;
            candidate.machine.handle_event(RecordEvent::UNKNOWN, now);
        }
        candidate.machine.handle_timeout(now);
        candidate.poll(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let Self::Candidate(candidate) = self else { return None };
        let machine = candidate.machine.poll_timeout().map(|(due, _)| due);
        earlier(machine, candidate.in_flight.map(|(_, until)| until))
    }

    fn poll_message(&mut self) -> Option<Outgoing<Message>> {
        match self {
            Self::Candidate(candidate) => candidate.outbox.pop(),
            Self::Store(store) => store.outbox.pop(),
        }
    }

    fn role(&self, now: Instant) -> Role {
        match self {
            Self::Candidate(candidate) if candidate.role.is_leading() => {
                if now < candidate.deadline { candidate.role } else { Role::Looking }
            }
            Self::Candidate(candidate) => candidate.role,
            Self::Store(_) => Role::Looking,
        }
    }
}

impl Candidate {
    fn receive_reply(&mut self, number: u64, event: RecordEvent, now: Instant) {
        if self.in_flight.is_some_and(|(sent, _)| sent == number) {
            self.in_flight = None;
            self.machine.handle_event(event, now);
            self.poll(now);
        }
    }

    /// Polls the machine in the driver's order.
    fn poll(&mut self, now: Instant) {
        let request = self.machine.poll_request(now);
        while self.machine.poll_transition().is_some() {}
        self.role = match self.machine.standing() {
            Standing::Unknown | Standing::Following { leader: None } => Role::Looking,
            Standing::Following { leader: Some(leader) } => {
                leader.as_str().parse().map_or(Role::Looking, |node| Role::Following(NodeId(node)))
            }
            Standing::Leading(claim) | Standing::Resigning(claim) => {
                self.deadline = claim.deadline();
                Role::Leading { token: claim.token().to_string().parse().ok() }
            }
        };
        if let Some(request) = request {
            self.requests += 1;
            let number = self.requests;
            self.in_flight = Some((number, now + self.machine.call_timeout()));
            let purpose = self.purpose(&request);
            self.outbox.push(self.store, Message::Request { number, request, purpose }, purpose);
        }
    }

    /// Renewals, and reads of a follower whose leader has a lease, only show who is alive.
    fn purpose(&self, request: &RecordRequest) -> Purpose {
        let is_routine = match request {
            RecordRequest::Read => matches!(self.role, Role::Following(_)),
            RecordRequest::Write(write) => write.intent == Intent::Renew,
        };
        if is_routine { Purpose::Heartbeat } else { Purpose::Election }
    }
}

impl Store {
    fn perform(&mut self, from: NodeId, number: u64, request: &RecordRequest, purpose: Purpose) {
        let arrival = Arrival { now: Moment::START, from: from.0, call: number, connection: 0 };
        let changes = self.record.changes();
        if let Some(event) = self.record.perform(arrival, request) {
            self.outbox.push(from, Message::Reply { number, event }, purpose);
        }
        if self.record.changes() == changes {
            return;
        }
        if let Some(event) = self.record.watch_event(0) {
            for candidate in (0..self.candidates).map(NodeId) {
                let message = Message::Watch { event: event.clone() };
                self.outbox.push(candidate, message, purpose);
            }
        }
    }
}
