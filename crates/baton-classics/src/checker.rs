//! "Leader" defined once for every algorithm, and what follows from it.
//!
//! Pure. Start with [`Checker`]. A leader is a node whose process runs, and whose machine believes
//! that it may act. The checker asks at true time, and the machine answers by its own clock. A paused
//! process counts: another thread of it may be acting.

use crate::machine::{NodeId, Role};
use crate::world::{Event, Observer, Write};
use baton_sim::clock::Moment;
use std::collections::BTreeSet;
use std::time::Duration;

/// Looks for two leaders at once, and for late writes.
#[derive(Clone, Debug)]
pub struct Checker {
    roles: Vec<Role>,
    at: Moment,
    overlap: Duration,
    /// Every token and the node that led with it.
    tokens: BTreeSet<(u64, NodeId)>,
    has_tokens: bool,
    unchecked: Resource,
    checked: Resource,
}

/// The findings of one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// How long there were two leaders or more.
    pub overlap: Duration,
    /// Whether two nodes led with the same token, at any time.
    pub is_token_shared: bool,
    /// Whether a resource that checks nothing took a late write: one of a leadership after one of
    /// another leadership had followed its earlier writes.
    pub takes_late_write: bool,
    /// Whether a resource that refuses smaller tokens took a late write. `None` if a leader had no
    /// token.
    pub takes_late_write_by_token: Option<bool>,
}

impl Checker {
    /// A checker for this many nodes, servers included.
    pub fn new(nodes: usize) -> Self {
        Self {
            roles: vec![Role::Looking; nodes],
            at: Moment::START,
            overlap: Duration::ZERO,
            tokens: BTreeSet::new(),
            has_tokens: true,
            unchecked: Resource::default(),
            checked: Resource::default(),
        }
    }

    /// The findings until `end`.
    pub fn verdict(&mut self, end: Moment) -> Verdict {
        self.advance(end);
        let mut tokens = self.tokens.iter().map(|(token, _)| token);
        let mut previous = tokens.next();
        let is_token_shared = tokens.any(|token| previous.replace(token) == Some(token));
        Verdict {
            overlap: self.overlap,
            is_token_shared,
            takes_late_write: self.unchecked.took_late_write,
            takes_late_write_by_token: self.has_tokens.then_some(self.checked.took_late_write),
        }
    }

    /// Adds the time since the last change of a role. Roles that change at one moment do not
    /// overlap there.
    fn advance(&mut self, now: Moment) {
        if self.roles.iter().filter(|role| role.is_leading()).count() > 1 {
            self.overlap += now.since(self.at);
        }
        self.at = now;
    }
}

impl<M> Observer<M> for Checker {
    fn observe(&mut self, now: Moment, event: &Event<'_, M>) {
        match event {
            Event::RoleChanged(node, role) => {
                self.advance(now);
                self.roles[node.0] = *role;
                match role {
                    Role::Leading { token: Some(token) } => {
                        self.tokens.insert((*token, *node));
                    }
                    Role::Leading { token: None } => self.has_tokens = false,
                    Role::Looking | Role::Following(_) => {}
                }
            }
            Event::WriteArrived(write) => {
                self.unchecked.take(write);
                if self.checked.accepts(write) {
                    self.checked.take(write);
                }
            }
            Event::Sent { .. }
            | Event::Woken { .. }
            | Event::Started(_)
            | Event::Crashed(_)
            | Event::Paused(_)
            | Event::Resumed(_)
            | Event::CutBegan(_)
            | Event::CutEnded => {}
        }
    }
}

/// The writes that a resource has taken.
#[derive(Clone, Default, Debug)]
pub(crate) struct Resource {
    largest: Option<u64>,
    last: Option<(NodeId, u64)>,
    followed: BTreeSet<(NodeId, u64)>,
    took_late_write: bool,
}

impl Resource {
    /// Whether a resource that checks tokens takes this write.
    pub(crate) fn accepts(&self, write: &Write) -> bool {
        write.token >= self.largest
    }

    /// Takes a write.
    pub(crate) fn take(&mut self, write: &Write) {
        let leadership = (write.node, write.leadership);
        if let Some(last) = self.last.replace(leadership)
            && last != leadership
        {
            self.followed.insert(last);
        }
        self.took_late_write |= self.followed.contains(&leadership);
        self.largest = self.largest.max(write.token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: u64) -> Moment {
        Moment::START + Duration::from_secs(seconds)
    }

    fn change(checker: &mut Checker, seconds: u64, node: usize, role: Role) {
        let event: Event<'_, ()> = Event::RoleChanged(NodeId(node), role);
        checker.observe(after(seconds), &event);
    }

    fn write(checker: &mut Checker, node: usize, token: u64) {
        let write = Write { node: NodeId(node), leadership: 1, token: Some(token) };
        let event: Event<'_, ()> = Event::WriteArrived(write);
        checker.observe(after(9), &event);
    }

    const LEADING: Role = Role::Leading { token: Some(7) };

    #[test]
    fn overlap_is_the_time_with_two_leaders() {
        let mut checker = Checker::new(2);
        change(&mut checker, 1, 0, LEADING);
        change(&mut checker, 3, 1, LEADING);
        change(&mut checker, 8, 0, Role::Looking);
        let verdict = checker.verdict(after(20));
        assert_eq!(verdict.overlap, Duration::from_secs(5));
        assert!(verdict.is_token_shared);
    }

    #[test]
    fn handover_at_one_moment_is_no_overlap() {
        let mut checker = Checker::new(2);
        change(&mut checker, 1, 1, LEADING);
        change(&mut checker, 3, 0, Role::Leading { token: Some(8) });
        change(&mut checker, 3, 1, Role::Looking);
        let verdict = checker.verdict(after(20));
        assert_eq!(verdict.overlap, Duration::ZERO);
        assert!(!verdict.is_token_shared);
    }

    #[test]
    fn resource_that_checks_tokens_refuses_late_writes() {
        let mut checker = Checker::new(2);
        for (node, token) in [(0, 1), (1, 2), (0, 1)] {
            write(&mut checker, node, token);
        }
        let verdict = checker.verdict(after(20));
        assert!(verdict.takes_late_write);
        assert_eq!(verdict.takes_late_write_by_token, Some(false));
    }

    #[test]
    fn shared_token_lets_a_late_write_through() {
        let mut checker = Checker::new(2);
        for (node, token) in [(0, 1), (1, 1), (0, 1)] {
            write(&mut checker, node, token);
        }
        assert_eq!(checker.verdict(after(20)).takes_late_write_by_token, Some(true));
    }
}
