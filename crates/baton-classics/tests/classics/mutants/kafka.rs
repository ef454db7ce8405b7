//! Kafka's controllers without an epoch that grows. Pure.

use super::{DRAWN, runs};
use baton_classics::draw::{self, Condition};
use baton_classics::kafka::{Kafka, KafkaNode, Message};
use baton_classics::machine::{Algorithm, Boot, Machine, NodeId, Outgoing, Role};
use baton_classics::scenario::Scenario;
use baton_election::instant::Instant;
use std::time::Duration;

/// Every controller acts with epoch 1.
#[derive(Clone, Copy)]
struct OneEpoch(Kafka);

struct Node(KafkaNode);

impl Algorithm for OneEpoch {
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
        Node(self.0.boot(boot))
    }
}

impl Machine for Node {
    type Message = Message;

    fn handle_message(&mut self, from: NodeId, message: Message, now: Instant) {
        let mut message = message;
        if let Message::Registered { epoch } | Message::Controller { epoch, .. } = &mut message {
            *epoch = 1;
        }
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

fn pauses(seed: u64) -> Scenario {
    draw::draw(Condition::Pause, 3, 1, seed, Kafka::DEFAULT.session_timeout)
}

#[test]
fn kafka_with_epochs_refuses_late_writes() {
    assert_eq!(runs(Kafka::DEFAULT, DRAWN, pauses).late_writes_by_token, 0);
}

#[test]
fn kafka_with_one_epoch_takes_late_writes() {
    assert!(runs(OneEpoch(Kafka::DEFAULT), DRAWN, pauses).late_writes_by_token > 0);
}
