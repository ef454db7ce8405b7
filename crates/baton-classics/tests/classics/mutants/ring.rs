//! A ring whose nodes do not compare numbers. Pure.

use super::{DRAWN, calm, runs};
use baton_classics::machine::{Algorithm, Boot, Machine, NodeId, Outbox, Outgoing, Role};
use baton_classics::ring::{Body, Message, Ring, RingNode};
use baton_classics::scenario::Scenario;
use baton_election::instant::Instant;
use std::time::Duration;

/// The ring has this many nodes.
const NODES: usize = 5;

/// Passes on the numbers of others without a look at them, so every number returns and wins.
#[derive(Clone, Copy)]
struct NeverCompares(Ring);

struct Node {
    inner: RingNode,
    me: NodeId,
    outbox: Outbox<Message>,
}

impl Algorithm for NeverCompares {
    type Machine = Node;
    type Durable = u64;

    fn uses_tcp(&self) -> bool {
        self.0.uses_tcp()
    }

    fn first(&self, node: NodeId, random: u64) -> u64 {
        self.0.first(node, random)
    }

    fn durable(machine: &Node) -> u64 {
        Ring::durable(&machine.inner)
    }

    fn patience(&self) -> Duration {
        self.0.patience()
    }

    fn boot(&self, boot: Boot<u64>) -> Node {
        Node { me: boot.me, inner: self.0.boot(boot), outbox: Outbox::default() }
    }
}

impl Machine for Node {
    type Message = Message;

    fn handle_message(&mut self, from: NodeId, message: Message, now: Instant) {
        match message {
            Message::Travel { id, hops_left, body: Body::Candidate(entry) }
                if entry.node != self.me =>
            {
                self.outbox.send(from, Message::Acknowledge { id });
                let next = NodeId((self.me.0 + 1) % NODES);
                let body = Body::Candidate(entry);
                self.outbox.send(next, Message::Travel { id: 0, hops_left: hops_left - 1, body });
            }
            Message::Travel { .. } | Message::Acknowledge { .. } => {
                self.inner.handle_message(from, message, now);
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.inner.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }

    fn poll_message(&mut self) -> Option<Outgoing<Message>> {
        self.outbox.pop().or_else(|| self.inner.poll_message())
    }

    fn role(&self, now: Instant) -> Role {
        self.inner.role(now)
    }
}

fn no_fault(seed: u64) -> Scenario {
    calm(&Ring::PAPER, NODES, seed)
}

#[test]
fn ring_that_compares_numbers_has_one_leader() {
    assert_eq!(runs(Ring::PAPER, DRAWN, no_fault).overlaps, 0);
}

#[test]
fn ring_that_never_compares_numbers_has_two_leaders() {
    assert!(runs(NeverCompares(Ring::PAPER), DRAWN, no_fault).overlaps > 0);
}
