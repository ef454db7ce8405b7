//! What an ensemble agrees on: sessions, the line of candidates, and who acknowledged that it leads.
//!
//! Pure. Servers hold a tree each and change it by the same transactions in the same order. Start with [`Tree::prepare`],
//! which the leading server alone calls.

use crate::election::zookeeper::words::{Acknowledgement, SessionId, ZooKeeperEvent, ZooKeeperRequest};
use crate::identity::Identity;
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
        request: &ZooKeeperRequest,
        session: SessionId,
        zxid: u64,
    ) -> (Change, ZooKeeperEvent) {
        match request {
            ZooKeeperRequest::Begin { timeout } | ZooKeeperRequest::Resume { timeout } => {
                (Change::Open(session, *timeout), ZooKeeperEvent::Connected { session, timeout: *timeout })
            }
            ZooKeeperRequest::Close => (Change::Close(session), ZooKeeperEvent::Closed),
            ZooKeeperRequest::MakePath => (Change::MakePath, ZooKeeperEvent::Made),
            ZooKeeperRequest::Join { .. } if !self.has_path => (Change::None, ZooKeeperEvent::Missing),
            ZooKeeperRequest::Join { prefix, identity } => {
                let name = format!("{prefix}{:010}", self.counter);
                let znode = Znode { name: name.clone(), owner: session, identity: identity.clone() };
                (Change::Join(znode), ZooKeeperEvent::Joined { name, czxid: zxid })
            }
            ZooKeeperRequest::Check { name } | ZooKeeperRequest::Acknowledge { name, .. }
                if self.find(name).is_none() =>
            {
                (Change::None, ZooKeeperEvent::Missing)
            }
            ZooKeeperRequest::Check { .. } => (Change::None, ZooKeeperEvent::Checked),
            ZooKeeperRequest::Acknowledge { replaces, .. } if self.leader.is_some() != *replaces => {
                (Change::None, ZooKeeperEvent::Changed)
            }
            ZooKeeperRequest::Acknowledge { text, .. } => {
                (Change::Acknowledge(session, text.clone()), ZooKeeperEvent::Acknowledged)
            }
            ZooKeeperRequest::List | ZooKeeperRequest::Look { .. } | ZooKeeperRequest::ReadLeader => {
                (Change::None, self.read(request))
            }
        }
    }

    /// What a read shows.
    pub(super) fn read(&self, request: &ZooKeeperRequest) -> ZooKeeperEvent {
        match request {
            ZooKeeperRequest::List if !self.has_path => ZooKeeperEvent::Missing,
            ZooKeeperRequest::List => {
                let litter = self.litter.iter().map(ToString::to_string);
                ZooKeeperEvent::Listed(self.children.values().map(|znode| znode.name.clone()).chain(litter).collect())
            }
            ZooKeeperRequest::Look { name } => match self.find(name) {
                Some(znode) => ZooKeeperEvent::Found { owner: Some(znode.owner) },
                None if self.litter.contains(name.as_str()) => ZooKeeperEvent::Found { owner: None },
                None => ZooKeeperEvent::Missing,
            },
            ZooKeeperRequest::ReadLeader => ZooKeeperEvent::Leader(
                self.leader.clone().map(|(owner, text)| Acknowledgement { text, owner: Some(owner) }),
            ),
            ZooKeeperRequest::Begin { .. }
            | ZooKeeperRequest::Resume { .. }
            | ZooKeeperRequest::Close
            | ZooKeeperRequest::MakePath
            | ZooKeeperRequest::Join { .. }
            | ZooKeeperRequest::Check { .. }
            | ZooKeeperRequest::Acknowledge { .. } => ZooKeeperEvent::Unknown,
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
        let gone: Vec<_> =
            self.children.values().filter(|znode| is_gone(znode)).map(|znode| znode.name.clone()).collect();
        self.children.retain(|_, znode| !is_gone(znode));
        gone
    }
}
