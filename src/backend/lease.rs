//! The store of candidates in a Kubernetes cluster: one Lease, conditional PUTs, and a watch for its news.
//!
//! Touches kube's client. It turns the Lease machine's requests into calls, and decides nothing: which replies are a
//! lost race and which are a mistake of ours stands in `lease/refusal.rs`, and the watch in `lease/watch.rs`. One Role
//! limited to the Lease's name suffices, since creation is by PUT, which is authorized with the name.
//!
//! A call that takes too long is dropped by the driver, and with it its HTTP/1.1 connection, so that the next call
//! never waits behind it. A call that is answered 401 was not applied: it is sent once more, with the credentials of
//! that moment.

mod refusal;
mod watch;

use super::kubernetes::Connections;
pub use super::kubernetes::{ConnectError, ProgramError};
use super::lease_object::{snapshot, written};
use super::{Store, StoreError};
use crate::clock::Clock;
use crate::config::{Cluster, ElectionName};
use crate::election::lease::Lease;
use crate::election::record::{LeaseEvent, LeaseRequest, Snapshot, Version, Write};
use kube::Api;
use kube::api::{DynamicObject, PostParams};
use kube::core::ApiResource;
use refusal::{Absent, CallError, LostRace, Place};
use std::cell::RefCell;
use std::fmt;
use std::time::Duration;
use watch::{News, Watch};

/// An election's Lease.
pub struct LeaseStore {
    leases: Leases,
    /// The newest object that was read, written or watched: the base of the next write.
    latest: RefCell<Option<DynamicObject>>,
    watch: Watch,
}

/// Calls about one Lease.
struct Leases {
    connections: Connections,
    resource: ApiResource,
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
        let resource = ApiResource::erase::<k8s_openapi::api::coordination::v1::Lease>(&());
        let leases = Leases { connections, resource, place, retry_period, call_timeout };
        Ok(Self { leases, latest: RefCell::new(None), watch: Watch::default() })
    }

    async fn ask(&self, request: &LeaseRequest) -> Result<LeaseEvent, CallError> {
        match request {
            LeaseRequest::Read => Ok(LeaseEvent::Read(self.read().await?)),
            LeaseRequest::Write(write) => self.write(write).await,
        }
    }

    async fn read(&self) -> Result<Option<Snapshot>, CallError> {
        let place = &self.leases.place;
        let object = match self.leases.call(async |api| api.get(&place.name).await).await? {
            Ok(object) => Some(object),
            Err(error) => {
                let Absent = place.read_refused(error)?;
                None
            }
        };
        let seen = object.as_ref().map(snapshot).transpose()?;
        let known = self.latest.replace(object).and_then(|latest| snapshot(&latest).ok());
        self.watch.read_shows(seen.as_ref().map_or(0, number), known.as_ref().map(number));
        Ok(seen)
    }

    async fn write(&self, write: &Write) -> Result<LeaseEvent, CallError> {
        let base = match &write.over {
            None => None,
            Some(over) => match self.object_at(over).await? {
                Some(base) => Some(base),
                None => return Ok(LeaseEvent::Conflict),
            },
        };
        let Leases { place, resource, .. } = &self.leases;
        let object = written(base.as_ref(), &place.name, resource, write, Clock.wall());
        let put = async |api: Api<_>| api.replace(&place.name, &PostParams::default(), &object).await;
        match self.leases.call(put).await? {
            Ok(object) => {
                let applied = snapshot(&object)?;
                self.latest.replace(Some(object));
                Ok(LeaseEvent::Applied(applied))
            }
            Err(error) => {
                let LostRace = place.write_refused(error, write.over.is_none())?;
                Ok(LeaseEvent::Conflict)
            }
        }
    }

    /// The object of this version, with whatever others keep in it: `None` where the server holds another by now. It is
    /// asked where we do not have it at hand, since a watch has brought something else meanwhile.
    async fn object_at(&self, version: &Version) -> Result<Option<DynamicObject>, CallError> {
        let at_hand = || self.latest.borrow().clone().filter(|object| is_at(object, version));
        match at_hand() {
            Some(object) => Ok(Some(object)),
            None => self.read().await.map(|_| at_hand()),
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

impl Leases {
    /// Makes a call by the credentials of this moment, and once more with others where it is answered 401.
    async fn call<T>(
        &self,
        call: impl AsyncFn(Api<DynamicObject>) -> kube::Result<T>,
    ) -> Result<kube::Result<T>, CallError> {
        match call(self.api().await).await {
            Err(kube::Error::Api(status)) if status.code == 401 => {
                self.connections.renew().await.map_err(CallError::Credentials)?;
                Ok(call(self.api().await).await)
            }
            answer => Ok(answer),
        }
    }

    async fn api(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.connections.client().await, &self.place.namespace, &self.resource)
    }
}

impl Store<Lease> for LeaseStore {
    async fn perform(&self, request: LeaseRequest) -> Result<LeaseEvent, StoreError> {
        Ok(self.ask(&request).await?)
    }

    async fn next_event(&self) -> LeaseEvent {
        match self.watch.next(&self.leases).await {
            News::Seen(seen, object) => {
                self.keep(&seen, *object);
                LeaseEvent::Noticed(Some(seen))
            }
            News::Suspected => LeaseEvent::Noticed(None),
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

fn is_at(object: &DynamicObject, version: &Version) -> bool {
    snapshot(object).is_ok_and(|seen| seen.version == *version)
}
