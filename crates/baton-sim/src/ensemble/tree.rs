//! The replicated state of an ensemble: sessions, the queue of candidates, and the leader's
//! announcement.
//!
//! Pure. Each server has a tree, and all apply the same transactions in the same order. Start with
//! [`Tree::prepare`], which only the leading server calls.

use baton_election::identity::Identity;
use baton_election::queue::messages::{Announcement, QueueEvent, QueueRequest, SessionId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The znode of a candidate.
#[derive(Clone, Debug)]
pub(super) struct Znode {
    pub(super) name: String,
    pub(super) owner: SessionId,
    pub(super) identity: Identity,
}

/// The replicated state.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    pub(super) sessions: BTreeMap<SessionId, Duration>,
    has_path: bool,
    counter: u32,
    /// The znodes of candidates by sequence number, which is the order of the queue.
    children: BTreeMap<u32, Znode>,
    /// Names of further children that no session owns.
    stray_nodes: BTreeSet<&'static str>,
    /// The leader's announcement: its session, and its text.
    leader: Option<(SessionId, String)>,
}

/// A committed change.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// No change: a check, or a request that failed.
    None,
    Open(SessionId, Duration),
    Close(SessionId),
    MakePath,
    Join(Znode),
    Announce(SessionId, String),
    /// Another client deletes the head of the queue.
    DeleteFirst,
    /// Another client creates a znode of this name that no session owns.
    StrayNode(&'static str),
}

impl Tree {
    /// Prepares `request` of `session` as the transaction `zxid`: the change, and the reply.
    pub(super) fn prepare(
        &self,
        request: &QueueRequest,
        session: SessionId,
        zxid: u64,
    ) -> (Change, QueueEvent) {
        match request {
            QueueRequest::Begin { timeout } | QueueRequest::Resume { timeout } => (
                Change::Open(session, *timeout),
                QueueEvent::Connected { session, timeout: *timeout },
            ),
            QueueRequest::Close => (Change::Close(session), QueueEvent::Closed),
            QueueRequest::MakePath => (Change::MakePath, QueueEvent::Made),
            QueueRequest::Join { .. } if !self.has_path => (Change::None, QueueEvent::Missing),
            QueueRequest::Join { prefix, identity } => {
                let name = format!("{prefix}{:010}", self.counter);
                let znode =
                    Znode { name: name.clone(), owner: session, identity: identity.clone() };
                (Change::Join(znode), QueueEvent::Joined { name, czxid: zxid })
            }
            QueueRequest::Check { name } | QueueRequest::Announce { name, .. }
                if self.find(name).is_none() =>
            {
                (Change::None, QueueEvent::Missing)
            }
            QueueRequest::Check { .. } => (Change::None, QueueEvent::Checked),
            QueueRequest::Announce { replaces, .. } if self.leader.is_some() != *replaces => {
                (Change::None, QueueEvent::Changed)
            }
            QueueRequest::Announce { text, .. } => {
                (Change::Announce(session, text.clone()), QueueEvent::Announced)
            }
            QueueRequest::List | QueueRequest::Watch { .. } | QueueRequest::ReadLeader => {
                (Change::None, self.read(request))
            }
        }
    }

    /// The result of a read.
    pub(super) fn read(&self, request: &QueueRequest) -> QueueEvent {
        match request {
            QueueRequest::List if !self.has_path => QueueEvent::Missing,
            QueueRequest::List => {
                let stray_nodes = self.stray_nodes.iter().map(ToString::to_string);
                QueueEvent::Listed(
                    self.children
                        .values()
                        .map(|znode| znode.name.clone())
                        .chain(stray_nodes)
                        .collect(),
                )
            }
            QueueRequest::Watch { name } => match self.find(name) {
                Some(znode) => QueueEvent::Found { owner: Some(znode.owner) },
                None if self.stray_nodes.contains(name.as_str()) => {
                    QueueEvent::Found { owner: None }
                }
                None => QueueEvent::Missing,
            },
            QueueRequest::ReadLeader => QueueEvent::Leader(
                self.leader.clone().map(|(owner, text)| Announcement { text, owner: Some(owner) }),
            ),
            QueueRequest::Begin { .. }
            | QueueRequest::Resume { .. }
            | QueueRequest::Close
            | QueueRequest::MakePath
            | QueueRequest::Join { .. }
            | QueueRequest::Check { .. }
            | QueueRequest::Announce { .. } => QueueEvent::Unknown,
        }
    }

    /// Applies `change`, and returns the names of the removed znodes.
    pub(super) fn apply(&mut self, change: &Change) -> Vec<String> {
        match change {
            Change::None => {}
            Change::Open(session, timeout) => {
                self.sessions.insert(*session, *timeout);
            }
            Change::Close(session) => {
                self.sessions.remove(session);
                self.leader.take_if(|(owner, _)| owner == session);
                return self.remove(|znode| znode.owner == *session);
            }
            Change::MakePath => self.has_path = true,
            Change::Join(znode) => {
                self.children.insert(self.counter, znode.clone());
                self.counter += 1;
            }
            Change::Announce(session, text) => self.leader = Some((*session, text.clone())),
            Change::StrayNode(name) => {
                self.stray_nodes.insert(name);
            }
            Change::DeleteFirst => {
                let first = self.first().map(|znode| znode.name.clone());
                return self.remove(|znode| Some(&znode.name) == first.as_ref());
            }
        }
        Vec::new()
    }

    /// The znodes of candidates with their sequence numbers, in the order of the queue.
    pub(super) fn znodes(&self) -> impl Iterator<Item = (u32, &Znode)> {
        self.children.iter().map(|(sequence, znode)| (*sequence, znode))
    }

    /// The head of the queue.
    pub(super) fn first(&self) -> Option<&Znode> {
        self.children.values().next()
    }

    fn find(&self, name: &str) -> Option<&Znode> {
        self.children.values().find(|znode| znode.name == name)
    }

    fn remove(&mut self, is_gone: impl Fn(&Znode) -> bool) -> Vec<String> {
        let gone: Vec<_> = self
            .children
            .values()
            .filter(|znode| is_gone(znode))
            .map(|znode| znode.name.clone())
            .collect();
        self.children.retain(|_, znode| !is_gone(znode));
        gone
    }
}
