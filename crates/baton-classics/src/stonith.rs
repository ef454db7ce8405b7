//! STONITH: every node that might still lead is powered off before another node acts.
//!
//! Pure. Start with [`Stonith`]. The rules are those of the chapter on fencing in "Pacemaker
//! Explained", and of corosync.conf(5). A node that has lost its leader needs a quorum, and then
//! fences every node that it has not heard from. It waits until the fencing device confirms that the
//! power is off. A node is heard here if it grants: then it leads no more.
//!
//! The power switch is a server. It needs its own network, but not a reliable one: without an answer,
//! no node acts.

use crate::machine::{Algorithm, Boot, Machine, NodeId, Outbox, Outgoing, Purpose, Role, majority};
use baton_election::instant::Instant;
use std::collections::BTreeSet;
use std::time::Duration;

/// The algorithm with its settings.
#[derive(Clone, Copy, Debug)]
pub struct Stonith {
    /// How often a leader shows that it is alive.
    pub beat: Duration,
    /// A node takes a silent leader for dead after this time, and 200 ms later per node before it.
    pub timeout: Duration,
    /// How long a node waits for grants, and then for the power switch, before it tries again.
    pub patience: Duration,
}

impl Stonith {
    /// The token timeout of corosync 3, 3 s, with a third of it between signs of life. For each node
    /// beyond two, corosync adds 650 ms, which are left out here.
    pub const COROSYNC: Self = Self {
        beat: Duration::from_secs(1),
        timeout: Duration::from_secs(3),
        patience: Duration::from_secs(1),
    };
}

/// The step between the timeouts of two nodes, so that they rarely claim at once.
const STAGGER: Duration = Duration::from_millis(200);

/// The messages between nodes and with the power switch.
#[derive(Clone, Copy, Debug)]
pub enum Message {
    /// The leader is alive.
    Alive {
        /// The generation of its claim.
        generation: u64,
    },
    /// Answers `Alive`.
    Seen,
    /// The sender wants to lead.
    Claim {
        /// Larger than any generation that it knows.
        generation: u64,
    },
    /// The sender does not lead, and will not before a larger generation.
    Grant {
        /// The generation of the claim.
        generation: u64,
    },
    /// Cut the power of this node.
    PowerOff {
        /// The node.
        victim: NodeId,
        /// The generation of the claim.
        generation: u64,
    },
    /// The power was cut.
    IsOff {
        /// The node.
        victim: NodeId,
        /// The generation of the claim.
        generation: u64,
    },
}

/// A node or the power switch.
#[derive(Debug)]
pub enum StonithNode {
    /// A node.
    Member(Member),
    /// The power switch.
    Switch(Switch),
}

/// The power switch.
#[derive(Debug, Default)]
pub struct Switch {
    victims: Vec<NodeId>,
    outbox: Outbox<Message>,
}

#[derive(Debug)]
enum State {
    Waiting {
        leader: Option<NodeId>,
    },
    /// The nodes that have granted or are off, and those whose power is being cut.
    Claiming {
        harmless: BTreeSet<NodeId>,
        victims: BTreeSet<NodeId>,
    },
    Leading,
}

/// A node.
#[derive(Debug)]
pub struct Member {
    settings: Stonith,
    boot: Boot<u64>,
    /// The largest generation that the node knows.
    generation: u64,
    state: State,
    due: Instant,
    outbox: Outbox<Message>,
}

impl Algorithm for Stonith {
    type Machine = StonithNode;
    type Durable = u64;

    fn servers(&self) -> usize {
        1
    }

    fn first(&self, _: NodeId, _: u64) -> u64 {
        0
    }

    fn durable(machine: &StonithNode) -> u64 {
        match machine {
            StonithNode::Member(member) => member.generation,
            StonithNode::Switch(_) => 0,
        }
    }

    fn patience(&self) -> Duration {
        self.timeout + self.patience
    }

    fn boot(&self, boot: Boot<u64>) -> StonithNode {
        if boot.me.0 == boot.candidates {
            return StonithNode::Switch(Switch::default());
        }
        let mut member = Member {
            settings: *self,
            generation: boot.durable,
            state: State::Waiting { leader: None },
            due: boot.now,
            outbox: Outbox::default(),
            boot,
        };
        member.wait(None, member.boot.now);
        StonithNode::Member(member)
    }
}

impl Machine for StonithNode {
    type Message = Message;

    fn handle_message(&mut self, from: NodeId, message: Message, now: Instant) {
        match (self, message) {
            (Self::Switch(switch), Message::PowerOff { victim, generation }) => {
                switch.victims.push(victim);
                switch.outbox.send(from, Message::IsOff { victim, generation });
            }
            (
                Self::Switch(_),
                Message::Alive { .. }
                | Message::Seen
                | Message::Claim { .. }
                | Message::Grant { .. }
                | Message::IsOff { .. },
            ) => {}
            (Self::Member(member), message) => member.handle_message(from, message, now),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        match self {
            Self::Member(member) => member.handle_timeout(now),
            Self::Switch(_) => {}
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Member(member) => Some(member.due),
            Self::Switch(_) => None,
        }
    }

    fn poll_message(&mut self) -> Option<Outgoing<Message>> {
        match self {
            Self::Member(member) => member.outbox.pop(),
            Self::Switch(switch) => switch.outbox.pop(),
        }
    }

    fn role(&self, _: Instant) -> Role {
        match self {
            Self::Member(Member { state: State::Leading, .. }) => Role::Leading { token: None },
            Self::Member(Member { state: State::Waiting { leader: Some(leader) }, .. }) => {
                Role::Following(*leader)
            }
            Self::Member(_) | Self::Switch(_) => Role::Looking,
        }
    }

    fn poll_power_off(&mut self) -> Option<NodeId> {
        match self {
            Self::Member(_) => None,
            Self::Switch(switch) => switch.victims.pop(),
        }
    }
}

impl Member {
    /// Waits for signs of life of a leader.
    fn wait(&mut self, leader: Option<NodeId>, now: Instant) {
        let before = u32::try_from(self.boot.me.0).unwrap_or(u32::MAX);
        self.state = State::Waiting { leader };
        self.due = now + self.settings.timeout + STAGGER.saturating_mul(before);
    }

    fn handle_message(&mut self, from: NodeId, message: Message, now: Instant) {
        match message {
            Message::Alive { generation } => {
                self.outbox.push(from, Message::Seen, Purpose::Heartbeat);
                if generation >= self.generation {
                    self.generation = generation;
                    self.wait(Some(from), now);
                }
            }
            Message::Claim { generation } => self.answer_claim(from, generation, now),
            Message::Grant { generation } => self.count(from, generation, now),
            Message::IsOff { victim, generation } => self.count(victim, generation, now),
            Message::Seen | Message::PowerOff { .. } => {}
        }
    }

    /// A leader does not grant: it shows that it is alive, and its power decides.
    fn answer_claim(&mut self, from: NodeId, generation: u64, now: Instant) {
        if matches!(self.state, State::Leading) {
            self.generation = self.generation.max(generation);
            self.outbox.send(from, Message::Alive { generation: self.generation });
        } else if generation > self.generation {
            self.generation = generation;
            self.wait(None, now);
            self.outbox.send(from, Message::Grant { generation });
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if now < self.due {
            return;
        }
        match &mut self.state {
            State::Leading => self.beat(Purpose::Heartbeat, now),
            State::Claiming { harmless, victims }
                if victims.is_empty() && harmless.len() >= majority(self.boot.candidates) =>
            {
                let all = (0..self.boot.candidates).map(NodeId);
                *victims = all.filter(|node| !harmless.contains(node)).collect();
                let (switch, generation) = (NodeId(self.boot.candidates), self.generation);
                for victim in victims.iter().copied() {
                    self.outbox.send(switch, Message::PowerOff { victim, generation });
                }
                self.due = now + self.settings.patience;
            }
            State::Waiting { .. } | State::Claiming { .. } => self.claim(now),
        }
    }

    fn claim(&mut self, now: Instant) {
        self.generation += 1;
        let harmless = BTreeSet::from([self.boot.me]);
        self.state = State::Claiming { harmless, victims: BTreeSet::new() };
        self.due = now + self.settings.patience;
        for peer in self.boot.peers() {
            self.outbox.send(peer, Message::Claim { generation: self.generation });
        }
    }

    /// A node has granted or is off. The claimant leads once this holds for all others.
    fn count(&mut self, node: NodeId, generation: u64, now: Instant) {
        let State::Claiming { harmless, .. } = &mut self.state else { return };
        if generation != self.generation {
            return;
        }
        harmless.insert(node);
        if harmless.len() == self.boot.candidates {
            self.state = State::Leading;
            self.beat(Purpose::Election, now);
        }
    }

    fn beat(&mut self, purpose: Purpose, now: Instant) {
        self.due = now + self.settings.beat;
        for peer in self.boot.peers() {
            self.outbox.push(peer, Message::Alive { generation: self.generation }, purpose);
        }
    }
}
