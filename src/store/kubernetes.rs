//! The store of candidates in a Kubernetes cluster: one Lease, conditional PUTs, and a watch for its news.
//!
//! Touches kube's client, below its buffers. It turns the Lease machine's requests into calls, and
//! decides nothing: `lease/refusal.rs` tells a lost race from a mistake of ours, and
//! `lease/watch.rs` holds the watch. One Role limited to the Lease's name suffices, since creation
//! is by PUT, which is authorized with the name.
//!
//! A call that takes too long is dropped by the driver, and with it its HTTP/1.1 connection, so that the next call
//! never waits behind it. A call that is answered 401 was not applied: it is sent once more, with the credentials of
//! that moment.

mod bodies;
pub mod lease_object;
mod refusal;
mod watch;

use crate::config::{Cluster, ElectionName};
use crate::kubernetes::connection::Connections;
pub use crate::kubernetes::connection::{ConnectError, ProgramError};
use crate::process::clock::Clock;
use crate::store::kubernetes::lease_object::{Object, written};
use crate::store::{Store, StoreError};
use baton_election::record::RecordElection;
use baton_election::record::messages::{RecordEvent, RecordRequest, Snapshot, Version, Write};
use bodies::whole;
use hyper::{Request, Response};
use k8s_openapi::api::coordination::v1;
use kube::Resource as _;
use kube::api::{GetParams, PostParams};
use kube::client::Body;
use kube::core::Request as Requests;
use kube::core::request::Error as RequestError;
use refusal::{Absent, CallError, LostRace, Place};
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;
use watch::{News, Watch};

/// An election's Lease.
pub struct LeaseStore {
    leases: Leases,
    /// The newest object that was read, written or watched: the base of the next write.
    latest: RefCell<Option<Rc<Object>>>,
    watch: Watch,
}

/// Calls about one Lease.
struct Leases {
    connections: Connections,
    requests: Requests,
    place: Place,
    retry_period: Duration,
    call_timeout: Duration,
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
        let connections = Connections::open(cluster).await?;
        let namespace = namespace.map_or_else(|| connections.namespace(), str::to_owned);
        let place = Place { namespace, name: election.as_str().to_owned() };
        let requests = Requests::new(v1::Lease::url_path(&(), Some(&place.namespace)));
        let leases = Leases { connections, requests, place, retry_period, call_timeout };
        Ok(Self { leases, latest: RefCell::new(None), watch: Watch::default() })
    }

    async fn ask(&self, request: &RecordRequest) -> Result<RecordEvent, CallError> {
        match request {
            RecordRequest::Read => Ok(RecordEvent::Read(self.read().await?)),
            RecordRequest::Write(write) => self.write(write).await,
        }
    }

    async fn read(&self) -> Result<Option<Snapshot>, CallError> {
        let place = &self.leases.place;
        let get = self.leases.requests.get(&place.name, &GetParams::default());
        let object = match self.leases.call(get).await? {
            Ok(answer) => Some(self.leases.object(answer).await?),
            Err(error) => {
                let Absent = place.read_refused(error)?;
                None
            }
        };
        let seen = object.as_ref().map(|object| object.seen.clone());
        let known = self.latest.replace(object).map(|latest| number(&latest.seen));
        self.watch.read_shows(seen.as_ref().map_or(0, number), known);
        Ok(seen)
    }

    async fn write(&self, write: &Write) -> Result<RecordEvent, CallError> {
        let base = match &write.over {
            None => None,
            Some(over) => match self.object_at(over).await? {
                Some(base) => Some(base),
                None => return Ok(RecordEvent::Conflict),
            },
        };
        let Leases { place, requests, .. } = &self.leases;
        let object = written(base.as_deref(), &place.name, write, Clock.wall());
        let put = requests.replace(&place.name, &PostParams::default(), object);
        match self.leases.call(put).await? {
            Ok(answer) => {
                let object = self.leases.object(answer).await?;
                let applied = object.seen.clone();
                self.latest.replace(Some(object));
                Ok(RecordEvent::Applied(applied))
            }
            Err(error) => {
                let LostRace = place.write_refused(error, write.over.is_none())?;
                Ok(RecordEvent::Conflict)
            }
        }
    }

    /// The object of this version, with whatever others keep in it: `None` where the server holds another by now. It is
    /// asked where we do not have it at hand, since a watch has brought something else meanwhile.
    async fn object_at(&self, version: &Version) -> Result<Option<Rc<Object>>, CallError> {
        let at_hand =
            || self.latest.borrow().clone().filter(|object| object.seen.version == *version);
        match at_hand() {
            Some(object) => Ok(Some(object)),
            None => self.read().await.map(|_| at_hand()),
        }
    }

    /// Keeps the newest object that is known as the base of the next write.
    fn keep(&self, object: Rc<Object>) {
        let known = self.latest.borrow().as_ref().map(|latest| number(&latest.seen));
        if known.is_none_or(|known| known < number(&object.seen)) {
            self.latest.replace(Some(object));
        }
    }
}

impl Leases {
    /// Sends a request with the present credentials, and once more with new ones after a 401.
    async fn call(
        &self,
        request: Result<Request<Vec<u8>>, RequestError>,
    ) -> Result<kube::Result<Response<Body>>, CallError> {
        let request =
            request.map_err(|error| CallError::Transport(kube::Error::BuildRequest(error)))?;
        match self.send(request.clone()).await? {
            Err(kube::Error::Api(status)) if status.code == 401 => {
                self.connections.renew().await.map_err(CallError::Credentials)?;
                self.send(request).await
            }
            answer => Ok(answer),
        }
    }

    async fn send(
        &self,
        request: Request<Vec<u8>>,
    ) -> Result<kube::Result<Response<Body>>, CallError> {
        let client = self.connections.client().await.map_err(CallError::NoCredentials)?;
        Ok(client.send(request.map(Body::from)).await)
    }

    /// The Lease in an answer.
    async fn object(&self, answer: Response<Body>) -> Result<Rc<Object>, CallError> {
        let body = whole(answer).await?;
        Ok(Rc::new(Object::parse(&body, &self.place.name)?))
    }
}

impl Store<RecordElection> for LeaseStore {
    async fn perform(&self, request: RecordRequest) -> Result<RecordEvent, StoreError> {
        Ok(self.ask(&request).await?)
    }

    async fn next_event(&self) -> RecordEvent {
        match self.watch.next(&self.leases).await {
            News::Seen(object) => {
                let seen = object.seen.clone();
                self.keep(object);
                RecordEvent::WatchEvent(Some(seen))
            }
            News::Suspected => RecordEvent::WatchEvent(None),
        }
    }

    fn place(&self) -> String {
        self.leases.place.to_string()
    }
}

impl fmt::Debug for LeaseStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseStore").field("place", &self.leases.place).finish_non_exhaustive()
    }
}

fn number(snapshot: &Snapshot) -> u128 {
    snapshot.version.number
}
