//! The race of Kafka's brokers for the znode `/controller`, with the controller's epoch.
//!
//! Pure. Start with [`Kafka`]. Written from `KafkaController.elect` and
//! `KafkaZkClient.registerControllerAndIncrementControllerEpoch` of Apache Kafka 2.8: a broker
//! creates the ephemeral znode and raises `/controller_epoch` in one transaction. Kafka 4 elects its
//! controller by Raft instead.
//!
//! The store of `kafka/store.rs` stands for a `ZooKeeper` ensemble that agrees on every write. As in
//! Kafka, a controller does not count its session's time: it acts until it hears that the session has
//! expired, or that the znode names another broker.

pub mod store;

use crate::machine::{Algorithm, Boot, Machine, NodeId, Outbox, Outgoing, Purpose, Role};
use baton_election::instant::Instant;
use std::time::Duration;
use store::Store;

/// The algorithm with its settings.
#[derive(Clone, Copy, Debug)]
pub struct Kafka {
    /// `zookeeper.session.timeout.ms`. Brokers ping three times as often.
    pub session_timeout: Duration,
}

impl Kafka {
    /// The default since Kafka 2.5: 18 s.
    pub const DEFAULT: Self = Self { session_timeout: Duration::from_secs(18) };
}

/// A request to the store. All but `Connect` belong to a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// Begins a session.
    Connect,
    /// Extends the session.
    Ping,
    /// Reads `/controller` and watches it.
    ReadController,
    /// Reads `/controller_epoch`.
    ReadEpoch,
    /// Creates `/controller` and sets `/controller_epoch`, if it still has this epoch.
    Register {
        /// The epoch that was read.
        over: u64,
    },
}

/// The messages between brokers and the store.
#[derive(Clone, Copy, Debug)]
pub enum Message {
    /// A request within a session.
    Request {
        /// The session; zero for `Connect`.
        session: u64,
        /// The request.
        request: Request,
    },
    /// The session has begun.
    Connected {
        /// The session.
        session: u64,
    },
    /// The session has expired.
    Expired {
        /// The session.
        session: u64,
    },
    /// Answers a ping. Like every reply of `ZooKeeper`, it tells how much has changed.
    Pong {
        /// How often `/controller` has changed.
        changes: u64,
    },
    /// The content of `/controller`.
    Controller {
        /// The broker that it names, and the session that owns the znode.
        owner: Option<(NodeId, u64)>,
        /// The epoch of `/controller_epoch`.
        epoch: u64,
        /// How often `/controller` has changed.
        changes: u64,
    },
    /// The content of `/controller_epoch`.
    Epoch {
        /// The epoch.
        epoch: u64,
    },
    /// The transaction was applied.
    Registered {
        /// The new epoch.
        epoch: u64,
    },
    /// The transaction met another controller or another epoch.
    Conflict,
    /// A watch event: `/controller` has changed.
    Changed,
}

/// A broker or the store.
#[derive(Debug)]
pub enum KafkaNode {
    /// A broker.
    Broker(Broker),
    /// The store.
    Store(Store),
}

/// A broker.
#[derive(Debug)]
pub struct Broker {
    ping_every: Duration,
    me: NodeId,
    store: NodeId,
    session: Option<u64>,
    controller: Option<NodeId>,
    /// How many changes of `/controller` the broker has seen.
    changes: u64,
    /// The epoch of this broker's own registration.
    epoch: Option<u64>,
    /// The request that awaits a reply; a ping's reply shows whether it was lost.
    pending: Option<Request>,
    ping_at: Instant,
    outbox: Outbox<Message>,
}

impl Algorithm for Kafka {
    type Machine = KafkaNode;
    type Durable = ();

    fn servers(&self) -> usize {
        1
    }

    fn uses_tcp(&self) -> bool {
        true
    }

    fn first(&self, _: NodeId, _: u64) {}

    fn durable(_: &KafkaNode) {}

    fn patience(&self) -> Duration {
        self.session_timeout
    }

    fn boot(&self, boot: Boot<()>) -> KafkaNode {
        if boot.me.0 == boot.candidates {
            return KafkaNode::Store(Store::new(self.session_timeout));
        }
        let mut broker = Broker {
            ping_every: self.session_timeout / 3,
            me: boot.me,
            store: NodeId(boot.candidates),
            session: None,
            controller: None,
            changes: 0,
            epoch: None,
            pending: None,
            ping_at: boot.now,
            outbox: Outbox::default(),
        };
        broker.ask(Request::Connect);
        broker.ping_at = boot.now + broker.ping_every;
        KafkaNode::Broker(broker)
    }
}

impl Machine for KafkaNode {
    type Message = Message;

    fn handle_message(&mut self, from: NodeId, message: Message, now: Instant) {
        match (self, message) {
            (Self::Store(store), Message::Request { session, request }) => {
                store.handle_request(from, session, request, now);
            }
            (
                Self::Store(_),
                Message::Connected { .. }
                | Message::Expired { .. }
                | Message::Pong { .. }
                | Message::Controller { .. }
                | Message::Epoch { .. }
                | Message::Registered { .. }
                | Message::Conflict
                | Message::Changed,
            ) => {}
            (Self::Broker(broker), message) => broker.handle_message(message),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        match self {
            Self::Broker(broker) => broker.handle_timeout(now),
            Self::Store(store) => store.expire_sessions(now),
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Broker(broker) => Some(broker.ping_at),
            Self::Store(store) => store.next_expiry(),
        }
    }

    fn poll_message(&mut self) -> Option<Outgoing<Message>> {
        match self {
            Self::Broker(broker) => broker.outbox.pop(),
            Self::Store(store) => store.outbox.pop(),
        }
    }

    fn role(&self, _: Instant) -> Role {
        match self {
            Self::Broker(Broker { epoch: Some(epoch), .. }) => {
                Role::Leading { token: Some(*epoch) }
            }
            Self::Broker(broker) => {
                let other = broker.controller.filter(|controller| *controller != broker.me);
                other.map_or(Role::Looking, Role::Following)
            }
            Self::Store(_) => Role::Looking,
        }
    }
}

impl Broker {
    fn handle_message(&mut self, message: Message) {
        match message {
            Message::Connected { session } => {
                self.session = Some(session);
                self.ask(Request::ReadController);
            }
            Message::Expired { session } if self.session == Some(session) => self.reconnect(),
            Message::Pong { changes } => {
                if changes != self.changes {
                    self.ask(Request::ReadController);
                } else if let Some(request) = self.pending {
                    self.ask(request);
                }
            }
            Message::Controller { owner, epoch, changes } => {
                self.changes = changes;
                self.learn(owner, epoch);
            }
            Message::Epoch { epoch } => self.ask(Request::Register { over: epoch }),
            Message::Registered { epoch } => {
                self.epoch = Some(epoch);
                self.ask(Request::ReadController);
            }
            Message::Conflict | Message::Changed => self.ask(Request::ReadController),
            Message::Expired { .. } | Message::Request { .. } => {}
        }
    }

    /// Resigns if the znode names another broker, and races if it names none. If the reply to its
    /// own registration was lost, the broker leads now (`checkControllerAndEpoch`).
    fn learn(&mut self, owner: Option<(NodeId, u64)>, epoch: u64) {
        self.pending = None;
        self.controller = owner.map(|(broker, _)| broker);
        let is_own = self.session.is_some_and(|session| owner == Some((self.me, session)));
        self.epoch = is_own.then_some(epoch);
        if owner.is_none() {
            self.ask(Request::ReadEpoch);
        }
    }

    fn reconnect(&mut self) {
        self.session = None;
        self.epoch = None;
        self.controller = None;
        self.ask(Request::Connect);
    }

    fn handle_timeout(&mut self, now: Instant) {
        if now < self.ping_at {
            return;
        }
        self.ping_at = now + self.ping_every;
        let (request, purpose) = match self.session {
            Some(_) => (Request::Ping, Purpose::Heartbeat),
            None => (Request::Connect, Purpose::Election),
        };
        let session = self.session.unwrap_or_default();
        self.outbox.push(self.store, Message::Request { session, request }, purpose);
    }

    fn ask(&mut self, request: Request) {
        self.pending = Some(request);
        let session = self.session.unwrap_or_default();
        self.outbox.send(self.store, Message::Request { session, request });
    }
}
