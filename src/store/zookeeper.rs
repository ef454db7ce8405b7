//! The store of candidates that stand in line in ZooKeeper: the machine's requests as calls of one session.
//!
//! Touches `zookeeper::client` and, before each connection, the files that the flags name
//! (`files.rs`): certificates and passwords may be replaced while the process runs. It decides
//! nothing: [`ZooKeeperStore::perform`] says which answers are refusals, and what the others mean
//! to the machine.

mod access;
mod files;

pub use files::OpenError;

use crate::config::ZooKeeperPlace;
use crate::error_chain::ErrorChain;
use crate::process::clock::Clock;
use crate::process::resolver::Resolver;
use crate::store::{Store, StoreError};
use baton_election::identity::Identity;
use baton_election::queue::QueueElection;
use baton_election::queue::messages::{
    Announcement, QueueEvent, QueueRequest, SessionId, leader_path,
};
use files::Files;
use std::cell::Cell;
use std::time::Duration;
use zookeeper_client::client::{CallError, Client, ConnectError, News, Session};
use zookeeper_client::dial::Dialer;
use zookeeper_client::requests::{
    Access, Children, Create, CreateContainer, Kind, Node, Part, Read, Refusal, Together,
};
use zookeeper_client::servers::{Host, Servers};
use zookeeper_client::wire::{Code, Request};

/// An election's path in ZooKeeper.
#[derive(Debug)]
pub struct ZooKeeperStore {
    client: Client<Resolver>,
    files: Files,
    /// The servers, as a person would look for them.
    hosts: String,
    /// The part of the tree that has to be there; empty for the whole.
    chroot: String,
    /// The election's path, from the tree's root on.
    path: String,
    access: Cell<Access>,
    /// Whether the servers know containers, as far as they have said.
    knows_containers: Cell<bool>,
    /// Whether the warning about strangers' rights on the path's parent was logged.
    warned_shared: Cell<bool>,
    /// Whether the path's list was searched for identities beside ours.
    searched_list: Cell<bool>,
    /// How long an attempt to connect may take: less than a call, so that it says itself what it met.
    within: Duration,
}

/// What the servers would not let us do.
#[derive(Debug, thiserror::Error)]
#[error("the ZooKeeper servers refuse to {doing} {path}: {remedy}")]
struct RefusedCall {
    doing: &'static str,
    path: String,
    remedy: &'static str,
    source: Code,
}

/// No server granted a session. Displays each failure once, in an order that does not depend on which server was first.
#[derive(Debug, thiserror::Error)]
#[error("{0}: {failures}", failures = failures(.0))]
struct NoSession(ConnectError);

fn failures(error: &ConnectError) -> String {
    let mut told: Vec<String> =
        error.failures().iter().map(|failure| ErrorChain(failure).to_string()).collect();
    told.sort();
    told.dedup();
    told.join("; ")
}

/// A call that went wrong.
struct Failed {
    doing: &'static str,
    path: String,
    error: CallError,
}

impl ZooKeeperStore {
    /// The election at `place`, where one call may take `call_timeout`.
    pub async fn open(place: &ZooKeeperPlace, call_timeout: Duration) -> Result<Self, OpenError> {
        let (files, dialer) = Files::open(place.auth_file.clone(), place.tls.clone()).await?;
        let Servers { hosts, chroot } = &place.servers;
        Ok(Self {
            access: Cell::new(access(&dialer)),
            knows_containers: Cell::new(true),
            warned_shared: Cell::new(false),
            searched_list: Cell::new(false),
            client: Client::new(&place.servers, dialer, Resolver::default()),
            files,
            hosts: hosts.iter().map(Host::to_string).collect::<Vec<_>>().join(","),
            chroot: chroot.clone(),
            path: format!("{chroot}{}", place.path),
            within: call_timeout / 10 * 9,
        })
    }

    async fn connect(&self, session: Session, timeout: Duration) -> Result<QueueEvent, StoreError> {
        let begun = Clock.now();
        if let Some(dialer) = self.files.look(self.within / 8).await {
            self.access.set(access(&dialer));
            self.client.dial_by(dialer);
        }
        let within = self.within.saturating_sub(Clock.now().since(begun));
        match self.client.connect(session, timeout, within).await {
            Ok(Some(grant)) => Ok(QueueEvent::Connected {
                session: SessionId(grant.session),
                timeout: grant.timeout,
            }),
            Ok(None) => Ok(QueueEvent::Expired),
            Err(error) if error.is_refusal() => {
                Err(StoreError::Refused(Box::new(NoSession(error))))
            }
            Err(error) => Err(StoreError::Unreachable(Box::new(NoSession(error)))),
        }
    }

    /// Makes what is missing, from below: who may make a candidate's znode need not have a right to anything above.
    ///
    /// A server that knows no containers closes the connection behind its answer, so the path is made to stay at the next
    /// attempt.
    async fn make_path(&self) -> Result<QueueEvent, Failed> {
        let starts =
            self.path.match_indices('/').map(|(at, _)| at).filter(|at| *at > self.chroot.len());
        let ancestors: Vec<&str> =
            starts.chain([self.path.len()]).map(|end| &self.path[..end]).collect();
        let mut depth = ancestors.len() - 1;
        loop {
            match self.make(ancestors[depth]).await {
                Ok(()) if depth + 1 == ancestors.len() => return Ok(QueueEvent::Made),
                Ok(()) => depth += 1,
                Err(Failed { error: CallError::Refused(Code::NoNode), .. }) if depth > 0 => {
                    depth -= 1;
                }
                Err(Failed { error: CallError::Refused(Code::Unimplemented), .. })
                    if self.knows_containers.replace(false) =>
                {
                    return Ok(QueueEvent::Unknown);
                }
                Err(failed) => return Err(failed),
            }
        }
    }

    /// Makes a znode that candidates come below, unless it is there.
    async fn make(&self, path: &str) -> Result<(), Failed> {
        let doing = "make the znode";
        let access = self.access_of(path);
        let made = if self.knows_containers.get() {
            self.call(doing, path, &CreateContainer { path: path.to_owned(), access }).await
        } else {
            let stays =
                Create { path: path.to_owned(), data: Vec::new(), kind: Kind::Persistent, access };
            self.call(doing, path, &stays).await.map(drop)
        };
        match made {
            Err(Failed { error: CallError::Refused(Code::NodeExists), .. }) => Ok(()),
            made => made,
        }
    }

    async fn join(&self, prefix: &str, identity: &Identity) -> Result<QueueEvent, Failed> {
        let path = format!("{}/{prefix}", self.path);
        let data = identity.as_str().as_bytes().to_vec();
        let own = Create { path, data, kind: Kind::EphemeralSequential, access: self.access.get() };
        let path = match self.call("join the election at", &self.path, &own).await {
            Ok(path) => path,
            Err(Failed { error: CallError::Refused(Code::NoNode), .. }) => {
                return Ok(QueueEvent::Missing);
            }
            Err(Failed { error: CallError::Refused(Code::NodeExists), .. }) => {
                return Ok(QueueEvent::Saturated);
            }
            Err(failed) => return Err(failed),
        };
        // The reply that would tell the transaction (create2) is one that servers before 3.5 do not know.
        let Some(node) = self.read(&path, false).await? else { return Ok(QueueEvent::Missing) };
        self.warn_other_administrators(&path).await?;
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        Ok(QueueEvent::Joined { name, czxid: node.czxid })
    }

    async fn acknowledge(
        &self,
        name: &str,
        text: String,
        replaces: bool,
    ) -> Result<QueueEvent, Failed> {
        let leader = leader_path(&self.path);
        let (path, data) = (leader.clone(), text.into_bytes());
        let create = Create { path, data, kind: Kind::Ephemeral, access: self.access.get() };
        let parts = [Part::Check(self.child(name))].into_iter();
        let parts = parts
            .chain(replaces.then(|| Part::Delete(leader.clone())))
            .chain([Part::Create(create)]);
        let done =
            self.call("acknowledge a leader at", &leader, &Together(parts.collect())).await?;
        match done {
            Ok(()) => Ok(QueueEvent::Announced),
            Err(Refusal { part: 0, code: Code::NoNode }) => Ok(QueueEvent::Missing),
            Err(Refusal { code: Code::NoNode | Code::NodeExists, .. }) => Ok(QueueEvent::Changed),
            Err(Refusal { code, .. }) => Err(Failed {
                doing: "acknowledge a leader at",
                path: leader,
                error: CallError::Refused(code),
            }),
        }
    }

    async fn check(&self, name: &str) -> Result<QueueEvent, Failed> {
        let path = self.child(name);
        match self.call("check", &path, &Together(vec![Part::Check(path.clone())])).await? {
            Ok(()) => Ok(QueueEvent::Checked),
            Err(Refusal { code: Code::NoNode, .. }) => Ok(QueueEvent::Missing),
            Err(Refusal { code, .. }) => {
                Err(Failed { doing: "check", path, error: CallError::Refused(code) })
            }
        }
    }

    async fn list(&self) -> Result<QueueEvent, Failed> {
        match self
            .call("list the candidates of", &self.path, &Children { path: self.path.clone() })
            .await
        {
            Ok(names) => Ok(QueueEvent::Listed(names)),
            Err(Failed { error: CallError::Refused(Code::NoNode), .. }) => Ok(QueueEvent::Missing),
            Err(failed) => Err(failed),
        }
    }

    /// A znode, if it is there.
    async fn read(&self, path: &str, watch: bool) -> Result<Option<Node>, Failed> {
        match self.call("read", path, &Read { path: path.to_owned(), watch }).await {
            Ok(node) => Ok(Some(node)),
            Err(Failed { error: CallError::Refused(Code::NoNode), .. }) => Ok(None),
            Err(failed) => Err(failed),
        }
    }

    async fn call<R: Request>(
        &self,
        doing: &'static str,
        path: &str,
        request: &R,
    ) -> Result<R::Reply, Failed> {
        self.client.call(request).await.map_err(|error| Failed {
            doing,
            path: path.to_owned(),
            error,
        })
    }

    fn child(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    /// What a call that went wrong means.
    fn judge(&self, Failed { doing, path, error }: Failed) -> Result<QueueEvent, StoreError> {
        let source = match error {
            CallError::NotSent | CallError::Unknown(_) => {
                return Err(StoreError::Unreachable(Box::new(error)));
            }
            CallError::Refused(Code::SessionExpired) => return Ok(QueueEvent::Expired),
            CallError::Refused(code) => code,
        };
        let remedy = match source {
            Code::NoNode if !self.chroot.is_empty() => {
                "the path behind the servers' ports (chroot) must be there: create it, or leave it out"
            }
            Code::NoAuth => {
                "candidates must be let read, create and delete there: pass their credentials by --zookeeper-auth-file"
            }
            Code::AuthRequired | Code::AuthFailed | Code::InvalidAccess => {
                "pass credentials that the servers know by --zookeeper-auth-file"
            }
            Code::EphemeralOnLocalSession => {
                "let the servers upgrade sessions (localSessionsUpgradingEnabled=true), or keep none to themselves"
            }
            Code::QuotaExceeded => "raise the quota on the path, or clear what fills it",
            Code::NoNode
            | Code::NodeExists
            | Code::BadVersion
            | Code::NotEmpty
            | Code::ParentIsEphemeral
            | Code::Unimplemented
            | Code::SessionExpired
            | Code::SessionMoved
            | Code::BadArguments
            | Code::Other(_) => "see the servers' logs, or choose another --zookeeper-path",
        };
        Err(StoreError::Refused(Box::new(RefusedCall { doing, path, remedy, source })))
    }
}

impl Store<QueueElection> for ZooKeeperStore {
    async fn perform(&self, request: QueueRequest) -> Result<QueueEvent, StoreError> {
        let owner = |node: &Node| node.owner.map(SessionId);
        let called = match request {
            QueueRequest::Begin { timeout } => return self.connect(Session::New, timeout).await,
            QueueRequest::Resume { timeout } => return self.connect(Session::Same, timeout).await,
            QueueRequest::Close => {
                let closed = self.client.close().await.map(|()| QueueEvent::Closed);
                closed.map_err(|error| Failed {
                    doing: "close the session of",
                    path: self.path.clone(),
                    error,
                })
            }
            QueueRequest::MakePath => self.make_path().await,
            QueueRequest::Join { prefix, identity } => match self.keep_strangers_out().await? {
                Some(event) => return Ok(event),
                None => self.join(&prefix, &identity).await,
            },
            QueueRequest::List => self.list().await,
            QueueRequest::Watch { name } => {
                self.read(&self.child(&name), true).await.map(|node| match node {
                    Some(node) => QueueEvent::Found { owner: owner(&node) },
                    None => QueueEvent::Missing,
                })
            }
            QueueRequest::Check { name } => self.check(&name).await,
            QueueRequest::ReadLeader => {
                self.read(&leader_path(&self.path), false).await.map(|node| {
                    QueueEvent::Leader(node.map(|node| Announcement {
                        owner: owner(&node),
                        text: String::from_utf8_lossy(&node.data).into_owned(),
                    }))
                })
            }
            QueueRequest::Announce { name, text, replaces } => {
                self.acknowledge(&name, text, replaces).await
            }
        };
        called.or_else(|failed| self.judge(failed))
    }

    async fn next_event(&self) -> QueueEvent {
        match self.client.next_news().await {
            News::Fired => QueueEvent::WatchFired,
            News::Lost(why) => {
                tracing::debug!("no longer connected to {}: {}", self.place(), ErrorChain(&why));
                QueueEvent::Disconnected
            }
        }
    }

    fn place(&self) -> String {
        format!("ZooKeeper {}{}", self.hosts, self.path)
    }
}

/// Who may do what with our znodes: access lists can name us by what we show, and by nothing else.
const fn access(shown: &Dialer) -> Access {
    if shown.credentials.is_empty() { Access::Open } else { Access::Creator }
}
