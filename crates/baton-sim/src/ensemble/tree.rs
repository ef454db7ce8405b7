//! What an ensemble agrees on: sessions, the line of candidates, and who acknowledged that it leads.
//!
//! Pure. Servers hold a tree each and change it by the same transactions in the same order. Start with [`Tree::prepare`],
//! which the leading server alone calls.

use baton_election::identity::Identity;
use baton_election::queue::messages::{Announcement, QueueEvent, QueueRequest, SessionId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A candidate's znode.
#[derive(Clone, Debug)]
pub(super) struct Znode {
    pub(super) name: String,
    pub(super) owner: SessionId,
    pub(super) identity: Identity,
}

/// One state of it all.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    pub(super) sessions: BTreeMap<SessionId, Duration>,
    has_path: bool,
    counter: u32,
    /// By number, which is the order of the line.
    children: BTreeMap<u32, Znode>,
    /// Names among them that no session owns.
    litter: BTreeSet<&'static str>,
    leader: Option<(SessionId, String)>,
}

/// A change that was agreed on.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// A check, or what could not be done: agreed on, and nothing changes.
    None,
    Open(SessionId, Duration),
    Close(SessionId),
    MakePath,
    Join(Znode),
    Acknowledge(SessionId, String),
    /// By a stranger: whoever is first is deleted.
    DeleteFirst,
    /// By a stranger: a znode of that name, which no session owns.
    Litter(&'static str),
}

impl Tree {
    /// What `request` of `session` comes to, as transaction `zxid` after all before it, and its reply.
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
                (Change::Acknowledge(session, text.clone()), QueueEvent::Announced)
            }
            QueueRequest::List | QueueRequest::Watch { .. } | QueueRequest::ReadLeader => {
                (Change::None, self.read(request))
            }
        }
    }

    /// What a read shows.
    pub(super) fn read(&self, request: &QueueRequest) -> QueueEvent {
        match request {
            QueueRequest::List if !self.has_path => QueueEvent::Missing,
            QueueRequest::List => {
                let litter = self.litter.iter().map(ToString::to_string);
                QueueEvent::Listed(
                    self.children.values().map(|znode| znode.name.clone()).chain(litter).collect(),
                )
            }
            QueueRequest::Watch { name } => match self.find(name) {
                Some(znode) => QueueEvent::Found { owner: Some(znode.owner) },
                None if self.litter.contains(name.as_str()) => QueueEvent::Found { owner: None },
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

    /// Changes, and returns the names of the znodes that are gone.
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
            Change::Acknowledge(session, text) => self.leader = Some((*session, text.clone())),
            Change::Litter(name) => {
                self.litter.insert(name);
            }
            Change::DeleteFirst => {
                let first = self.first().map(|znode| znode.name.clone());
                return self.remove(|znode| Some(&znode.name) == first.as_ref());
            }
        }
        Vec::new()
    }

    /// Whoever is first in the line.
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
