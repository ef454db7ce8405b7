//! Faults that begin and end: crashes, pauses, and cuts of the network.
//!
//! Pure. Start with [`World::begin_fault`].

use super::{Due, Event, Observer, World};
use crate::machine::{Algorithm, Machine, NodeId};
use crate::scenario::{Fault, Nodes, Target};
use baton_sim::clock::Moment;
use std::time::Duration;

/// Messages from one set of nodes to another are lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    from: Nodes,
    to: Nodes,
    until: Moment,
}

impl<A: Algorithm, O: Observer<<A::Machine as Machine>::Message>> World<A, O> {
    pub(super) fn begin_fault(&mut self, fault: Fault) {
        match fault {
            Fault::Crash { target, lasts } => self.crash(self.resolve(target), lasts),
            Fault::Pause { target, lasts } => self.pause(self.resolve(target), lasts),
            Fault::Partition { side, lasts } => self.cut_off(side, lasts, &fault),
            Fault::Isolate { target, lasts } => {
                let side = bit(self.resolve(target));
                self.cut_off(side, lasts, &Fault::Partition { side, lasts });
            }
            Fault::Mute { target, peers, lasts } => {
                let node = self.resolve(target);
                let resolved = Fault::Mute { target: Target::Node(node.0), peers, lasts };
                self.cut(&[(bit(node), peers)], lasts, &resolved);
            }
            Fault::Deafen { target, peers, lasts } => {
                let node = self.resolve(target);
                let resolved = Fault::Deafen { target: Target::Node(node.0), peers, lasts };
                self.cut(&[(peers, bit(node))], lasts, &resolved);
            }
        }
    }

    pub(super) fn end_cuts(&mut self) {
        let now = self.now;
        self.cuts.retain(|cut| cut.until > now);
        self.observe(&Event::CutEnded);
    }

    /// Whether a message from `from` to `to` is lost.
    pub(super) fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        self.cuts.iter().any(|cut| cut.from & bit(from) != 0 && cut.to & bit(to) != 0)
    }

    fn cut_off(&mut self, side: Nodes, lasts: Duration, fault: &Fault) {
        self.cut(&[(side, !side), (!side, side)], lasts, fault);
    }

    fn cut(&mut self, directions: &[(Nodes, Nodes)], lasts: Duration, fault: &Fault) {
        let until = self.now + lasts;
        self.cuts.extend(directions.iter().map(|&(from, to)| Cut { from, to, until }));
        self.queue.push(until, Due::EndOfCut);
        self.observe(&Event::CutBegan(fault));
    }

    fn resolve(&self, target: Target) -> NodeId {
        match target {
            Target::Node(node) => NodeId(node),
            Target::LeaderOr(other) => {
                let leader = self.nodes.iter().position(|node| node.role.is_leading());
                NodeId(leader.unwrap_or(other))
            }
        }
    }
}

const fn bit(node: NodeId) -> Nodes {
    1 << node.0
}
