//! A sentinel that needs no majority. Pure.

use super::{DRAWN, calm, runs};
use baton_classics::machine::{Algorithm, Boot, Machine, NodeId, Outgoing, Role};
use baton_classics::scenario::{Fault, Scenario, Target};
use baton_classics::sentinel::{Message, Sentinel, SentinelNode, Stored};
use baton_election::instant::Instant;
use baton_sim::clock::Moment;
use std::time::Duration;

/// Takes the agreement and the votes of all others for granted.
#[derive(Clone, Copy)]
struct NeedsNoMajority(Sentinel);

struct Node {
    inner: SentinelNode,
    peers: Vec<NodeId>,
}

impl Algorithm for NeedsNoMajority {
    type Machine = Node;
    type Durable = Stored;

    fn uses_tcp(&self) -> bool {
        self.0.uses_tcp()
    }

    fn first(&self, node: NodeId, random: u64) -> Stored {
        self.0.first(node, random)
    }

    fn durable(machine: &Node) -> Stored {
        Sentinel::durable(&machine.inner)
    }

    fn patience(&self) -> Duration {
        self.0.patience()
    }

    fn boot(&self, boot: Boot<Stored>) -> Node {
        Node { peers: boot.peers().collect(), inner: self.0.boot(boot) }
    }
}

impl Machine for Node {
    type Message = Message;

    fn handle_message(&mut self, from: NodeId, message: Message, now: Instant) {
        self.inner.handle_message(from, message, now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        let vote = Sentinel::durable(&self.inner).vote;
        for peer in &self.peers {
            self.inner.handle_message(*peer, Message::MasterDown { is_down: true, vote }, now);
        }
        self.inner.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }

    fn poll_message(&mut self) -> Option<Outgoing<Message>> {
        self.inner.poll_message()
    }

    fn role(&self, now: Instant) -> Role {
        self.inner.role(now)
    }
}

/// A replica is alone; the master is not.
fn lonely_replica(seed: u64) -> Scenario {
    let mut scenario = calm(&Sentinel::TUTORIAL, 3, seed);
    let at = Moment::START + Duration::from_secs(40);
    let lasts = Duration::from_secs(40);
    scenario.faults.push((at, Fault::Isolate { target: Target::Node(1), lasts }));
    scenario
}

#[test]
fn sentinel_with_a_majority_has_one_master() {
    assert_eq!(runs(Sentinel::TUTORIAL, DRAWN, lonely_replica).overlaps, 0);
}

#[test]
fn sentinel_without_a_majority_has_two_masters() {
    assert!(runs(NeedsNoMajority(Sentinel::TUTORIAL), DRAWN, lonely_replica).overlaps > 0);
}
