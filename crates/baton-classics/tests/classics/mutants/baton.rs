//! Baton with an application that ignores the end of the claim. Pure.

use super::{DRAWN, runs};
use baton_classics::baton::{Baton, BatonNode, Message};
use baton_classics::draw::{self, Condition};
use baton_classics::machine::{Algorithm, Boot, Machine, NodeId, Outgoing, Role};
use baton_classics::scenario::Scenario;
use baton_election::instant::Instant;
use std::time::Duration;

/// Acts until it hears of another leader.
#[derive(Clone, Copy)]
struct IgnoresDeadline(Baton);

struct Node {
    inner: BatonNode,
    role: Role,
}

impl Algorithm for IgnoresDeadline {
    type Machine = Node;
    type Durable = ();

    fn servers(&self) -> usize {
        self.0.servers()
    }

    fn uses_tcp(&self) -> bool {
        self.0.uses_tcp()
    }

    fn first(&self, _: NodeId, _: u64) {}

    fn durable(_: &Node) {}

    fn patience(&self) -> Duration {
        self.0.patience()
    }

    fn boot(&self, boot: Boot<()>) -> Node {
        Node { inner: self.0.boot(boot), role: Role::Looking }
    }
}

impl Node {
    fn update(&mut self, now: Instant) {
        let role = self.inner.role(now);
        if role != Role::Looking || !self.role.is_leading() {
            self.role = role;
        }
    }
}

impl Machine for Node {
    type Message = Message;

    fn handle_message(&mut self, from: NodeId, message: Message, now: Instant) {
        self.inner.handle_message(from, message, now);
        self.update(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.inner.handle_timeout(now);
        self.update(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }

    fn poll_message(&mut self) -> Option<Outgoing<Message>> {
        self.inner.poll_message()
    }

    fn role(&self, _: Instant) -> Role {
        self.role
    }
}

fn partitions(seed: u64) -> Scenario {
    draw::draw(Condition::Partition, 3, 1, seed, Baton::DEFAULT.patience())
}

#[test]
fn baton_has_one_leader_when_the_network_splits() {
    assert_eq!(runs(Baton::DEFAULT, DRAWN, partitions).overlaps, 0);
}

#[test]
fn baton_without_the_deadline_has_two_leaders() {
    assert!(runs(IgnoresDeadline(Baton::DEFAULT), DRAWN, partitions).overlaps > 0);
}
