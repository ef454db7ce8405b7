//! Baton's machines with an application that ignores the end of the claim. Pure.

use super::{DRAWN, runs};
use baton_classics::baton::queue::BatonQueue;
use baton_classics::baton::record::BatonRecord;
use baton_classics::draw::{self, Condition};
use baton_classics::machine::{Algorithm, Boot, Machine, NodeId, Outgoing, Role};
use baton_classics::scenario::Scenario;
use baton_election::instant::Instant;
use std::time::Duration;

/// Acts until it hears of another leader.
#[derive(Clone, Copy)]
struct IgnoresDeadline<A>(A);

struct Node<M> {
    inner: M,
    role: Role,
}

impl<A: Algorithm> Algorithm for IgnoresDeadline<A> {
    type Machine = Node<A::Machine>;
    type Durable = A::Durable;

    fn servers(&self) -> usize {
        self.0.servers()
    }

    fn uses_tcp(&self) -> bool {
        self.0.uses_tcp()
    }

    fn first(&self, node: NodeId, random: u64) -> A::Durable {
        self.0.first(node, random)
    }

    fn durable(machine: &Node<A::Machine>) -> A::Durable {
        A::durable(&machine.inner)
    }

    fn patience(&self) -> Duration {
        self.0.patience()
    }

    fn boot(&self, boot: Boot<A::Durable>) -> Node<A::Machine> {
        Node { inner: self.0.boot(boot), role: Role::Looking }
    }
}

impl<M: Machine> Node<M> {
    fn update(&mut self, now: Instant) {
        let role = self.inner.role(now);
        if role != Role::Looking || !self.role.is_leading() {
            self.role = role;
        }
    }
}

impl<M: Machine> Machine for Node<M> {
    type Message = M::Message;

    fn handle_message(&mut self, from: NodeId, message: M::Message, now: Instant) {
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

    fn poll_message(&mut self) -> Option<Outgoing<M::Message>> {
        self.inner.poll_message()
    }

    fn role(&self, _: Instant) -> Role {
        self.role
    }
}

fn partitions(seed: u64) -> Scenario {
    draw::draw(Condition::Partition, 3, 1, seed, BatonRecord.patience())
}

#[test]
fn record_has_one_leader_when_the_network_splits() {
    assert_eq!(runs(BatonRecord, DRAWN, partitions).overlaps, 0);
}

#[test]
fn record_without_the_deadline_has_two_leaders() {
    assert!(runs(IgnoresDeadline(BatonRecord), DRAWN, partitions).overlaps > 0);
}

#[test]
fn queue_has_one_leader_when_the_network_splits() {
    assert_eq!(runs(BatonQueue, DRAWN, partitions).overlaps, 0);
}

#[test]
fn queue_without_the_deadline_has_two_leaders() {
    assert!(runs(IgnoresDeadline(BatonQueue), DRAWN, partitions).overlaps > 0);
}
