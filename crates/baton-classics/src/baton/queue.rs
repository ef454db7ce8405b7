//! Baton over `ZooKeeper`: a queue of ephemeral znodes, each watched by its successor.
//!
//! Pure. Start with [`BatonQueue`]. The rules of the election are in `baton-election/src/queue.rs`. The
//! store of `baton/queue/store.rs` stands for an ensemble that agrees on every write; its own election
//! is a row of the table.

pub mod store;

use super::{DEFAULTS, Driver};
use crate::machine::{Algorithm, Boot, Machine, NodeId, Outbox, Outgoing, Purpose, Role};
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::queue::QueueElection;
use baton_election::queue::messages::{QueueEvent, QueueRequest, SessionId};
use baton_election::queue::timing::SessionTiming;
use baton_election::timing::{Drift, Jitter, Timing};
use baton_election::transcript;
use std::fmt;
use std::time::Duration;
use store::Store;

/// Baton over `ZooKeeper`, with its default durations and the default tick of 2 s.
#[derive(Clone, Copy, Debug)]
pub struct BatonQueue;

/// The tick of the servers (`zoo_sample.cfg`).
const TICK: Duration = Duration::from_secs(2);

/// The messages between candidates and the store.
#[derive(Clone)]
pub enum Message {
    /// A request.
    Request {
        /// Numbers the sender's requests.
        number: u64,
        /// The request.
        request: QueueRequest,
        /// The session of the sender's connection.
        session: Option<SessionId>,
        /// Why it is sent.
        purpose: Purpose,
    },
    /// The reply to a request.
    Reply {
        /// The number of the request.
        number: u64,
        /// The reply.
        event: QueueEvent,
    },
    /// A watch event, or the end of the connection.
    Watch {
        /// The number of the request that began the connection.
        connection: u64,
        /// The event.
        event: QueueEvent,
    },
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request { number, request, .. } => {
                let request = match request {
                    QueueRequest::Join { identity, .. } => format!("join as {identity}"),
                    QueueRequest::Begin { .. }
                    | QueueRequest::Resume { .. }
                    | QueueRequest::Close
                    | QueueRequest::MakePath
                    | QueueRequest::List
                    | QueueRequest::Watch { .. }
                    | QueueRequest::Check { .. }
                    | QueueRequest::ReadLeader
                    | QueueRequest::Announce { .. } => transcript::queue_request("", request),
                };
                write!(f, "request {number}: {request}")
            }
            Self::Reply { number, event } => write!(f, "reply {number}: {}", describe(event)),
            Self::Watch { event, .. } => f.write_str(&describe(event)),
        }
    }
}

/// Describes an event without the random part of names.
fn describe(event: &QueueEvent) -> String {
    match event {
        QueueEvent::Joined { name, czxid } => {
            format!("joined as {}, czxid {czxid}", transcript::short_name("", name))
        }
        QueueEvent::Listed(names) => {
            let names: Vec<_> = names.iter().map(|name| transcript::short_name("", name)).collect();
            format!("listed {}", names.join(" "))
        }
        QueueEvent::Leader(announcement) => {
            format!("leader {:?}", announcement.as_ref().map(|leader| &leader.text))
        }
        QueueEvent::Connected { .. }
        | QueueEvent::Expired
        | QueueEvent::Closed
        | QueueEvent::Made
        | QueueEvent::Found { .. }
        | QueueEvent::Checked
        | QueueEvent::Announced
        | QueueEvent::Missing
        | QueueEvent::Saturated
        | QueueEvent::Changed
        | QueueEvent::Refused
        | QueueEvent::Unknown
        | QueueEvent::Disconnected
        | QueueEvent::WatchFired => format!("{event:?}"),
    }
}

/// A candidate or the store.
#[derive(Debug)]
pub enum QueueNode {
    /// A candidate.
    Candidate(Box<Candidate>),
    /// The store.
    Store(Box<Store>),
}

/// A candidate.
#[derive(Debug)]
pub struct Candidate {
    driver: Driver<QueueElection>,
    store: NodeId,
    session: Option<SessionId>,
    /// The number of the last request to connect.
    connection: u64,
    /// Whether a watch has fired, and the candidate neither leads nor watches again.
    was_woken: bool,
    outbox: Outbox<Message>,
}

impl Algorithm for BatonQueue {
    type Machine = QueueNode;
    type Durable = ();

    fn servers(&self) -> usize {
        1
    }

    fn uses_tcp(&self) -> bool {
        true
    }

    fn first(&self, _: NodeId, _: u64) {}

    fn durable(_: &QueueNode) {}

    fn patience(&self) -> Duration {
        DEFAULTS.lease_duration
    }

    fn boot(&self, boot: Boot<()>) -> QueueNode {
        if boot.me.0 == boot.candidates {
            return QueueNode::Store(Box::default());
        }
        let timing = Timing::new(DEFAULTS, Drift::default());
        let timing = timing.expect("the durations bear the default drift");
        let timing = SessionTiming::new(timing, TICK).expect("the session is long enough");
        let identity = Identity::parse(&boot.me.to_string());
        let identity = identity.expect("a number is an identity");
        let machine = QueueElection::new(identity, timing, Jitter::new(boot.seed), boot.now);
        let mut candidate = Candidate {
            driver: Driver::new(machine, boot.now),
            store: NodeId(boot.candidates),
            session: None,
            connection: 0,
            was_woken: false,
            outbox: Outbox::default(),
        };
        candidate.poll(boot.now);
        QueueNode::Candidate(Box::new(candidate))
    }
}

impl Machine for QueueNode {
    type Message = Message;

    fn handle_message(&mut self, from: NodeId, message: Message, now: Instant) {
        match (self, message) {
            (Self::Store(store), Message::Request { number, request, session, purpose }) => {
                store.handle_request(from, number, &request, session, purpose, now);
            }
            (Self::Candidate(candidate), Message::Reply { number, event }) => {
                if let QueueEvent::Connected { session, .. } = event {
                    candidate.session = Some(session);
                }
                candidate.driver.receive_reply(number, event, now);
                candidate.poll(now);
            }
            (Self::Candidate(candidate), Message::Watch { connection, event }) => {
                if connection == candidate.connection {
                    candidate.was_woken |= event == QueueEvent::WatchFired;
                    candidate.driver.receive(event, now);
                    candidate.poll(now);
                }
            }
            (Self::Store(_), Message::Reply { .. } | Message::Watch { .. })
            | (Self::Candidate(_), Message::Request { .. }) => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        match self {
            Self::Candidate(candidate) => {
                candidate.driver.handle_timeout(now);
                candidate.poll(now);
            }
            Self::Store(store) => store.expire_sessions(now),
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Candidate(candidate) => candidate.driver.poll_timeout(),
            Self::Store(store) => store.next_expiry(),
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
        let Some((number, request)) = self.driver.poll(now) else { return };
        if matches!(request, QueueRequest::Begin { .. } | QueueRequest::Resume { .. }) {
            self.connection = number;
        }
        let (session, purpose) = (self.session, self.purpose(&request));
        let watches = matches!(request, QueueRequest::Watch { .. });
        self.was_woken &= !watches && !self.driver.role.is_leading();
        let message = Message::Request { number, request, session, purpose };
        self.outbox.push(self.store, message, purpose);
    }

    /// Without a watch event, checks and reads of a candidate that knows the leader only keep its
    /// session alive.
    fn purpose(&self, request: &QueueRequest) -> Purpose {
        let is_routine = match request {
            QueueRequest::Check { .. } | QueueRequest::ReadLeader | QueueRequest::Watch { .. } => {
                self.driver.role != Role::Looking && !self.was_woken
            }
            QueueRequest::Begin { .. }
            | QueueRequest::Resume { .. }
            | QueueRequest::Close
            | QueueRequest::MakePath
            | QueueRequest::Join { .. }
            | QueueRequest::List
            | QueueRequest::Announce { .. } => false,
        };
        if is_routine { Purpose::Heartbeat } else { Purpose::Election }
    }
}
