//! The store of candidates in a Kubernetes cluster: one Lease, conditional PUTs, and a watch for its news.
//!
//! Touches kube's client. It turns the Lease machine's requests into calls, and decides nothing: which replies are a
//! lost race and which are a mistake of ours stands in [`LeaseStore::judge`]. One Role limited to the Lease's name suffices, since
//! creation is by PUT, which is authorized with the name.
//!
//! A call that takes too long is dropped by the driver, and with it its HTTP/1.1 connection, so that the next call
//! never waits behind it. A call that is answered 401 was not applied: it is sent once more, with the credentials of
//! that moment.

pub use super::kubernetes::ConnectError;
use super::kubernetes::Connection;
use super::lease_object::{NoLease, snapshot, written};
use super::{Store, StoreError};
use crate::clock::{Clock, Instant};
use crate::config::{Cluster, ElectionName};
use crate::election::lease::Lease;
use crate::election::record::{LeaseEvent, LeaseRequest, Snapshot, Write};
use crate::rbac::Role;
use futures_util::stream::{BoxStream, StreamExt as _};
use kube::Api;
use kube::api::{DynamicObject, PostParams, WatchEvent, WatchParams};
use kube::core::{ApiResource, Status};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::time::Duration;
use tokio::sync::Notify;

/// How long one watch lasts, in seconds, before it is opened anew: what a connection that died unnoticed may cost at
/// the most, though silence makes the machine read long before.
const WATCH_SECONDS: u32 = 60;

/// An election's Lease.
pub struct LeaseStore {
    cluster: Cluster,
    connection: RefCell<Connection>,
    resource: ApiResource,
    name: String,
    namespace: String,
    retry_period: Duration,
    call_timeout: Duration,
    /// The newest object that was read, written or watched: the base of the next write.
    latest: RefCell<Option<DynamicObject>>,
    watch: RefCell<Option<Watch>>,
    /// Whether it was told that we may not watch.
    is_watch_refused: Cell<bool>,
    /// The version that the watch has come to; absent while a read has to come first.
    watched: Cell<Option<u128>>,
    /// A read knows more than the watch, or where a watch can begin.
    read: Notify,
}

/// An open watch.
struct Watch {
    stream: BoxStream<'static, kube::Result<WatchEvent<DynamicObject>>>,
    opened_at: Instant,
}

/// Why a call has an unknown outcome.
#[derive(Debug, thiserror::Error)]
enum CallError {
    #[error("the API server answers {code}: {message}")]
    Status { code: u16, message: String },
    #[error(
        "the API server knows us no more, or never did (401): {0}: see whether token or certificate have expired, and \
         whether the account is still there"
    )]
    Unauthorized(String),
    #[error("the API server refuses (403): {message}; this lets it through:\n{role}")]
    Forbidden { message: String, role: Role },
    #[error("namespace {0:?} is not there: create it, or pass --namespace")]
    NoNamespace(String),
    #[error("the API server calls our Lease invalid: {0}")]
    Invalid(String),
    #[error("the API server's answer is not a Lease")]
    NoLease(#[from] NoLease),
    #[error("the API server cannot be reached")]
    Transport(#[source] kube::Error),
    #[error("the API server does not take our credentials (401), and there are no others")]
    Credentials(#[source] ConnectError),
}

/// What a refused call means.
enum Verdict {
    LostRace,
    Absent,
    Failed(CallError),
}

impl LeaseStore {
    /// The Lease of `election` in `cluster`; `namespace` overrides the Pod's or the context's own.
    pub async fn connect(
        cluster: &Cluster,
        namespace: Option<&str>,
        election: &ElectionName,
        call_timeout: Duration,
        retry_period: Duration,
    ) -> Result<Self, ConnectError> {
        let connection = Connection::open(cluster).await?;
        let namespace = namespace.unwrap_or(&connection.namespace).to_owned();
        let resource = ApiResource::erase::<k8s_openapi::api::coordination::v1::Lease>(&());
        Ok(Self {
            cluster: cluster.clone(),
            connection: RefCell::new(connection),
            resource,
            name: election.as_str().to_owned(),
            namespace,
            retry_period,
            call_timeout,
            latest: RefCell::new(None),
            watch: RefCell::new(None),
            is_watch_refused: Cell::new(false),
            watched: Cell::new(None),
            read: Notify::new(),
        })
    }

    async fn ask(&self, request: &LeaseRequest) -> Result<LeaseEvent, CallError> {
        match request {
            LeaseRequest::Read => self.read().await,
            LeaseRequest::Write(write) => self.write(write).await,
        }
    }

    async fn read(&self) -> Result<LeaseEvent, CallError> {
        let object = match self.leases().await.get(&self.name).await {
            Ok(object) => Some(object),
            Err(error) => match self.judge(error, None) {
                Verdict::Absent => None,
                Verdict::LostRace => return Ok(LeaseEvent::Conflict),
                Verdict::Failed(error) => return Err(error),
            },
        };
        let seen = object.as_ref().map(snapshot).transpose()?;
        self.latest.replace(object);
        let number = seen.as_ref().map_or(0, |seen| seen.version.number);
        if self.watched.get().is_none_or(|watched| watched < number) {
            self.watched.set(Some(number));
            self.read.notify_one();
        }
        Ok(LeaseEvent::Read(seen))
    }

    async fn write(&self, write: &Write) -> Result<LeaseEvent, CallError> {
        let base = self.latest.borrow().clone().filter(|_| write.over.is_some());
        let is_current = match (&base, &write.over) {
            (Some(base), Some(over)) => snapshot(base).is_ok_and(|base| base.version == *over),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !is_current {
            // A watch has brought something newer meanwhile: the write would meet another version.
            return Ok(LeaseEvent::Conflict);
        }
        let object = written(base.as_ref(), &self.name, &self.resource, write, Clock.wall());
        match self.leases().await.replace(&self.name, &PostParams::default(), &object).await {
            Ok(object) => {
                let applied = snapshot(&object)?;
                self.latest.replace(Some(object));
                Ok(LeaseEvent::Applied(applied))
            }
            Err(error) => match self.judge(error, Some(write)) {
                Verdict::LostRace => Ok(LeaseEvent::Conflict),
                // A PUT creates what is absent, so this is the namespace.
                Verdict::Absent => Err(CallError::NoNamespace(self.namespace.clone())),
                Verdict::Failed(error) => Err(error),
            },
        }
    }

    /// The API, by the credentials of this moment.
    async fn leases(&self) -> Api<DynamicObject> {
        if self.connection.borrow().is_stale() {
            // Those that cannot be used are named once the ones that we have are refused.
            self.reconnect().await.ok();
        }
        Api::namespaced_with(self.connection.borrow().client.clone(), &self.namespace, &self.resource)
    }

    async fn reconnect(&self) -> Result<(), ConnectError> {
        let connection = Connection::open(&self.cluster).await?;
        self.connection.replace(connection);
        Ok(())
    }

    /// Tells a lost race from a refusal, and both from what says nothing about the outcome.
    fn judge(&self, error: kube::Error, write: Option<&Write>) -> Verdict {
        let kube::Error::Api(status) = error else {
            return Verdict::Failed(CallError::Transport(error));
        };
        let Status { code, message, .. } = *status;
        let creates = write.is_some_and(|write| write.over.is_none());
        match code {
            404 => Verdict::Absent,
            409 => Verdict::LostRace,
            // Of two creating PUTs the server retries the loser against what the winner made.
            422 if creates && message.contains("metadata.resourceVersion") => Verdict::LostRace,
            422 => Verdict::Failed(CallError::Invalid(message)),
            401 => Verdict::Failed(CallError::Unauthorized(message)),
            403 => {
                let role = Role::of_refusal(&self.name, &self.namespace, &message);
                Verdict::Failed(CallError::Forbidden { message, role })
            }
            _ => Verdict::Failed(CallError::Status { code, message }),
        }
    }

    /// Opens the watch behind `from`, the newest version that is known.
    async fn open_watch(&self, from: u128) -> Option<Watch> {
        let parameters = WatchParams {
            field_selector: Some(format!("metadata.name={}", self.name)),
            timeout: Some(WATCH_SECONDS),
            bookmarks: true,
            ..WatchParams::default()
        };
        // Without a Lease there is no version to begin at: an empty one means the present.
        let from = if from == 0 { String::new() } else { from.to_string() };
        let opened = async { self.leases().await.watch(&parameters, &from).await };
        let opened = tokio::time::timeout(self.call_timeout, opened).await.ok()?;
        let stream = opened.map_err(|error| self.tell_refused_watch(error)).ok()?.boxed();
        self.is_watch_refused.set(false);
        Some(Watch { stream, opened_at: Clock.now() })
    }

    /// Tells once that we may not watch. Whatever else keeps a watch from opening is found, and told, by the read that
    /// follows on silence; but that one may be allowed where this is not.
    fn tell_refused_watch(&self, error: kube::Error) {
        if let Verdict::Failed(error @ CallError::Forbidden { .. }) = self.judge(error, None)
            && !self.is_watch_refused.replace(true)
        {
            let place = self.place();
            tracing::error!(
                event = "store_refuses",
                "cannot watch {place}, so changes are seen at the next read only: {error}"
            );
        }
    }

    /// The next event of the watch; `None` when it ended, or when a read knows more than it has told.
    async fn next_of(&self, watch: &mut Watch) -> Option<WatchEvent<DynamicObject>> {
        tokio::select! {
            event = watch.stream.next() => event?.ok(),
            () = self.read.notified() => None,
        }
    }

    /// The machine's event for what the watch brought; `None` for what is no news.
    fn news(&self, event: WatchEvent<DynamicObject>) -> Option<LeaseEvent> {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let seen = snapshot(&object).ok()?;
                if self.watched.get().is_some_and(|watched| seen.version.number <= watched) {
                    return None;
                }
                self.watched.set(Some(seen.version.number));
                self.keep(&seen, object);
                Some(LeaseEvent::Noticed(Some(seen)))
            }
            WatchEvent::Deleted(_) => Some(LeaseEvent::Noticed(None)),
            WatchEvent::Bookmark(bookmark) => {
                let version = bookmark.metadata.resource_version.parse().ok()?;
                self.watched.set(self.watched.get().max(Some(version)));
                None
            }
            // 410: the version is too old to watch from. Only a read says where to begin again.
            WatchEvent::Error(_) => {
                self.watched.set(None);
                Some(LeaseEvent::Noticed(None))
            }
        }
    }

    /// Keeps the newest object that is known as the base of the next write.
    fn keep(&self, seen: &Snapshot, object: DynamicObject) {
        let known = self.latest.borrow().as_ref().and_then(|latest| snapshot(latest).ok());
        if known.is_none_or(|known| known.version.number < seen.version.number) {
            self.latest.replace(Some(object));
        }
    }
}

impl Store<Lease> for LeaseStore {
    async fn perform(&self, request: LeaseRequest) -> Result<LeaseEvent, StoreError> {
        let event = match self.ask(&request).await {
            Err(CallError::Unauthorized(_)) => {
                self.reconnect().await.map_err(CallError::Credentials)?;
                self.ask(&request).await?
            }
            answer => answer?,
        };
        Ok(event)
    }

    async fn next_event(&self) -> LeaseEvent {
        loop {
            // Taken out while it is waited for: a borrow must not be held over an await.
            let watch = self.watch.take();
            match (watch, self.watched.get()) {
                (Some(mut watch), _) => match self.next_of(&mut watch).await {
                    Some(event) => {
                        self.watch.replace(Some(watch));
                        if let Some(news) = self.news(event) {
                            return news;
                        }
                    }
                    // A server that closes every watch at once must not be asked without pause.
                    None => Clock.sleep_until(watch.opened_at + self.retry_period).await,
                },
                (None, Some(from)) => match self.open_watch(from).await {
                    Some(watch) => drop(self.watch.replace(Some(watch))),
                    None => tokio::time::sleep(self.retry_period).await,
                },
                (None, None) => self.read.notified().await,
            }
        }
    }

    fn place(&self) -> String {
        format!("Lease {}/{}", self.namespace, self.name)
    }
}

impl From<CallError> for StoreError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Unauthorized(_)
            | CallError::Forbidden { .. }
            | CallError::NoNamespace(_)
            | CallError::Invalid(_)
            | CallError::Credentials(_) => Self::Refused(Box::new(error)),
            CallError::Status { .. } | CallError::NoLease(_) | CallError::Transport(_) => {
                Self::Unreachable(Box::new(error))
            }
        }
    }
}

impl fmt::Debug for LeaseStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseStore")
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
