//! The form of every algorithm: messages and an instant go in; messages, a timer, and a role come
//! out.
//!
//! Pure. Start with [`Machine`].

use baton_election::instant::Instant;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// A node of the network, counted from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The belief of a node at an instant of its own clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// The node knows of no leader, or takes no part in the election.
    Looking,
    /// The node follows this leader.
    Following(NodeId),
    /// The node believes that it may act as the leader.
    Leading {
        /// The number of this leadership that a resource can compare, if the algorithm has one.
        token: Option<u64>,
    },
}

impl Role {
    /// Whether the node believes that it may act as the leader.
    pub const fn is_leading(self) -> bool {
        matches!(self, Self::Leading { .. })
    }
}

/// Why a message is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// The message is part of an election.
    Election,
    /// The message only shows that its sender is alive, or answers such a message.
    Heartbeat,
}

/// A message on its way out.
#[derive(Clone, Debug)]
pub struct Outgoing<M> {
    /// The receiver.
    pub to: NodeId,
    /// The content.
    pub message: M,
    /// Why it is sent.
    pub purpose: Purpose,
}

/// Messages that a machine wants to send, in order.
#[derive(Clone, Debug)]
pub struct Outbox<M>(VecDeque<Outgoing<M>>);

impl<M> Default for Outbox<M> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<M> Outbox<M> {
    /// Sends a message of the election.
    pub fn send(&mut self, to: NodeId, message: M) {
        self.push(to, message, Purpose::Election);
    }

    /// Sends a message for this purpose.
    pub fn push(&mut self, to: NodeId, message: M, purpose: Purpose) {
        self.0.push_back(Outgoing { to, message, purpose });
    }

    /// The next message.
    pub fn pop(&mut self) -> Option<Outgoing<M>> {
        self.0.pop_front()
    }
}

/// One node's part of an algorithm.
pub trait Machine {
    /// The messages between nodes.
    type Message: Clone + fmt::Debug;

    /// Handles a message at `now`.
    fn handle_message(&mut self, from: NodeId, message: Self::Message, now: Instant);

    /// Does what is due at `now`. May be called early.
    fn handle_timeout(&mut self, now: Instant);

    /// When [`Machine::handle_timeout`] must be called next.
    fn poll_timeout(&self) -> Option<Instant>;

    /// The next message to send. Everything durable is stored before it is sent.
    fn poll_message(&mut self) -> Option<Outgoing<Self::Message>>;

    /// The belief of the node at `now`.
    fn role(&self, now: Instant) -> Role;

    /// A node whose power must be cut now. Only a power switch returns one.
    fn poll_power_off(&mut self) -> Option<NodeId> {
        None
    }
}

/// The knowledge of a node that starts.
#[derive(Clone, Debug)]
pub struct Boot<D> {
    /// The node.
    pub me: NodeId,
    /// How many candidates there are; servers have higher numbers.
    pub candidates: usize,
    /// Everything that it stored before it crashed.
    pub durable: D,
    /// Seeds its random choices.
    pub seed: u64,
    /// The instant of the start, on the node's clock.
    pub now: Instant,
}

impl<D> Boot<D> {
    /// The other candidates.
    pub fn peers(&self) -> impl Iterator<Item = NodeId> + use<D> {
        let me = self.me;
        (0..self.candidates).map(NodeId).filter(move |node| *node != me)
    }
}

/// An algorithm with its settings: creates the machines.
pub trait Algorithm {
    /// One node's part.
    type Machine: Machine;
    /// The state of a node that survives a crash.
    type Durable: Clone;

    /// How many servers stand beside the candidates, such as a store. Servers never fail, but
    /// they can be cut off.
    fn servers(&self) -> usize {
        0
    }

    /// Whether the messages go over TCP: in order, and lost ones again after a while.
    fn uses_tcp(&self) -> bool {
        false
    }

    /// The state that a node has stored before its first start; `random` is drawn per node.
    fn first(&self, node: NodeId, random: u64) -> Self::Durable;

    /// The state that the machine has stored so far.
    fn durable(machine: &Self::Machine) -> Self::Durable;

    /// The longest time in which the candidates notice that a leader has died, by its settings.
    fn patience(&self) -> Duration;

    /// Starts a node.
    fn boot(&self, boot: Boot<Self::Durable>) -> Self::Machine;
}

/// The smallest number of nodes that is more than half of `nodes`.
pub const fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// The earlier of two timeouts.
pub fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}
