//! The bully algorithm: the largest node that is up becomes the coordinator.
//!
//! Pure. Start with [`Bully`]. The rules are those of Garcia-Molina, "Elections in a Distributed
//! Computing System" (1982). They are the procedures Election, Check, Timeout, and Recovery of its
//! bully algorithm, and the calls that nodes answer at any time. The paper assumes that the network
//! loses nothing and delivers within a known time, and that a node never pauses.
//!
//! Every remote call is a message and a reply. A node that misses a reply for
//! [`Bully::reply_within`] takes the other node for dead.

use crate::machine::{Algorithm, Boot, Machine, NodeId, Outbox, Outgoing, Purpose, Role};
use baton_election::instant::Instant;
use std::collections::BTreeSet;
use std::time::Duration;

/// The algorithm with its settings.
#[derive(Clone, Copy, Debug)]
pub struct Bully {
    /// The paper's T: no call takes longer between two nodes that are up.
    pub reply_within: Duration,
    /// How often the coordinator asks the others if they are in order (Check).
    pub check_every: Duration,
    /// How long a node waits for its coordinator before it asks it (Timeout).
    pub timeout: Duration,
}

impl Bully {
    /// A reply takes at most 20 ms on this network, so 50 ms are enough. The paper gives no
    /// durations.
    pub const PAPER: Self = Self {
        reply_within: Duration::from_millis(50),
        check_every: Duration::from_secs(1),
        timeout: Duration::from_secs(2),
    };
}

/// A remote call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// Asks whether the node is up.
    AreYouThere,
    /// Asks whether the node is in the state Normal.
    AreYouNormal,
    /// Stops the node until the caller has become the coordinator.
    Halt,
    /// Names the caller as the coordinator.
    NewCoordinator,
    /// Lets the node go on.
    Ready,
}

/// A call or its reply.
#[derive(Clone, Copy, Debug)]
pub enum Message {
    /// A call.
    Call {
        /// Numbers the caller's calls.
        number: u64,
        /// The procedure.
        request: Request,
    },
    /// The reply to a call.
    Reply {
        /// The number of the call.
        number: u64,
        /// Whether the node is in the state Normal.
        is_normal: bool,
    },
}

/// The state of a node (the paper's S(i).s; a node that is down does not run).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Normal,
    Election,
    Reorganization,
}

/// The replies that a node waits for.
#[derive(Clone, Debug)]
enum Wait {
    /// Nothing is awaited.
    None,
    /// The coordinator, which has been silent, must answer.
    Coordinator,
    /// A larger node answers, or there is none that is up.
    Larger,
    /// Smaller nodes halt.
    Halted,
    /// The nodes that have halted accept the new coordinator.
    Accepted,
    /// The nodes that have halted go on.
    Ready,
}

/// One node.
#[derive(Debug)]
pub struct BullyNode {
    settings: Bully,
    boot: Boot<()>,
    state: State,
    coordinator: Option<NodeId>,
    halted_by: Option<NodeId>,
    wait: Wait,
    wait_until: Instant,
    /// The smaller nodes that have halted (the paper's Up), and those that must still answer.
    up: BTreeSet<NodeId>,
    missing: BTreeSet<NodeId>,
    calls: u64,
    check_call: u64,
    check_at: Instant,
    timeout_at: Instant,
    outbox: Outbox<Message>,
}

impl Algorithm for Bully {
    type Machine = BullyNode;
    type Durable = ();

    fn first(&self, _: NodeId, _: u64) {}

    fn durable(_: &BullyNode) {}

    fn patience(&self) -> Duration {
        self.timeout + self.reply_within * 2
    }

    /// The procedure Recovery: a node that comes up holds an election.
    fn boot(&self, boot: Boot<()>) -> BullyNode {
        let now = boot.now;
        let mut node = BullyNode {
            settings: *self,
            boot,
            state: State::Election,
            coordinator: None,
            halted_by: None,
            wait: Wait::None,
            wait_until: now,
            up: BTreeSet::new(),
            missing: BTreeSet::new(),
            calls: 0,
            check_call: 0,
            check_at: now,
            timeout_at: now,
            outbox: Outbox::default(),
        };
        node.hold_election(now);
        node
    }
}

impl Machine for BullyNode {
    type Message = Message;

    fn handle_message(&mut self, from: NodeId, message: Message, now: Instant) {
        match message {
            Message::Call { number, request } => {
                self.answer(from, request, now);
                let is_normal = self.state == State::Normal;
                let purpose = purpose(request);
                self.outbox.push(from, Message::Reply { number, is_normal }, purpose);
            }
            Message::Reply { number, is_normal } => {
                if number == self.check_call && self.is_coordinator() && !is_normal {
                    self.hold_election(now);
                } else if number == self.calls {
                    self.receive_reply(from, now);
                }
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        match self.wait {
            Wait::None if self.is_coordinator() => {
                if now >= self.check_at {
                    self.check_at = now + self.settings.check_every;
                    let all: BTreeSet<_> = self.boot.peers().collect();
                    self.call(&all, Request::AreYouNormal);
                    self.check_call = self.calls;
                }
            }
            Wait::None if now >= self.timeout_at => self.time_out(now),
            Wait::Coordinator | Wait::Larger | Wait::Halted | Wait::Accepted | Wait::Ready
                if now >= self.wait_until =>
            {
                self.miss_replies(now);
            }
            Wait::None
            | Wait::Coordinator
            | Wait::Larger
            | Wait::Halted
            | Wait::Accepted
            | Wait::Ready => {}
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(match self.wait {
            Wait::None if self.is_coordinator() => self.check_at,
            Wait::None => self.timeout_at,
            Wait::Coordinator | Wait::Larger | Wait::Halted | Wait::Accepted | Wait::Ready => {
                self.wait_until
            }
        })
    }

    fn poll_message(&mut self) -> Option<Outgoing<Message>> {
        self.outbox.pop()
    }

    fn role(&self, _: Instant) -> Role {
        match self.coordinator.filter(|_| self.state == State::Normal) {
            Some(coordinator) if coordinator == self.boot.me => Role::Leading { token: None },
            Some(coordinator) => Role::Following(coordinator),
            None => Role::Looking,
        }
    }
}

/// Only the coordinator's regular check is no part of an election.
const fn purpose(request: Request) -> Purpose {
    match request {
        Request::AreYouNormal => Purpose::Heartbeat,
        Request::AreYouThere | Request::Halt | Request::NewCoordinator | Request::Ready => {
            Purpose::Election
        }
    }
}

impl BullyNode {
    fn is_coordinator(&self) -> bool {
        self.state == State::Normal && self.coordinator == Some(self.boot.me)
    }

    /// Handles a call, as the paper's procedures of the same names.
    fn answer(&mut self, from: NodeId, request: Request, now: Instant) {
        if self.coordinator == Some(from) {
            self.timeout_at = now + self.settings.timeout;
        }
        match request {
            Request::AreYouThere | Request::AreYouNormal => {}
            Request::Halt => {
                self.wait = Wait::None;
                self.state = State::Election;
                self.halted_by = Some(from);
                self.timeout_at = now + self.settings.timeout;
            }
            Request::NewCoordinator => {
                if self.halted_by == Some(from) && self.state == State::Election {
                    self.coordinator = Some(from);
                    self.state = State::Reorganization;
                    self.timeout_at = now + self.settings.timeout;
                }
            }
            Request::Ready => {
                if self.coordinator == Some(from) && self.state == State::Reorganization {
                    self.state = State::Normal;
                }
            }
        }
    }

    /// The procedure Election, first half: larger nodes go first.
    fn hold_election(&mut self, now: Instant) {
        let larger: BTreeSet<_> = self.boot.peers().filter(|node| *node > self.boot.me).collect();
        if larger.is_empty() {
            self.halt_smaller(now);
        } else {
            self.call_and_wait(&larger, Request::AreYouThere, Wait::Larger, now);
        }
    }

    /// The procedure Election, second half.
    fn halt_smaller(&mut self, now: Instant) {
        self.state = State::Election;
        self.halted_by = Some(self.boot.me);
        self.up.clear();
        let smaller: BTreeSet<_> = self.boot.peers().filter(|node| *node < self.boot.me).collect();
        self.call_and_wait(&smaller, Request::Halt, Wait::Halted, now);
        self.proceed(now);
    }

    fn call(&mut self, nodes: &BTreeSet<NodeId>, request: Request) {
        self.calls += 1;
        let message = Message::Call { number: self.calls, request };
        for node in nodes {
            self.outbox.push(*node, message, purpose(request));
        }
    }

    fn call_and_wait(
        &mut self,
        nodes: &BTreeSet<NodeId>,
        request: Request,
        wait: Wait,
        now: Instant,
    ) {
        self.call(nodes, request);
        self.missing.clone_from(nodes);
        self.wait = wait;
        self.wait_until = now + self.settings.reply_within;
    }

    fn receive_reply(&mut self, from: NodeId, now: Instant) {
        self.missing.remove(&from);
        match self.wait {
            Wait::None => {}
            // The coordinator lives, or a larger node will hold the election.
            Wait::Coordinator | Wait::Larger => {
                self.wait = Wait::None;
                self.timeout_at = now + self.settings.timeout;
            }
            Wait::Halted => {
                self.up.insert(from);
                self.proceed(now);
            }
            Wait::Accepted | Wait::Ready => self.proceed(now),
        }
    }

    /// Takes the next step of an election when every call has been answered.
    fn proceed(&mut self, now: Instant) {
        if !self.missing.is_empty() {
            return;
        }
        let up = self.up.clone();
        match self.wait {
            Wait::None | Wait::Coordinator | Wait::Larger => {}
            Wait::Halted => {
                self.coordinator = Some(self.boot.me);
                self.state = State::Reorganization;
                self.call_and_wait(&up, Request::NewCoordinator, Wait::Accepted, now);
                self.proceed(now);
            }
            Wait::Accepted => {
                self.call_and_wait(&up, Request::Ready, Wait::Ready, now);
                self.proceed(now);
            }
            Wait::Ready => {
                self.state = State::Normal;
                self.wait = Wait::None;
                self.check_at = now + self.settings.check_every;
            }
        }
    }

    /// Some nodes have not answered in time.
    fn miss_replies(&mut self, now: Instant) {
        self.missing.clear();
        match self.wait {
            Wait::None => {}
            Wait::Coordinator | Wait::Accepted | Wait::Ready => self.hold_election(now),
            Wait::Larger => self.halt_smaller(now),
            Wait::Halted => self.proceed(now),
        }
    }

    /// The procedure Timeout: the coordinator has been silent.
    fn time_out(&mut self, now: Instant) {
        match self.coordinator.filter(|_| self.state != State::Election) {
            Some(coordinator) => {
                let call = BTreeSet::from([coordinator]);
                self.call_and_wait(&call, Request::AreYouThere, Wait::Coordinator, now);
            }
            None => self.hold_election(now),
        }
    }
}
