//! A lease on one server: the holder may act until the lease ends by its own clock.
//!
//! Pure. Start with [`Lease`]. The rules are those of Gray and Cheriton, "Leases: An Efficient
//! Fault-Tolerant Mechanism for Distributed File Cache Consistency" (1989): grants, extensions, a
//! holder's shorter term, and clocks that drift. The fencing token is the sequencer of Burrows,
//! "The Chubby Lock Service for Loosely-Coupled Distributed Systems" (2006), §2.4. The server
//! stands for a strongly consistent store; its own election is not simulated.
//!
//! The server ends a lease by its clock and tells every candidate, as etcd does. The holder counts
//! from before it sent its request, so its term ends before the server's if both clocks run at one
//! rate.

use crate::machine::{Algorithm, Boot, Machine, NodeId, Outbox, Outgoing, Purpose, Role};
use baton_election::instant::Instant;
use std::time::Duration;

/// The algorithm with its settings.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    /// The server ends a lease that was not extended for this long by its own clock.
    pub term: Duration,
    /// A holder stops this long after it sent the last request that was granted, by its own clock.
    pub hold: Duration,
    /// How often a candidate asks.
    pub retry: Duration,
}

impl Lease {
    /// The holder uses the whole term. This is right only if no clock drifts.
    pub const EQUAL_CLOCKS: Self = Self {
        term: Duration::from_secs(15),
        hold: Duration::from_secs(15),
        retry: Duration::from_secs(2),
    };
    /// The defaults of client-go: 15 s, 10 s, and 2 s. Each clock may be off by a fifth: a slow holder
    /// counts 10 s in 12.5 s, and so does a fast server count 15 s.
    pub const DRIFTING_CLOCKS: Self = Self { hold: Duration::from_secs(10), ..Self::EQUAL_CLOCKS };
}

/// A holder and its fencing token.
pub type Holder = (NodeId, u64);

/// The messages between candidates and the server.
#[derive(Clone, Copy, Debug)]
pub enum Message {
    /// Extends the sender's lease, or only asks who holds it.
    Refresh {
        /// Numbers the sender's requests.
        number: u64,
    },
    /// Asks for the lease.
    Acquire {
        /// Numbers the sender's requests.
        number: u64,
    },
    /// Answers a request.
    Status {
        /// The number of the request.
        number: u64,
        /// The holder after the request.
        holder: Option<Holder>,
    },
    /// The lease has another holder, or none.
    Changed {
        /// The holder.
        holder: Option<Holder>,
    },
}

/// A candidate or the server.
#[derive(Debug)]
pub enum LeaseNode {
    /// A candidate.
    Candidate(Candidate),
    /// The server.
    Server(Server),
}

/// A candidate.
#[derive(Debug)]
pub struct Candidate {
    settings: Lease,
    me: NodeId,
    server: NodeId,
    holder: Option<Holder>,
    /// Until when the candidate may act if it is the holder.
    deadline: Instant,
    requests: u64,
    sent_at: Instant,
    refresh_at: Instant,
    outbox: Outbox<Message>,
}

/// The server.
#[derive(Debug)]
pub struct Server {
    settings: Lease,
    candidates: usize,
    holder: Option<Holder>,
    expires_at: Instant,
    /// The token of the last grant.
    token: u64,
    outbox: Outbox<Message>,
}

impl Algorithm for Lease {
    type Machine = LeaseNode;
    type Durable = ();

    fn servers(&self) -> usize {
        1
    }

    fn uses_tcp(&self) -> bool {
        true
    }

    fn first(&self, _: NodeId, _: u64) {}

    fn durable(_: &LeaseNode) {}

    fn patience(&self) -> Duration {
        self.term
    }

    fn boot(&self, boot: Boot<()>) -> LeaseNode {
        let outbox = Outbox::default();
        if boot.me.0 == boot.candidates {
            return LeaseNode::Server(Server {
                settings: *self,
                candidates: boot.candidates,
                holder: None,
                expires_at: boot.now,
                token: 0,
                outbox,
            });
        }
        let mut candidate = Candidate {
            settings: *self,
            me: boot.me,
            server: NodeId(boot.candidates),
            holder: None,
            deadline: boot.now,
            requests: 0,
            sent_at: boot.now,
            refresh_at: boot.now,
            outbox,
        };
        candidate.acquire(boot.now);
        LeaseNode::Candidate(candidate)
    }
}

impl Machine for LeaseNode {
    type Message = Message;

    fn handle_message(&mut self, from: NodeId, message: Message, now: Instant) {
        match self {
            Self::Candidate(candidate) => candidate.handle_message(message, now),
            Self::Server(server) => server.handle_message(from, message, now),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        match self {
            Self::Candidate(candidate) => candidate.handle_timeout(now),
            Self::Server(server) => server.handle_timeout(now),
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Candidate(candidate) => Some(candidate.poll_timeout()),
            Self::Server(server) => server.holder.map(|_| server.expires_at),
        }
    }

    fn poll_message(&mut self) -> Option<Outgoing<Message>> {
        match self {
            Self::Candidate(candidate) => candidate.outbox.pop(),
            Self::Server(server) => server.outbox.pop(),
        }
    }

    fn role(&self, now: Instant) -> Role {
        match self {
            Self::Candidate(candidate) => candidate.role(now),
            Self::Server(_) => Role::Looking,
        }
    }
}

impl Candidate {
    fn handle_message(&mut self, message: Message, now: Instant) {
        match message {
            Message::Status { number, holder } => {
                if number == self.requests {
                    if holder.is_some_and(|(node, _)| node == self.me) {
                        self.deadline = self.sent_at + self.settings.hold;
                    }
                    self.learn(holder, now);
                }
            }
            Message::Changed { holder } => self.learn(holder, now),
            Message::Refresh { .. } | Message::Acquire { .. } => {}
        }
    }

    fn learn(&mut self, holder: Option<Holder>, now: Instant) {
        self.holder = holder;
        if holder.is_none() {
            self.acquire(now);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.holder.is_some_and(|(node, _)| node == self.me) && now >= self.deadline {
            self.holder = None;
        }
        if now >= self.refresh_at {
            self.refresh_at = now + self.settings.retry;
            self.requests += 1;
            self.sent_at = now;
            let message = Message::Refresh { number: self.requests };
            self.outbox.push(self.server, message, Purpose::Heartbeat);
        }
    }

    fn poll_timeout(&self) -> Instant {
        let is_holder = self.holder.is_some_and(|(node, _)| node == self.me);
        if is_holder { self.refresh_at.min(self.deadline) } else { self.refresh_at }
    }

    fn acquire(&mut self, now: Instant) {
        self.requests += 1;
        self.sent_at = now;
        self.refresh_at = now + self.settings.retry;
        self.outbox.send(self.server, Message::Acquire { number: self.requests });
    }

    fn role(&self, now: Instant) -> Role {
        match self.holder {
            Some((node, token)) if node == self.me && now < self.deadline => {
                Role::Leading { token: Some(token) }
            }
            Some((node, _)) if node != self.me => Role::Following(node),
            Some(_) | None => Role::Looking,
        }
    }
}

impl Server {
    fn handle_message(&mut self, from: NodeId, message: Message, now: Instant) {
        // The lease may have ended while the server was not asked.
        self.handle_timeout(now);
        let (number, is_acquire) = match message {
            Message::Refresh { number } => (number, false),
            Message::Acquire { number } => (number, true),
            Message::Status { .. } | Message::Changed { .. } => return,
        };
        let is_granted = is_acquire && self.holder.is_none();
        if is_granted {
            self.token += 1;
            self.holder = Some((from, self.token));
        }
        if self.holder.is_some_and(|(node, _)| node == from) {
            self.expires_at = now + self.settings.term;
        }
        let purpose = if is_acquire { Purpose::Election } else { Purpose::Heartbeat };
        self.outbox.push(from, Message::Status { number, holder: self.holder }, purpose);
        if is_granted {
            self.tell_all_but(Some(from));
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.holder.is_some() && now >= self.expires_at {
            self.holder = None;
            self.tell_all_but(None);
        }
    }

    fn tell_all_but(&mut self, except: Option<NodeId>) {
        for node in (0..self.candidates).map(NodeId).filter(|node| Some(*node) != except) {
            self.outbox.send(node, Message::Changed { holder: self.holder });
        }
    }
}
