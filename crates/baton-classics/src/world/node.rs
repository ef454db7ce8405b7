//! One node: its machine, its pauses, and its writes to the resource.
//!
//! Pure. Start with [`Node`].

use super::{Delivery, Due, Event, LONGEST_WORK, Observer, World, Write};
use crate::machine::{Algorithm, Boot, Machine, NodeId, Role};
use baton_sim::clock::Moment;
use std::collections::VecDeque;
use std::time::Duration;

/// A node and what the world knows of it.
pub(super) struct Node<A: Algorithm> {
    /// The machine of the running process.
    pub(super) machine: Option<A::Machine>,
    pub(super) durable: A::Durable,
    pub(super) role: Role,
    /// Counts leaderships, so that two of one node can be told apart.
    pub(super) leaderships: u64,
    /// Counts processes.
    pub(super) starts: u64,
    pub(super) paused_until: Option<Moment>,
    /// Messages that arrived during the pause.
    waiting: VecDeque<Delivery<<A::Machine as Machine>::Message>>,
    /// The write that was decided right before the pause.
    decided: Option<Write>,
    /// When the node is next woken.
    wake_at: Moment,
}

impl<A: Algorithm> Node<A> {
    pub(super) const fn new(durable: A::Durable) -> Self {
        Self {
            machine: None,
            durable,
            role: Role::Looking,
            leaderships: 0,
            starts: 0,
            paused_until: None,
            waiting: VecDeque::new(),
            decided: None,
            wake_at: Moment::NEVER,
        }
    }
}

impl<A: Algorithm, O: Observer<<A::Machine as Machine>::Message>> World<A, O> {
    pub(super) fn start(&mut self, id: NodeId) {
        let seed = self.rng.next_u64();
        let now = self.clocks[id.0].read(self.now);
        let candidates = self.scenario.candidates.len();
        let node = &mut self.nodes[id.0];
        if node.machine.is_some() {
            return;
        }
        node.starts += 1;
        let durable = node.durable.clone();
        node.machine = Some(self.algorithm.boot(Boot { me: id, candidates, durable, seed, now }));
        self.observe(&Event::Started(id));
        self.drain(id);
    }

    pub(super) fn crash(&mut self, id: NodeId, lasts: Option<Duration>) {
        let node = &mut self.nodes[id.0];
        let Some(machine) = node.machine.take() else { return };
        node.durable = A::durable(&machine);
        node.wake_at = Moment::NEVER;
        node.paused_until = None;
        node.waiting.clear();
        node.decided = None;
        if let Some(lasts) = lasts {
            self.queue.push(self.now + lasts, Due::Start(id));
        }
        self.observe(&Event::Crashed(id));
        self.refresh_role(id);
    }

    pub(super) fn pause(&mut self, id: NodeId, lasts: Duration) {
        let node = &self.nodes[id.0];
        if node.machine.is_none() || node.paused_until.is_some() {
            return;
        }
        // A pause is at its worst between the check and the write.
        let decided = self.write_of(id);
        let node = &mut self.nodes[id.0];
        node.decided = decided;
        node.paused_until = Some(self.now + lasts);
        self.queue.push(self.now + lasts, Due::Resume(id));
        self.observe(&Event::Paused(id));
    }

    /// The process runs on: first it finishes what it had decided, then it handles its timers, and
    /// last the messages that wait.
    pub(super) fn resume(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.0];
        if node.paused_until.is_none_or(|until| until > self.now) {
            return;
        }
        node.paused_until = None;
        let (decided, waiting) = (node.decided.take(), std::mem::take(&mut node.waiting));
        self.observe(&Event::Resumed(id));
        if let Some(write) = decided {
            self.send_write(write);
        }
        self.handle_timeout(id);
        for delivery in waiting {
            self.deliver(delivery);
        }
    }

    pub(super) fn deliver(&mut self, delivery: Delivery<<A::Machine as Machine>::Message>) {
        let to = delivery.to;
        let now = self.clocks[to.0].read(self.now);
        let node = &mut self.nodes[to.0];
        let Some(machine) = &mut node.machine else { return };
        if node.paused_until.is_some() {
            node.waiting.push_back(delivery);
            return;
        }
        machine.handle_message(delivery.from, delivery.message, now);
        self.observe(&Event::Woken { node: to, message: Some(delivery.purpose) });
        self.drain(to);
    }

    pub(super) fn wake(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.0];
        if node.wake_at != self.now {
            return;
        }
        node.wake_at = Moment::NEVER;
        if node.paused_until.is_none() {
            self.handle_timeout(id);
        }
    }

    fn handle_timeout(&mut self, id: NodeId) {
        let now = self.clocks[id.0].read(self.now);
        let Some(machine) = &mut self.nodes[id.0].machine else { return };
        if machine.poll_timeout().is_some_and(|due| due <= now) {
            machine.handle_timeout(now);
            self.observe(&Event::Woken { node: id, message: None });
        }
        self.drain(id);
    }

    /// Schedules the next timeout, unless the node is woken earlier anyway.
    pub(super) fn schedule_wake(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.0];
        let Some(due) = node.machine.as_ref().and_then(Machine::poll_timeout) else { return };
        let at = self.clocks[id.0].when(due).max(self.now);
        if at < node.wake_at || node.wake_at < self.now {
            node.wake_at = at;
            self.queue.push(at, Due::Wake(id));
        }
    }

    /// The write that a leader would decide now.
    fn write_of(&self, id: NodeId) -> Option<Write> {
        let node = &self.nodes[id.0];
        let Role::Leading { token } = node.role else { return None };
        node.paused_until.is_none().then_some(Write {
            node: id,
            leadership: node.leaderships,
            token,
        })
    }

    pub(super) fn decide(&mut self, id: NodeId) {
        let Some(write) = self.write_of(id) else { return };
        let starts = self.nodes[id.0].starts;
        let work = self.rng.duration_between(Duration::ZERO, LONGEST_WORK);
        self.queue.push(self.now + work, Due::Act { starts, write });
    }

    pub(super) fn act(&mut self, starts: u64, write: Write) {
        let node = &self.nodes[write.node.0];
        if node.machine.is_none() || node.starts != starts {
            return;
        }
        match node.paused_until {
            // Not a microsecond later: the process goes on where it stood still.
            Some(until) => self.queue.push(until, Due::Act { starts, write }),
            None => self.send_write(write),
        }
    }

    fn send_write(&mut self, write: Write) {
        let delay = self.delay();
        self.queue.push(self.now + delay, Due::Write(write));
    }
}
