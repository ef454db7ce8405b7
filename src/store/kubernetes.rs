//! The Kubernetes store: one Lease, conditional PUTs, and a watch.
//!
//! Touches kube's client, below its request buffer. It turns the record election's requests into
//! calls and decides nothing: `refusal.rs` interprets errors, and `watch.rs` holds the watch. Start
//! with [`LeaseStore`]. A Role limited to the Lease's name suffices: creation is a PUT too, which
//! the API server authorizes with the name.
//!
//! The driver drops a call that takes too long, and with it the HTTP/1.1 connection, so that the
//! next call does not wait behind it.

mod bodies;
pub mod lease_object;
mod older_lock;
mod refusal;
mod rights;
mod watch;

use crate::config::{Cluster, ElectionName};
use crate::kubernetes::answer::read_body;
use crate::kubernetes::api_server::ApiServer;
pub use crate::kubernetes::api_server::{ApiServerError, ExecPluginError};
use crate::kubernetes::rbac::Rights;
use crate::process::clock::Clock;
use crate::store::kubernetes::lease_object::{LeaseObject, MAX_OBJECT_BYTES, to_json};
use crate::store::{Store, StoreError, WatchUpdate};
use baton_election::record::RecordElection;
use baton_election::record::messages::{RecordEvent, RecordRequest, Snapshot, Version, Write};
use hyper::Response;
use k8s_openapi::api::coordination::v1;
use kube::Resource as _;
use kube::api::{GetParams, PostParams};
use kube::client::Body;
use kube::core::Request as Requests;
pub use older_lock::{LockKind, OlderLock};
use refusal::{Absent, LeaseError, LeaseRef, LostRace};
pub use rights::AccessReport;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;
use watch::LeaseWatch;

/// An election held in a Lease.
pub struct LeaseStore {
    api: LeaseApi,
    /// The newest object that was read, written, or watched.
    latest: RefCell<Option<Rc<LeaseObject>>>,
    watch: LeaseWatch,
}

/// The API of one Lease.
struct LeaseApi {
    server: ApiServer,
    requests: Requests,
    lease: LeaseRef,
    retry_period: Duration,
    call_timeout: Duration,
}

impl LeaseStore {
    /// Finds the Lease of `election` in `cluster`. `namespace` overrides the Pod's or the
    /// context's.
    pub async fn connect(
        cluster: &Cluster,
        namespace: Option<&str>,
        election: &ElectionName,
        call_timeout: Duration,
        retry_period: Duration,
    ) -> Result<Self, ApiServerError> {
        let server = ApiServer::open(cluster).await?;
        let namespace = namespace.map_or_else(|| server.namespace(), str::to_owned);
        let (name, rights) = (election.as_str().to_owned(), Rights::LEASE);
        let lease = LeaseRef { namespace, name, rights };
        let requests = Requests::new(v1::Lease::url_path(&(), Some(&lease.namespace)));
        let api = LeaseApi { server, requests, lease, retry_period, call_timeout };
        Ok(Self { api, latest: RefCell::new(None), watch: LeaseWatch::default() })
    }

    /// Names these rights in the remedy of a refusal, and not only those to the Lease.
    #[must_use]
    pub fn with_rights(mut self, rights: Rights) -> Self {
        self.api.lease.rights = rights;
        self
    }

    async fn try_perform(&self, request: &RecordRequest) -> Result<RecordEvent, LeaseError> {
        match request {
            RecordRequest::Read => Ok(RecordEvent::Read(self.read().await?)),
            RecordRequest::Write(write) => self.write(write).await,
        }
    }

    async fn get(&self) -> Result<Option<Rc<LeaseObject>>, LeaseError> {
        let lease = &self.api.lease;
        let get = self.api.requests.get(&lease.name, &GetParams::default());
        match self.api.server.call(get).await? {
            Ok(response) => Ok(Some(self.api.object(response).await?)),
            Err(error) => {
                let Absent = lease.read_refused(error)?;
                Ok(None)
            }
        }
    }

    async fn read(&self) -> Result<Option<Snapshot>, LeaseError> {
        let object = self.get().await?;
        let snapshot = object.as_ref().map(|object| object.snapshot.clone());
        let known = self.latest.replace(object).map(|latest| number(&latest.snapshot));
        self.watch.note_read(snapshot.as_ref().map_or(0, number), known);
        Ok(snapshot)
    }

    async fn write(&self, write: &Write) -> Result<RecordEvent, LeaseError> {
        let base = match &write.over {
            None => None,
            Some(over) => match self.object_at(over).await? {
                Some(base) => Some(base),
                None => return Ok(RecordEvent::Conflict),
            },
        };
        let LeaseApi { lease, requests, .. } = &self.api;
        let object = to_json(base.as_deref(), &lease.name, write, Clock.wall());
        let put = requests.replace(&lease.name, &PostParams::default(), object);
        match self.api.server.call(put).await? {
            Ok(response) => {
                let object = self.api.object(response).await?;
                let applied = object.snapshot.clone();
                self.latest.replace(Some(object));
                Ok(RecordEvent::Applied(applied))
            }
            Err(error) => {
                let LostRace = lease.write_refused(error, write.over.is_none())?;
                Ok(RecordEvent::Conflict)
            }
        }
    }

    /// The object of this version, with the fields that others keep in it. Reads the Lease if a
    /// watch event or a late reply has replaced the known object; `None` if the server holds another
    /// version by then. The machine does not see this read, so the watch still reports that version.
    async fn object_at(&self, version: &Version) -> Result<Option<Rc<LeaseObject>>, LeaseError> {
        let is_at = |object: &Rc<LeaseObject>| object.snapshot.version == *version;
        let latest = self.latest.borrow().clone().filter(is_at);
        match latest {
            Some(object) => Ok(Some(object)),
            None => Ok(self.get().await?.filter(is_at)),
        }
    }

    /// Keeps `object` as the latest if it is newer than the known one.
    fn keep(&self, object: Rc<LeaseObject>) {
        let known = self.latest.borrow().as_ref().map(|latest| number(&latest.snapshot));
        if known.is_none_or(|known| known < number(&object.snapshot)) {
            self.latest.replace(Some(object));
        }
    }
}

impl LeaseApi {
    /// Parses the Lease in a response.
    async fn object(&self, response: Response<Body>) -> Result<Rc<LeaseObject>, LeaseError> {
        let body = read_body(response, MAX_OBJECT_BYTES).await?;
        Ok(Rc::new(LeaseObject::parse(&body, &self.lease.name)?))
    }
}

impl Store<RecordElection> for LeaseStore {
    async fn perform(&self, request: RecordRequest) -> Result<RecordEvent, StoreError> {
        Ok(self.try_perform(&request).await?)
    }

    async fn next_event(&self) -> RecordEvent {
        match self.watch.next(&self.api).await {
            WatchUpdate::Changed(object) => {
                let snapshot = object.snapshot.clone();
                self.keep(object);
                RecordEvent::WatchEvent(Some(snapshot))
            }
            WatchUpdate::ReadRequired => RecordEvent::WatchEvent(None),
        }
    }

    fn location(&self) -> String {
        self.api.lease.to_string()
    }
}

impl fmt::Debug for LeaseStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseStore").field("lease", &self.api.lease).finish_non_exhaustive()
    }
}

fn number(snapshot: &Snapshot) -> u128 {
    snapshot.version.number
}
