//! Runs a scenario: the machines of one algorithm on clocks that disagree, over one network.
//!
//! Pure. Start with [`World::step`]. The world checks nothing; an [`Observer`] does. A seed gives
//! the same run on every machine: numbers are integers, and events of the same moment happen in
//! the order in which they were scheduled.

mod events;
mod faults;
mod node;

use crate::machine::{Algorithm, Machine, NodeId, Purpose, Role};
use crate::scenario::{Fault, Scenario};
use baton_sim::clock::{Clock, Moment};
use baton_sim::rng::Rng;
use events::EventQueue;
use faults::Cut;
use node::Node;
use std::fmt;
use std::time::Duration;

/// Something that happened, at true time.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a, M> {
    /// A message was sent.
    Sent {
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
        /// The content.
        message: &'a M,
        /// Why it was sent.
        purpose: Purpose,
        /// When it arrives; `None` if the network loses it.
        arrives: Option<Moment>,
    },
    /// A machine handles a message, for this purpose, or a timeout.
    Woken {
        /// The node.
        node: NodeId,
        /// Why the message was sent.
        message: Option<Purpose>,
    },
    /// A process has another role. A process that does not run is looking.
    RoleChanged(NodeId, Role),
    /// A process starts.
    Started(NodeId),
    /// A process ends.
    Crashed(NodeId),
    /// A process stands still.
    Paused(NodeId),
    /// A process runs on.
    Resumed(NodeId),
    /// A fault of the network begins.
    CutBegan(&'a Fault),
    /// A fault of the network ends.
    CutEnded,
    /// A write of a node that led when it decided to write reaches the resource.
    WriteArrived(Write),
}

/// A write to the resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write {
    /// The writer.
    pub node: NodeId,
    /// Which of the writer's leaderships decided to write.
    pub leadership: u64,
    /// The token of that leadership.
    pub token: Option<u64>,
}

/// Observes a run.
pub trait Observer<M> {
    /// Something happened at `now`.
    fn observe(&mut self, now: Moment, event: &Event<'_, M>);
}

impl<M, A: Observer<M>, B: Observer<M>> Observer<M> for (A, B) {
    fn observe(&mut self, now: Moment, event: &Event<'_, M>) {
        self.0.observe(now, event);
        self.1.observe(now, event);
    }
}

/// Something that is due.
#[derive(Debug)]
enum Due<M> {
    Start(NodeId),
    Message(Delivery<M>),
    Wake(NodeId),
    Fault(Fault),
    EndOfCut,
    Resume(NodeId),
    /// A leader checks whether it leads, and decides to write.
    Decide(NodeId),
    /// The leader that decided sends its write.
    Act {
        starts: u64,
        write: Write,
    },
    Write(Write),
}

/// A message on its way.
#[derive(Debug)]
struct Delivery<M> {
    from: NodeId,
    to: NodeId,
    message: M,
    purpose: Purpose,
}

/// A run of an algorithm.
pub struct World<A: Algorithm, O> {
    algorithm: A,
    scenario: Scenario,
    observer: O,
    now: Moment,
    nodes: Vec<Node<A>>,
    clocks: Vec<Clock>,
    queue: EventQueue<Due<<A::Machine as Machine>::Message>>,
    cuts: Vec<Cut>,
    /// When the last message between two nodes arrives, by sender, then receiver.
    last_arrivals: Vec<Moment>,
    rng: Rng,
}

impl<A: Algorithm, O> fmt::Debug for World<A, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("now", &self.now).finish_non_exhaustive()
    }
}

/// The longest time between a leader's check and its write, without a pause.
const LONGEST_WORK: Duration = Duration::from_millis(5);
/// The time after which TCP sends a lost segment again (the shortest on Linux).
const RETRANSMISSION: Duration = Duration::from_millis(200);
/// The time from power-off to the next start of a process.
const REBOOT: Duration = Duration::from_secs(30);

impl<A: Algorithm, O: Observer<<A::Machine as Machine>::Message>> World<A, O> {
    /// A world at the start of the run.
    pub fn new(algorithm: A, scenario: Scenario, observer: O) -> Self {
        let mut rng = Rng::new(scenario.seed);
        let mut queue = EventQueue::default();
        let (mut nodes, mut clocks) = (Vec::new(), Vec::new());
        let servers = algorithm.servers();
        let rates = scenario.candidates.iter().map(|start| (start.at, start.rate));
        let server_starts = (0..servers).map(|_| (Moment::START, scenario.server_rate));
        for (index, (at, rate)) in rates.chain(server_starts).enumerate() {
            let durable = algorithm.first(NodeId(index), rng.next_u64());
            nodes.push(Node::new(durable));
            let boot_offset = Duration::from_secs(rng.between(1, 1_000_000));
            clocks.push(Clock::new(boot_offset, rate));
            queue.push(at, Due::Start(NodeId(index)));
            if index < scenario.candidates.len() {
                let first = rng.duration_between(Duration::ZERO, scenario.write_every);
                queue.push(at + first, Due::Decide(NodeId(index)));
            }
        }
        for (at, fault) in &scenario.faults {
            queue.push(*at, Due::Fault(*fault));
        }
        Self {
            algorithm,
            scenario,
            observer,
            now: Moment::START,
            last_arrivals: vec![Moment::START; nodes.len() * nodes.len()],
            nodes,
            clocks,
            queue,
            cuts: Vec::new(),
            rng,
        }
    }

    /// The current true time.
    pub const fn now(&self) -> Moment {
        self.now
    }

    /// The observer.
    pub const fn observer(&self) -> &O {
        &self.observer
    }

    /// The observer, to take what it has observed.
    pub const fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }

    /// The role of `node` as of the last event.
    pub fn role(&self, node: NodeId) -> Role {
        self.nodes[node.0].role
    }

    /// The node that every running candidate takes for the leader, if they agree.
    pub fn agreed_leader(&self) -> Option<NodeId> {
        let candidates = self.nodes[..self.scenario.candidates.len()].iter().enumerate();
        let mut running = candidates.filter(|(_, node)| node.machine.is_some());
        let leader = |(index, node): (usize, &Node<A>)| match node.role {
            Role::Leading { .. } => Some(NodeId(index)),
            Role::Following(leader) => Some(leader),
            Role::Looking => None,
        };
        let first = leader(running.next()?)?;
        let agree = running.all(|node| leader(node) == Some(first));
        (agree && self.nodes[first.0].role.is_leading()).then_some(first)
    }

    /// Runs until `end`.
    pub fn run_until(&mut self, end: Moment) {
        while self.queue.next_at() <= end {
            self.step();
        }
        self.now = end;
        self.refresh_roles();
    }

    /// Begins a fault now.
    pub fn inject(&mut self, fault: Fault) {
        self.refresh_roles();
        self.begin_fault(fault);
        self.refresh_roles();
    }

    /// Runs the next event.
    pub fn step(&mut self) {
        self.now = self.now.max(self.queue.next_at());
        let Some(due) = self.queue.pop() else { return };
        let node = match due {
            Due::Start(node) => {
                self.start(node);
                node
            }
            Due::Message(delivery) => {
                let to = delivery.to;
                self.deliver(delivery);
                to
            }
            Due::Wake(node) => {
                self.wake(node);
                node
            }
            Due::Resume(node) => {
                self.resume(node);
                node
            }
            Due::Decide(node) => {
                self.refresh_role(node);
                self.decide(node);
                self.queue.push(self.now + self.scenario.write_every, Due::Decide(node));
                node
            }
            Due::Fault(fault) => return self.inject(fault),
            Due::EndOfCut => return self.end_cuts(),
            Due::Act { starts, write } => return self.act(starts, write),
            Due::Write(write) => return self.observe(&Event::WriteArrived(write)),
        };
        if self.refresh_role(node) {
            self.refresh_roles();
        }
    }

    fn observe(&mut self, event: &Event<'_, <A::Machine as Machine>::Message>) {
        self.observer.observe(self.now, event);
    }

    /// Sends what the machine of `node` wants to send, and schedules its timeout.
    fn drain(&mut self, node: NodeId) {
        while let Some(machine) = self.nodes[node.0].machine.as_mut() {
            let Some(outgoing) = machine.poll_message() else { break };
            let to = outgoing.to;
            let arrives = self.pass(node, to).map(|delay| self.arrival(node, to, delay));
            let purpose = outgoing.purpose;
            let message = &outgoing.message;
            self.observer
                .observe(self.now, &Event::Sent { from: node, to, message, purpose, arrives });
            if let Some(at) = arrives {
                let delivery = Delivery { from: node, to, message: outgoing.message, purpose };
                self.queue.push(at, Due::Message(delivery));
            }
        }
        while let Some(victim) =
            self.nodes[node.0].machine.as_mut().and_then(Machine::poll_power_off)
        {
            self.crash(victim, Some(REBOOT));
        }
        self.schedule_wake(node);
    }

    /// How long a message takes; `None` if it is lost. TCP sends a lost segment again.
    fn pass(&mut self, from: NodeId, to: NodeId) -> Option<Duration> {
        let mut delay = self.delay();
        if self.is_cut(from, to) {
            return None;
        }
        while self.now < self.scenario.calm_from && self.rng.permille(self.scenario.loss_permille) {
            if !self.algorithm.uses_tcp() {
                return None;
            }
            delay += RETRANSMISSION;
        }
        Some(delay)
    }

    /// When a message arrives; over TCP, not before earlier ones.
    fn arrival(&mut self, from: NodeId, to: NodeId, delay: Duration) -> Moment {
        let mut at = self.now + delay;
        if self.algorithm.uses_tcp() {
            let last = &mut self.last_arrivals[from.0 * self.nodes.len() + to.0];
            at = at.max(*last);
            *last = at;
        }
        at
    }

    fn delay(&mut self) -> Duration {
        let (least, most) = self.scenario.delay;
        self.rng.duration_between(least, most)
    }

    /// Reports every role that has changed, also by the mere passing of time.
    fn refresh_roles(&mut self) {
        for index in 0..self.nodes.len() {
            self.refresh_role(NodeId(index));
        }
    }

    /// Reports the role of `id` if it has changed. Only machines that were called and paused
    /// leaders change roles, and a pause matters only when another role changes.
    fn refresh_role(&mut self, id: NodeId) -> bool {
        let node = &mut self.nodes[id.0];
        let instant = self.clocks[id.0].read(self.now);
        let role = node.machine.as_ref().map_or(Role::Looking, |machine| machine.role(instant));
        let has_changed = role != node.role;
        if has_changed {
            node.leaderships += u64::from(role.is_leading());
            node.role = role;
            self.observer.observe(self.now, &Event::RoleChanged(id, role));
        }
        has_changed
    }
}
