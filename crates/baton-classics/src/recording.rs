//! A run as a list of facts that a page can draw, each with a line of text.
//!
//! Pure. Start with [`Recorder`]. Times are true times, and nodes have the numbers that the machines
//! know them by.

use crate::checker::Resource;
use crate::machine::{NodeId, Purpose, Role};
use crate::scenario::{Fault, Nodes, Target};
use crate::world::{Event, Observer, Write};
use baton_sim::clock::Moment;
use std::fmt;

/// One event of a run.
#[derive(Clone, Debug)]
pub struct Record {
    /// When it happened.
    pub at: Moment,
    /// The event.
    pub fact: Fact,
    /// The event in words, with its time.
    pub text: String,
}

/// An event as a page needs it.
#[derive(Clone, Copy, Debug)]
pub enum Fact {
    /// A process starts.
    Started(NodeId),
    /// A process ends.
    Ended(NodeId),
    /// A process is paused.
    Paused(NodeId),
    /// A process resumes.
    Resumed(NodeId),
    /// Messages from or to this node are lost from now on.
    CutBegan(NodeId),
    /// The network serves this node again.
    CutEnded(NodeId),
    /// A process has another role.
    RoleChanged(NodeId, Role),
    /// A message is sent.
    Sent {
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
        /// Why it is sent.
        purpose: Purpose,
        /// When it arrives; `None` if the network loses it.
        arrives: Option<Moment>,
    },
    /// A write reaches the resources.
    Written {
        /// The write.
        write: Write,
        /// Whether a leadership that began later has written before.
        is_late: bool,
        /// Whether the resource that checks tokens refuses it.
        is_refused: bool,
    },
}

/// Records a run.
#[derive(Debug, Default)]
pub struct Recorder {
    records: Vec<Record>,
    /// The resource that checks tokens.
    checked: Resource,
    /// All leaderships, in the order of their begin.
    leaderships: Vec<NodeId>,
    /// The position of the newest leadership that has written.
    newest: usize,
    /// The nodes whose messages are lost.
    cut: Nodes,
}

/// The last message of a pause may be far back. No other cause is.
const LONGEST_SEARCH: usize = 2_000;

impl Recorder {
    /// Takes the records since the last call.
    pub fn take(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.records)
    }

    fn push(&mut self, at: Moment, fact: Fact, story: impl fmt::Display) {
        let millis = at.since(Moment::START).as_millis();
        let text = format!("{}.{:03} s: {story}", millis / 1_000, millis % 1_000);
        self.records.push(Record { at, fact, text });
    }

    /// The message that has just reached `node`, as text without its time.
    fn cause(&self, now: Moment, node: NodeId) -> Option<&str> {
        let arrived = |record: &&Record| match record.fact {
            Fact::Sent { to, arrives, .. } => to == node && arrives == Some(now),
            Fact::Started(_)
            | Fact::Ended(_)
            | Fact::Paused(_)
            | Fact::Resumed(_)
            | Fact::CutBegan(_)
            | Fact::CutEnded(_)
            | Fact::RoleChanged(..)
            | Fact::Written { .. } => false,
        };
        let found = self.records.iter().rev().take(LONGEST_SEARCH).find(arrived)?;
        found.text.split_once(": ").map(|(_, text)| text)
    }

    fn role_changed(&mut self, now: Moment, node: NodeId, role: Role) {
        if role.is_leading() {
            self.leaderships.push(node);
        }
        let story = match role {
            Role::Looking => format!("{node} knows no leader"),
            Role::Following(leader) => format!("{node} follows {leader}"),
            Role::Leading { token: Some(token) } => format!("{node} leads with token {token}"),
            Role::Leading { token: None } => format!("{node} leads"),
        };
        let cause = self.cause(now, node).map(|cause| format!(" ({cause})")).unwrap_or_default();
        self.push(now, Fact::RoleChanged(node, role), story + &cause);
    }

    fn written(&mut self, now: Moment, write: Write) {
        let of_node = |(_, node): &(usize, &NodeId)| **node == write.node;
        let mut before = self.leaderships.iter().enumerate().filter(of_node);
        let place = before.nth(usize::try_from(write.leadership - 1).unwrap_or(usize::MAX));
        let begun = place.map_or(0, |(place, _)| place);
        let is_late = begun < self.newest;
        self.newest = self.newest.max(begun);
        let is_refused = !self.checked.accepts(&write);
        if !is_refused {
            self.checked.take(&write);
        }
        let story = format!("the write of {} arrives", write.node);
        self.push(now, Fact::Written { write, is_late, is_refused }, story);
    }
}

impl<M: fmt::Debug> Observer<M> for Recorder {
    fn observe(&mut self, now: Moment, event: &Event<'_, M>) {
        match event {
            Event::Sent { from, to, message, purpose, arrives } => {
                let fact =
                    Fact::Sent { from: *from, to: *to, purpose: *purpose, arrives: *arrives };
                let lost = if arrives.is_none() { " (lost)" } else { "" };
                self.push(now, fact, format_args!("{from} to {to}: {message:?}{lost}"));
            }
            Event::RoleChanged(node, role) => self.role_changed(now, *node, *role),
            Event::Started(node) => {
                self.push(now, Fact::Started(*node), format_args!("{node} starts"));
            }
            Event::Crashed(node) => {
                self.push(now, Fact::Ended(*node), format_args!("{node} ends"));
            }
            Event::Paused(node) => {
                self.push(now, Fact::Paused(*node), format_args!("{node} is paused"));
            }
            Event::Resumed(node) => {
                self.push(now, Fact::Resumed(*node), format_args!("{node} resumes"));
            }
            Event::CutBegan(fault) => {
                let (nodes, story) = affected(fault);
                self.cut |= nodes;
                for node in members(nodes) {
                    self.push(now, Fact::CutBegan(node), &story);
                }
            }
            Event::CutEnded => {
                for node in members(std::mem::take(&mut self.cut)) {
                    self.push(now, Fact::CutEnded(node), "the network is whole again");
                }
            }
            Event::WriteArrived(write) => self.written(now, *write),
            Event::Woken { .. } => {}
        }
    }
}

/// The nodes that a fault of the network affects, and the fault in words.
fn affected(fault: &Fault) -> (Nodes, String) {
    let one = |target: Target| match target {
        Target::Node(node) | Target::LeaderOr(node) => (1 << node, node),
    };
    match *fault {
        Fault::Partition { side, .. } => {
            let names: Vec<_> = members(side).map(|node| node.to_string()).collect();
            (side, format!("no message passes between {} and the others", names.join(", ")))
        }
        Fault::Mute { target, .. } => {
            let (nodes, node) = one(target);
            (nodes, format!("messages of {node} are lost, and it still hears the others"))
        }
        Fault::Deafen { target, .. } => {
            let (nodes, node) = one(target);
            (nodes, format!("messages to {node} are lost, and the others still hear it"))
        }
        Fault::Isolate { target, .. }
        | Fault::Crash { target, .. }
        | Fault::Pause { target, .. } => (one(target).0, "a node is alone".to_owned()),
    }
}

fn members(nodes: Nodes) -> impl Iterator<Item = NodeId> {
    let is_member = move |node: &usize| nodes >> node & 1 == 1;
    (0..16).filter(is_member).map(NodeId)
}
