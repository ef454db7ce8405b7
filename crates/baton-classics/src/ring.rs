//! Elections on a ring: the largest number travels all the way round and wins.
//!
//! Pure. Start with [`Ring`]. The rules are those of Chang and Roberts, "An Improved Algorithm for
//! Decentralized Extrema-Finding in Circular Configurations of Processes" (1979). A node passes on a
//! larger number, drops a smaller one, and wins when its own number returns. Numbers are drawn,
//! because their order on the ring decides how many messages it takes.
//!
//! From `LeLann`, "Distributed Systems: Towards a Formal Approach" (1977), come the control token
//! that the leader sends round, and the election of a node that sees none. Both papers assume links
//! that keep every message in order. Here a node that does not acknowledge is skipped for a while,
//! and a message ends after one round, for a dead sender would never take it off the ring.

use crate::machine::{Algorithm, Boot, Machine, NodeId, Outbox, Outgoing, Purpose, Role};
use baton_election::instant::Instant;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The algorithm with its settings.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    /// How long a node waits for its neighbor's acknowledgment.
    pub acknowledge_within: Duration,
    /// How often the leader sends the control token round.
    pub token_every: Duration,
    /// A node that has seen no token for this long starts an election.
    pub timeout: Duration,
}

impl Ring {
    /// The papers give no durations. An acknowledgment takes at most 20 ms,
    /// or 220 ms if TCP sends a segment again.
    pub const PAPER: Self = Self {
        acknowledge_within: Duration::from_millis(300),
        token_every: Duration::from_secs(1),
        timeout: Duration::from_secs(2),
    };
}

/// A node that starts waits this long, so that its neighbors have started too.
const START_AFTER: Duration = Duration::from_millis(20);

/// A node and its number; the larger number wins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The number, which decides.
    pub number: u64,
    /// The node, which decides between equal numbers.
    pub node: NodeId,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (number {})", self.node, self.number)
    }
}

/// The content of a message that travels round.
#[derive(Clone, Copy, Debug)]
pub enum Body {
    /// This node takes part in the election.
    Candidate(Entry),
    /// This node has won.
    Elected(Entry),
    /// This leader is alive.
    Token(NodeId),
}

/// The messages between neighbors.
#[derive(Clone, Copy, Debug)]
pub enum Message {
    /// A message that travels round.
    Travel {
        /// Numbers the sender's messages.
        id: u64,
        /// How many nodes may still pass it on.
        hops_left: usize,
        /// The content.
        body: Body,
    },
    /// The neighbor has the message.
    Acknowledge {
        /// The number of the message.
        id: u64,
    },
}

/// A message that the neighbor has not acknowledged.
#[derive(Clone, Copy, Debug)]
struct Unacknowledged {
    to: NodeId,
    hops_left: usize,
    body: Body,
    until: Instant,
}

/// One node.
#[derive(Debug)]
pub struct RingNode {
    settings: Ring,
    me: Entry,
    nodes: usize,
    /// Whether an election is going on, as far as the node knows.
    takes_part: bool,
    leader: Option<NodeId>,
    token_at: Instant,
    timeout_at: Instant,
    sent: u64,
    unacknowledged: BTreeMap<u64, Unacknowledged>,
    /// Nodes that did not acknowledge, and until when they are skipped.
    silent: BTreeMap<NodeId, Instant>,
    outbox: Outbox<Message>,
}

impl Algorithm for Ring {
    type Machine = RingNode;
    type Durable = u64;

    /// Both papers need links that keep the order.
    fn uses_tcp(&self) -> bool {
        true
    }

    fn first(&self, _: NodeId, random: u64) -> u64 {
        random % 1_000
    }

    fn durable(machine: &RingNode) -> u64 {
        machine.me.number
    }

    fn patience(&self) -> Duration {
        self.timeout + self.acknowledge_within * 3
    }

    fn boot(&self, boot: Boot<u64>) -> RingNode {
        let now = boot.now;
        RingNode {
            settings: *self,
            me: Entry { number: boot.durable, node: boot.me },
            nodes: boot.candidates,
            takes_part: false,
            leader: None,
            token_at: now,
            timeout_at: now + START_AFTER,
            sent: 0,
            unacknowledged: BTreeMap::new(),
            silent: BTreeMap::new(),
            outbox: Outbox::default(),
        }
    }
}

impl Machine for RingNode {
    type Message = Message;

    fn handle_message(&mut self, from: NodeId, message: Message, now: Instant) {
        self.silent.remove(&from);
        match message {
            Message::Acknowledge { id } => {
                self.unacknowledged.remove(&id);
            }
            Message::Travel { id, hops_left, body } => {
                self.outbox.push(from, Message::Acknowledge { id }, Purpose::Heartbeat);
                self.receive(hops_left, body, now);
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        let due = |(id, sent): (&u64, &Unacknowledged)| (sent.until <= now).then_some(*id);
        let late: Vec<_> = self.unacknowledged.iter().filter_map(due).collect();
        for id in late {
            let Some(sent) = self.unacknowledged.remove(&id) else { continue };
            self.silent.insert(sent.to, now + self.settings.timeout);
            self.send(sent.hops_left, sent.body, now);
        }
        if self.leads() {
            if now >= self.token_at {
                self.token_at = now + self.settings.token_every;
                self.send(self.nodes, Body::Token(self.me.node), now);
            }
        } else if now >= self.timeout_at {
            self.hold_election(now);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let own = if self.leads() { self.token_at } else { self.timeout_at };
        self.unacknowledged.values().map(|sent| sent.until).chain([own]).min()
    }

    fn poll_message(&mut self) -> Option<Outgoing<Message>> {
        self.outbox.pop()
    }

    fn role(&self, _: Instant) -> Role {
        match self.leader.filter(|_| !self.takes_part) {
            Some(leader) if leader == self.me.node => Role::Leading { token: None },
            Some(leader) => Role::Following(leader),
            None => Role::Looking,
        }
    }
}

impl RingNode {
    fn leads(&self) -> bool {
        !self.takes_part && self.leader == Some(self.me.node)
    }

    fn hold_election(&mut self, now: Instant) {
        self.takes_part = true;
        self.timeout_at = now + self.settings.timeout;
        self.send(self.nodes, Body::Candidate(self.me), now);
    }

    /// Sends to the next node that answers.
    fn send(&mut self, hops_left: usize, body: Body, now: Instant) {
        let successors = (1..self.nodes).map(|step| NodeId((self.me.node.0 + step) % self.nodes));
        self.silent.retain(|_, until| *until > now);
        let mut successors = successors.filter(|node| !self.silent.contains_key(node));
        let Some(to) = successors.next() else {
            // The node is alone: the message returns at once, and all are tried again next time.
            self.silent.clear();
            self.receive(0, body, now);
            return;
        };
        self.sent += 1;
        let until = now + self.settings.acknowledge_within;
        self.unacknowledged.insert(self.sent, Unacknowledged { to, hops_left, body, until });
        let purpose = match body {
            Body::Candidate(_) | Body::Elected(_) => Purpose::Election,
            Body::Token(_) => Purpose::Heartbeat,
        };
        self.outbox.push(to, Message::Travel { id: self.sent, hops_left, body }, purpose);
    }

    fn pass_on(&mut self, hops_left: usize, body: Body, now: Instant) {
        if hops_left > 1 {
            self.send(hops_left - 1, body, now);
        }
    }

    fn receive(&mut self, hops_left: usize, body: Body, now: Instant) {
        match body {
            Body::Candidate(entry) if entry == self.me => self.win(now),
            Body::Candidate(entry) => {
                if !self.takes_part && entry < self.me {
                    self.hold_election(now);
                }
                self.takes_part = true;
                self.timeout_at = now + self.settings.timeout;
                if entry > self.me {
                    self.pass_on(hops_left, body, now);
                }
            }
            Body::Elected(entry) if entry == self.me => {}
            Body::Elected(entry) => {
                self.leader = Some(entry.node);
                self.takes_part = false;
                self.timeout_at = now + self.settings.timeout;
                self.pass_on(hops_left, body, now);
            }
            Body::Token(leader) if leader == self.me.node => {}
            Body::Token(_) => {
                // A node that takes part has not heard the result, which may be lost.
                if !self.takes_part {
                    self.timeout_at = now + self.settings.timeout;
                }
                self.pass_on(hops_left, body, now);
            }
        }
    }

    /// The number has passed every node, as only the largest does.
    fn win(&mut self, now: Instant) {
        if !self.takes_part {
            return;
        }
        self.takes_part = false;
        self.leader = Some(self.me.node);
        self.token_at = now + self.settings.token_every;
        self.send(self.nodes, Body::Elected(self.me), now);
    }
}
