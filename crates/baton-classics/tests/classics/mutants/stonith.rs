//! STONITH with a switch that confirms without cutting the power. Pure.

use super::{DRAWN, runs};
use baton_classics::draw::{self, Condition};
use baton_classics::machine::{Algorithm, Boot, Machine, NodeId, Outgoing, Role};
use baton_classics::scenario::Scenario;
use baton_classics::stonith::{Message, Stonith, StonithNode};
use baton_election::instant::Instant;
use std::time::Duration;

/// Its switch only says that the power is off.
#[derive(Clone, Copy)]
struct FalseSwitch(Stonith);

struct Node(StonithNode);

impl Algorithm for FalseSwitch {
    type Machine = Node;
    type Durable = u64;

    fn servers(&self) -> usize {
        self.0.servers()
    }

    fn first(&self, node: NodeId, random: u64) -> u64 {
        self.0.first(node, random)
    }

    fn durable(machine: &Node) -> u64 {
        Stonith::durable(&machine.0)
    }

    fn patience(&self) -> Duration {
        self.0.patience()
    }

    fn boot(&self, boot: Boot<u64>) -> Node {
        Node(self.0.boot(boot))
    }
}

impl Machine for Node {
    type Message = Message;

    fn handle_message(&mut self, from: NodeId, message: Message, now: Instant) {
        self.0.handle_message(from, message, now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.0.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.0.poll_timeout()
    }

    fn poll_message(&mut self) -> Option<Outgoing<Message>> {
        self.0.poll_message()
    }

    fn role(&self, now: Instant) -> Role {
        self.0.role(now)
    }
}

fn partitions(seed: u64) -> Scenario {
    draw::draw(Condition::Partition, 5, 1, seed, Stonith::COROSYNC.patience())
}

#[test]
fn stonith_has_one_leader_when_the_network_splits() {
    assert_eq!(runs(Stonith::COROSYNC, DRAWN, partitions).overlaps, 0);
}

#[test]
fn stonith_with_a_false_switch_has_two_leaders() {
    assert!(runs(FalseSwitch(Stonith::COROSYNC), DRAWN, partitions).overlaps > 0);
}
