//! The ZooKeeper store: turns the queue election's requests into calls of one ZooKeeper session.
//!
//! Touches `zookeeper_client` and, before each connection attempt, the credential and certificate
//! files, which may be replaced at any time. Decides nothing about the election. Start with
//! [`ZooKeeperStore`]; [`ZooKeeperStore::explain`] decides which errors are refusals.

mod access;
mod errors;
mod files;

pub use files::CredentialFilesError;

use crate::config::ZooKeeperConfig;
use crate::error_chain::ErrorChain;
use crate::process::blocking::run_blocking;
use crate::process::clock::Clock;
use crate::process::ended_run::{SavedSession, SessionFile};
use crate::process::resolver::Resolver;
use crate::store::{Store, StoreError};
use baton_election::identity::Identity;
use baton_election::queue::QueueElection;
use baton_election::queue::messages::{
    Announcement, QueueEvent, QueueRequest, SessionId, leader_path,
};
use errors::{ConnectFailed, FailedCall, RefusedCall};
use files::CredentialFiles;
use std::cell::{Cell, RefCell};
use std::time::Duration;
use zookeeper_client::client::{CallError, Client, ConnectionEvent, SessionRequest};
use zookeeper_client::dial::Dialer;
use zookeeper_client::operations::{
    Access, Create, CreateContainer, CreateMode, GetChildren, GetData, Multi, Op, OpFailure, Znode,
};
use zookeeper_client::servers::{Host, Servers};
use zookeeper_client::wire::{Code, Grant, Operation};

/// How long a connection waits for the state directory.
const SAVE_TIMEOUT: Duration = Duration::from_millis(100);

/// An election held in ZooKeeper.
#[derive(Debug)]
pub struct ZooKeeperStore {
    client: Client<Resolver>,
    files: CredentialFiles,
    /// Where sessions are saved, so that the next run can close the last one.
    saved_session: RefCell<Option<SessionFile>>,
    /// The servers, for logs and errors.
    hosts: String,
    /// The part of the servers' tree that must already exist; empty for the root.
    chroot: String,
    /// The election's path, including the chroot.
    path: String,
    access: Cell<Access>,
    /// Whether the servers support containers, as far as known.
    supports_containers: Cell<bool>,
    /// Whether the warning about an open parent was logged.
    has_warned_shared: Cell<bool>,
    /// Whether the path's access list was searched for identities other than ours.
    has_searched_list: Cell<bool>,
    /// The timeout of a connection attempt: below that of a call, so that the attempt reports its
    /// own failure.
    connect_timeout: Duration,
}

impl ZooKeeperStore {
    /// Opens the election of `config`; one call may take `call_timeout`.
    pub async fn open(
        config: &ZooKeeperConfig,
        call_timeout: Duration,
    ) -> Result<Self, CredentialFilesError> {
        let (files, dialer) =
            CredentialFiles::open(config.auth_file.clone(), config.tls.clone()).await?;
        let Servers { hosts, chroot } = &config.servers;
        let access = access(&dialer);
        let client = Client::new(&config.servers, dialer, Resolver::default());
        Ok(Self {
            access: Cell::new(access),
            supports_containers: Cell::new(true),
            has_warned_shared: Cell::new(false),
            has_searched_list: Cell::new(false),
            client,
            files,
            saved_session: RefCell::default(),
            hosts: hosts.iter().map(Host::to_string).collect::<Vec<_>>().join(","),
            chroot: chroot.clone(),
            path: format!("{chroot}{}", config.path),
            connect_timeout: call_timeout / 10 * 9,
        })
    }

    /// The same store. Its first `Resume` resumes the session of an `ended` run, and each new
    /// session is saved in `file`.
    #[must_use]
    pub fn with_sessions(self, ended: Option<SavedSession>, file: Option<SessionFile>) -> Self {
        if let Some(SavedSession { id, timeout, password }) = ended {
            self.client.take_over(Grant { session: id, timeout, password });
        }
        Self { saved_session: RefCell::new(file), ..self }
    }

    async fn connect(
        &self,
        session: SessionRequest,
        timeout: Duration,
    ) -> Result<QueueEvent, StoreError> {
        let started = Clock.now();
        if let Some(dialer) = self.files.reload(self.connect_timeout / 8).await {
            self.access.set(access(&dialer));
            self.client.set_dialer(dialer);
        }
        let remaining = self.connect_timeout.saturating_sub(Clock.now().since(started));
        match self.client.connect(session, timeout, remaining).await {
            Ok(Some(grant)) => {
                let event = QueueEvent::Connected {
                    session: SessionId(grant.session),
                    timeout: grant.timeout,
                };
                if session == SessionRequest::New {
                    self.save(grant).await;
                }
                Ok(event)
            }
            Ok(None) => Ok(QueueEvent::Expired),
            Err(error) if error.is_refusal() => {
                Err(StoreError::Refused(Box::new(ConnectFailed::new(error))))
            }
            Err(error) => Err(StoreError::Unreachable(Box::new(ConnectFailed::new(error)))),
        }
    }

    /// Saves a new session before a znode is created in it. A failure costs only the time until the
    /// session expires, and only if this process is killed.
    async fn save(&self, Grant { session, timeout, password }: Grant) {
        let Some(file) = self.saved_session.borrow().clone() else { return };
        let session = SavedSession { id: session, timeout, password };
        let saving = run_blocking("saving the session", move || file.save(session));
        let failure = match tokio::time::timeout(SAVE_TIMEOUT, saving).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => ErrorChain(&error).to_string(),
            Err(_) => "the state directory did not respond".to_owned(),
        };
        // A later one would be as likely to fail, and a hung one blocks a thread.
        self.saved_session.take();
        tracing::warn!("ZooKeeper sessions are not saved any more: {failure}");
    }

    /// Creates the election's path, and an ancestor only if it is missing: a candidate that may
    /// create its own znode may lack rights on the ancestors.
    ///
    /// A server that does not support containers closes the connection after its answer. The next
    /// attempt then creates persistent znodes.
    async fn create_path(&self) -> Result<QueueEvent, FailedCall> {
        let ends =
            self.path.match_indices('/').map(|(at, _)| at).filter(|at| *at > self.chroot.len());
        let ancestors: Vec<&str> =
            ends.chain([self.path.len()]).map(|end| &self.path[..end]).collect();
        let mut depth = ancestors.len() - 1;
        loop {
            match self.ensure_exists(ancestors[depth]).await {
                Ok(()) if depth + 1 == ancestors.len() => return Ok(QueueEvent::Made),
                Ok(()) => depth += 1,
                Err(FailedCall { error: CallError::Refused(Code::NoNode), .. }) if depth > 0 => {
                    depth -= 1;
                }
                Err(FailedCall { error: CallError::Refused(Code::Unimplemented), .. })
                    if self.supports_containers.replace(false) =>
                {
                    return Ok(QueueEvent::Unknown);
                }
                Err(failed) => return Err(failed),
            }
        }
    }

    /// Creates an ancestor of the candidates' znodes unless it exists.
    async fn ensure_exists(&self, path: &str) -> Result<(), FailedCall> {
        let action = "create";
        let access = self.access_of(path);
        let created = if self.supports_containers.get() {
            self.call(action, path, &CreateContainer { path: path.to_owned(), access }).await
        } else {
            let persistent = Create {
                path: path.to_owned(),
                data: Vec::new(),
                mode: CreateMode::Persistent,
                access,
            };
            self.call(action, path, &persistent).await.map(drop)
        };
        match created {
            Err(FailedCall { error: CallError::Refused(Code::NodeExists), .. }) => Ok(()),
            created => created,
        }
    }

    async fn join(&self, prefix: &str, identity: &Identity) -> Result<QueueEvent, FailedCall> {
        let path = format!("{}/{prefix}", self.path);
        let data = identity.as_str().as_bytes().to_vec();
        let own =
            Create { path, data, mode: CreateMode::EphemeralSequential, access: self.access.get() };
        let path = match self.call("join the election at", &self.path, &own).await {
            Ok(path) => path,
            Err(FailedCall { error: CallError::Refused(Code::NoNode), .. }) => {
                return Ok(QueueEvent::Missing);
            }
            Err(FailedCall { error: CallError::Refused(Code::NodeExists), .. }) => {
                return Ok(QueueEvent::Saturated);
            }
            Err(failed) => return Err(failed),
        };
        // Only `create2` would return the transaction, and servers before 3.5 lack it.
        let Some(node) = self.read(&path, false).await? else { return Ok(QueueEvent::Missing) };
        self.warn_other_administrators(&path).await?;
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        Ok(QueueEvent::Joined { name, czxid: node.czxid })
    }

    /// Creates the znode that names the leader, if the candidate `name` is still in the queue.
    async fn announce(
        &self,
        name: &str,
        text: String,
        replaces: bool,
    ) -> Result<QueueEvent, FailedCall> {
        let leader = leader_path(&self.path);
        let (path, data) = (leader.clone(), text.into_bytes());
        let create = Create { path, data, mode: CreateMode::Ephemeral, access: self.access.get() };
        let operations = [Op::Check(self.child(name))].into_iter();
        let operations = operations
            .chain(replaces.then(|| Op::Delete(leader.clone())))
            .chain([Op::Create(create)]);
        let outcome =
            self.call("announce a leader at", &leader, &Multi(operations.collect())).await?;
        match outcome {
            Ok(()) => Ok(QueueEvent::Announced),
            Err(OpFailure { index: 0, code: Code::NoNode }) => Ok(QueueEvent::Missing),
            Err(OpFailure { code: Code::NoNode | Code::NodeExists, .. }) => Ok(QueueEvent::Changed),
            Err(OpFailure { code, .. }) => Err(FailedCall {
                action: "announce a leader at",
                path: leader,
                error: CallError::Refused(code),
            }),
        }
    }

    /// Checks that the candidate `name` is still in the queue.
    async fn check(&self, name: &str) -> Result<QueueEvent, FailedCall> {
        let path = self.child(name);
        match self.call("check", &path, &Multi(vec![Op::Check(path.clone())])).await? {
            Ok(()) => Ok(QueueEvent::Checked),
            Err(OpFailure { code: Code::NoNode, .. }) => Ok(QueueEvent::Missing),
            Err(OpFailure { code, .. }) => {
                Err(FailedCall { action: "check", path, error: CallError::Refused(code) })
            }
        }
    }

    async fn list(&self) -> Result<QueueEvent, FailedCall> {
        match self
            .call("list the candidates of", &self.path, &GetChildren { path: self.path.clone() })
            .await
        {
            Ok(names) => Ok(QueueEvent::Listed(names)),
            Err(FailedCall { error: CallError::Refused(Code::NoNode), .. }) => {
                Ok(QueueEvent::Missing)
            }
            Err(failed) => Err(failed),
        }
    }

    /// Reads a znode; `None` if it does not exist.
    async fn read(&self, path: &str, watch: bool) -> Result<Option<Znode>, FailedCall> {
        match self.call("read", path, &GetData { path: path.to_owned(), watch }).await {
            Ok(node) => Ok(Some(node)),
            Err(FailedCall { error: CallError::Refused(Code::NoNode), .. }) => Ok(None),
            Err(failed) => Err(failed),
        }
    }

    async fn call<R: Operation>(
        &self,
        action: &'static str,
        path: &str,
        request: &R,
    ) -> Result<R::Reply, FailedCall> {
        self.client.call(request).await.map_err(|error| FailedCall {
            action,
            path: path.to_owned(),
            error,
        })
    }

    fn child(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    /// Interprets a failed call: an event for the machine, or an error to report.
    fn explain(
        &self,
        FailedCall { action, path, error }: FailedCall,
    ) -> Result<QueueEvent, StoreError> {
        let code = match error {
            CallError::NotSent | CallError::Unknown(_) => {
                return Err(StoreError::Unreachable(Box::new(error)));
            }
            CallError::Refused(Code::SessionExpired) => return Ok(QueueEvent::Expired),
            CallError::Refused(code) => code,
        };
        let refused = RefusedCall::new(action, path, code, !self.chroot.is_empty());
        Err(StoreError::Refused(Box::new(refused)))
    }
}

impl Store<QueueElection> for ZooKeeperStore {
    async fn perform(&self, request: QueueRequest) -> Result<QueueEvent, StoreError> {
        let owner = |node: &Znode| node.owner.map(SessionId);
        let result = match request {
            QueueRequest::Begin { timeout } => {
                return self.connect(SessionRequest::New, timeout).await;
            }
            QueueRequest::Resume { timeout } => {
                return self.connect(SessionRequest::Resume, timeout).await;
            }
            QueueRequest::Close => {
                let closed = self.client.close().await.map(|()| QueueEvent::Closed);
                closed.map_err(|error| FailedCall {
                    action: "close the session of",
                    path: self.path.clone(),
                    error,
                })
            }
            QueueRequest::MakePath => self.create_path().await,
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
                self.announce(&name, text, replaces).await
            }
        };
        result.or_else(|failed| self.explain(failed))
    }

    async fn next_event(&self) -> QueueEvent {
        match self.client.next_event().await {
            ConnectionEvent::WatchFired => QueueEvent::WatchFired,
            ConnectionEvent::Lost(loss) => {
                tracing::debug!(
                    "lost the connection to {}: {}",
                    self.location(),
                    ErrorChain(&loss)
                );
                QueueEvent::Disconnected
            }
        }
    }

    fn location(&self) -> String {
        format!("ZooKeeper {}{}", self.hosts, self.path)
    }
}

/// The access list for new znodes: open if we present no credentials that a list could name, else
/// ours alone except for reads, since candidates must see each other.
const fn access(dialer: &Dialer) -> Access {
    if dialer.credentials.is_empty() { Access::Open } else { Access::Creator }
}
