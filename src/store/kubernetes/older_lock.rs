//! The locks of older leader-elector sidecars: an annotation of `Endpoints` or a `ConfigMap`.
//!
//! Touches the API server, and only reads. Start with [`LeaseStore::older_lock`]. The annotation and
//! its JSON are those of client-go's `resourcelock` before Leases.

use crate::kubernetes::answer::read_body;
use crate::store::StoreError;
use crate::store::kubernetes::LeaseStore;
use crate::store::kubernetes::lease_object::MAX_OBJECT_BYTES;
use crate::store::kubernetes::refusal::{Absent, LeaseError, LeaseRef};
use k8s_openapi::api::core::v1::{ConfigMap, Endpoints};
use kube::Resource as _;
use kube::api::GetParams;
use kube::core::Request as Requests;
use serde_json::Value;
use std::fmt;
use std::time::Duration;

/// The annotation that holds the lock.
const ANNOTATION: &str = "control-plane.alpha.kubernetes.io/leader";

/// A kind of object that older sidecars keep their lock in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// `Endpoints`, as leader-elector 0.5.
    Endpoints,
    /// `ConfigMap`, as some of its forks.
    ConfigMap,
}

impl LockKind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Endpoints, Self::ConfigMap];

    /// The name of the resource, as in a Role.
    pub const fn resource(self) -> &'static str {
        match self {
            Self::Endpoints => "endpoints",
            Self::ConfigMap => "configmaps",
        }
    }

    fn path(self, namespace: &str) -> String {
        match self {
            Self::Endpoints => Endpoints::url_path(&(), Some(namespace)),
            Self::ConfigMap => ConfigMap::url_path(&(), Some(namespace)),
        }
    }
}

/// The lock of an older sidecar, whose holder may be dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OlderLock {
    kind: LockKind,
    object: String,
    /// The holder's name; "no holder" or "an unknown holder" if there is none to show.
    pub holder: String,
    /// How long the holder keeps a lock that does not change; `None` if the annotation does not say.
    pub lease_duration: Option<Duration>,
    /// The whole annotation. It changes with each renewal.
    annotation: String,
}

impl OlderLock {
    /// The lock in an annotation, in whatever format. A released lock may be acquired by a follower.
    fn parse(kind: LockKind, object: String, annotation: &str) -> Self {
        let record: Value = serde_json::from_str(annotation).unwrap_or_default();
        let holder = record["holderIdentity"].as_str().unwrap_or("an unknown holder");
        let holder = if holder.is_empty() { "no holder" } else { holder }.to_owned();
        let lease_duration = record["leaseDurationSeconds"].as_u64().map(Duration::from_secs);
        Self { kind, object, holder, lease_duration, annotation: annotation.to_owned() }
    }
}

impl fmt::Display for OlderLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.resource(), self.object)
    }
}

impl LeaseStore {
    /// Reads the lock of this kind with the name and namespace of the election.
    pub async fn older_lock(&self, kind: LockKind) -> Result<Option<OlderLock>, StoreError> {
        let LeaseRef { namespace, name, .. } = &self.api.lease;
        let get = Requests::new(kind.path(namespace)).get(name, &GetParams::default());
        let response = match self.api.server.call(get).await.map_err(LeaseError::from)? {
            Ok(response) => response,
            Err(error) => {
                let Absent = self.api.lease.older_lock_refused(kind.resource(), error)?;
                return Ok(None);
            }
        };
        let body = read_body(response, MAX_OBJECT_BYTES).await.map_err(LeaseError::from)?;
        let object: Value = serde_json::from_slice(&body).map_err(LeaseError::NotJson)?;
        let annotation = object["metadata"]["annotations"][ANNOTATION].as_str();
        let object = format!("{namespace}/{name}");
        Ok(annotation.map(|annotation| OlderLock::parse(kind, object, annotation)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(annotation: &str) -> OlderLock {
        OlderLock::parse(LockKind::Endpoints, "shop/orders".to_owned(), annotation)
    }

    #[test]
    fn holder_and_duration_are_shown_if_they_are_known() {
        let held = parse(r#"{"holderIdentity":"shop-1","leaseDurationSeconds":10}"#);
        assert_eq!(held.holder, "shop-1");
        assert_eq!(held.lease_duration, Some(Duration::from_secs(10)));
        assert_eq!(held.to_string(), "endpoints shop/orders");
        assert_eq!(parse(r#"{"holderIdentity":"","leaseDurationSeconds":1}"#).holder, "no holder");
        for damaged in ["", "[]", "{}", r#"{"holderIdentity":7}"#] {
            let lock = parse(damaged);
            assert_eq!((lock.holder.as_str(), lock.lease_duration), ("an unknown holder", None));
        }
    }
}
