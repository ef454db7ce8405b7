//! Baton over one record: a Lease, a file, or a key of etcd.
//!
//! Pure. Start with [`BatonRecord`]. The store is the one of `baton-sim`: one record with a version,
//! and no clock. Its own election is not simulated. The rules of the election are in
//! `baton-election/src/record.rs`.

use super::{DEFAULTS, Driver};
use crate::machine::{Algorithm, Boot, Machine, NodeId, Outbox, Outgoing, Purpose, Role};
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::record::RecordElection;
use baton_election::record::messages::{Intent, RecordEvent, RecordRequest, Snapshot};
use baton_election::timing::{Drift, Jitter, Timing};
use baton_election::transcript;
use baton_sim::clock::Moment;
use baton_sim::record_store::RecordStore;
use baton_sim::scenario::{Numbering, RecordConfig};
use baton_sim::store::{Arrival, Store as _};
use std::fmt;
use std::time::Duration;

/// Baton over one record, with its default durations.
#[derive(Clone, Copy, Debug)]
pub struct BatonRecord;

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
pub enum RecordNode {
    /// A candidate.
    Candidate(Box<Candidate>),
    /// The store.
    Store(Box<Store>),
}

/// A candidate.
#[derive(Debug)]
pub struct Candidate {
    driver: Driver<RecordElection>,
    store: NodeId,
    outbox: Outbox<Message>,
}

/// The store.
#[derive(Debug)]
pub struct Store {
    record: RecordStore,
    candidates: usize,
    outbox: Outbox<Message>,
}

impl Algorithm for BatonRecord {
    type Machine = RecordNode;
    type Durable = ();

    fn servers(&self) -> usize {
        1
    }

    fn uses_tcp(&self) -> bool {
        true
    }

    fn first(&self, _: NodeId, _: u64) {}

    fn durable(_: &RecordNode) {}

    fn patience(&self) -> Duration {
        DEFAULTS.lease_duration
    }

    fn boot(&self, boot: Boot<()>) -> RecordNode {
        let outbox = Outbox::default();
        if boot.me.0 == boot.candidates {
            let config = RecordConfig {
                whole_seconds: true,
                checks_version: true,
                numbering: Numbering::Unique,
            };
            let record = RecordStore::new(config);
            let store = Store { record, candidates: boot.candidates, outbox };
            return RecordNode::Store(Box::new(store));
        }
        let timing = Timing::new(DEFAULTS, Drift::default());
        let timing = timing.expect("the durations bear the default drift");
        let identity = Identity::parse(&boot.me.to_string());
        let identity = identity.expect("a number is an identity");
        let machine = RecordElection::new(identity, timing, Jitter::new(boot.seed), boot.now);
        let store = NodeId(boot.candidates);
        let mut candidate = Candidate { driver: Driver::new(machine, boot.now), store, outbox };
        candidate.poll(boot.now);
        RecordNode::Candidate(Box::new(candidate))
    }
}

impl Machine for RecordNode {
    type Message = Message;

    fn handle_message(&mut self, from: NodeId, message: Message, now: Instant) {
        match (self, message) {
            (Self::Store(store), Message::Request { number, request, purpose }) => {
                store.perform(from, number, &request, purpose);
            }
            (Self::Candidate(candidate), Message::Reply { number, event }) => {
                candidate.driver.receive_reply(number, event, now);
                candidate.poll(now);
            }
            (Self::Candidate(candidate), Message::Watch { event }) => {
                candidate.driver.receive(event, now);
                candidate.poll(now);
            }
            (Self::Store(_), Message::Reply { .. } | Message::Watch { .. })
            | (Self::Candidate(_), Message::Request { .. }) => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Self::Candidate(candidate) = self {
            candidate.driver.handle_timeout(now);
            candidate.poll(now);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Candidate(candidate) => candidate.driver.poll_timeout(),
            Self::Store(_) => None,
        }
    }

    fn poll_message(&mut self) -> Option<Outgoing<Message>> {
        match self {
            Self::Candidate(candidate) => candidate.outbox.pop(),
            Self::Store(store) => store.outbox.pop(),
        }
    }

    fn role(&self, now: Instant) -> Role {
        match self {
            Self::Candidate(candidate) => candidate.driver.role(now),
            Self::Store(_) => Role::Looking,
        }
    }
}

impl Candidate {
    fn poll(&mut self, now: Instant) {
        if let Some((number, request)) = self.driver.poll(now) {
            let purpose = self.purpose(&request);
            self.outbox.push(self.store, Message::Request { number, request, purpose }, purpose);
        }
    }

    /// Renewals, and reads of a follower whose leader has a lease, only show who is alive.
    fn purpose(&self, request: &RecordRequest) -> Purpose {
        let is_routine = match request {
            RecordRequest::Read => matches!(self.driver.role, Role::Following(_)),
            RecordRequest::Write(write) => write.intent == Intent::Renew,
        };
        if is_routine { Purpose::Heartbeat } else { Purpose::Election }
    }
}

impl Store {
    fn perform(&mut self, from: NodeId, number: u64, request: &RecordRequest, purpose: Purpose) {
        let arrival = Arrival { now: Moment::START, from: from.0, call: number, attached: 0 };
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
