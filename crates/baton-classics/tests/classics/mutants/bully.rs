//! Bully without the rule that a halted node stops. Pure.

use super::{DRAWN, runs};
use baton_classics::bully::{Bully, BullyNode, Message, Request};
use baton_classics::draw::{self, Condition};
use baton_classics::machine::{Algorithm, Boot, Machine, NodeId, Outgoing, Purpose, Role};
use baton_classics::scenario::Scenario;
use baton_election::instant::Instant;
use std::time::Duration;

/// Answers calls to halt, and goes on.
#[derive(Clone, Copy)]
struct NeverHalts(Bully);

struct Node {
    inner: BullyNode,
    reply: Option<Outgoing<Message>>,
}

impl Algorithm for NeverHalts {
    type Machine = Node;
    type Durable = ();

    fn first(&self, _: NodeId, _: u64) {}

    fn durable(_: &Node) {}

    fn patience(&self) -> Duration {
        self.0.patience()
    }

    fn boot(&self, boot: Boot<()>) -> Node {
        Node { inner: self.0.boot(boot), reply: None }
    }
}

impl Machine for Node {
    type Message = Message;

    fn handle_message(&mut self, from: NodeId, message: Message, now: Instant) {
        if let Message::Call { number, request: Request::Halt } = message {
            let message = Message::Reply { number, is_normal: false };
            self.reply = Some(Outgoing { to: from, message, purpose: Purpose::Election });
        } else {
            self.inner.handle_message(from, message, now);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.inner.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }

    fn poll_message(&mut self) -> Option<Outgoing<Message>> {
        self.reply.take().or_else(|| self.inner.poll_message())
    }

    fn role(&self, now: Instant) -> Role {
        self.inner.role(now)
    }
}

fn crashes(seed: u64) -> Scenario {
    draw::draw(Condition::Crash, 5, 0, seed, Bully::PAPER.patience())
}

#[test]
fn bully_that_halts_has_one_leader_when_nodes_crash() {
    assert_eq!(runs(Bully::PAPER, DRAWN, crashes).overlaps, 0);
}

#[test]
fn bully_that_never_halts_has_two_leaders_when_nodes_crash() {
    assert!(runs(NeverHalts(Bully::PAPER), DRAWN, crashes).overlaps > 0);
}
