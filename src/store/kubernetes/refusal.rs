//! Interprets errors of the API server: a lost race, a missing Lease, or a failure.
//!
//! Pure. Start with [`LeaseRef`]. A 404, 409, or 422 has a meaning only if its body is the API
//! server's own. The error page of a proxy leaves the outcome unknown.

use crate::kubernetes::answer::{BodyError, is_conflict, is_missing};
use crate::kubernetes::api_server::CallError;
use crate::kubernetes::rbac::{RbacManifest, Rights};
use crate::store::StoreError;
use crate::store::kubernetes::lease_object::{InvalidLease, MAX_OBJECT_BYTES};
use kube::core::Status;
use kube::core::response::reason;
use std::fmt;

/// The Lease's namespace and name; displays as `Lease sales/orders`.
#[derive(Debug, Clone)]
pub(super) struct LeaseRef {
    pub(super) namespace: String,
    pub(super) name: String,
    /// The rights that the account needs, for the remedy of a refusal.
    pub(super) rights: Rights,
}

/// Why the Lease could not be read, written, or watched.
#[derive(Debug, thiserror::Error)]
pub(super) enum LeaseError {
    #[error("the API server answered {code}: {message}")]
    Status { code: u16, message: String },
    #[error(
        "the API server rejected our credentials (401): {0}: check whether the token or \
         certificate has expired, and whether the account exists"
    )]
    Unauthorized(String),
    #[error("the API server refused the request (403): {0}")]
    Forbidden(String),
    #[error("the API server refused the request (403): {message}; to allow it, apply:\n{manifest}")]
    NoRights { message: String, manifest: Box<RbacManifest> },
    #[error("namespace {0:?} does not exist: create it, or pass --namespace")]
    NoNamespace(String),
    #[error("the API server rejected our Lease as invalid: {0}")]
    Invalid(String),
    #[error("the API server's response is not the Lease")]
    InvalidLease(#[from] InvalidLease),
    #[error("the API server's response is not JSON")]
    NotJson(#[source] serde_json::Error),
    #[error(
        "the API server's response exceeds {} KiB: delete the Lease, or find and remove the labels \
         and annotations that fill it",
        MAX_OBJECT_BYTES / 1024
    )]
    TooLarge,
    #[error("cannot reach the API server")]
    Transport(#[source] kube::Error),
    #[error(transparent)]
    NotCalled(#[from] CallError),
}

/// The Lease does not exist.
pub(super) struct Absent;

/// The write was not applied, because the Lease has changed.
pub(super) struct LostRace;

impl LeaseRef {
    /// Interprets the error of a read.
    pub(super) fn read_refused(&self, error: kube::Error) -> Result<Absent, LeaseError> {
        let status = status_of(error)?;
        if is_missing(&status, "leases", &self.name) {
            Ok(Absent)
        } else {
            Err(self.failure(status))
        }
    }

    /// Interprets the error of a write, which `creates` the Lease or replaces it.
    pub(super) fn write_refused(
        &self,
        error: kube::Error,
        creates: bool,
    ) -> Result<LostRace, LeaseError> {
        let status = status_of(error)?;
        if is_lost_race(&status, creates) { Ok(LostRace) } else { Err(self.failure(status)) }
    }

    /// Interprets the error of a read of an older sidecar's lock with the Lease's name. `baton rbac`
    /// does not print this right, so the error must not name it as the remedy.
    pub(super) fn older_lock_refused(
        &self,
        resource: &str,
        error: kube::Error,
    ) -> Result<Absent, LeaseError> {
        let status = status_of(error)?;
        if is_missing(&status, resource, &self.name) {
            return Ok(Absent);
        }
        let failure = self.failure(status);
        let LeaseError::NoRights { message, .. } = failure else { return Err(failure) };
        Err(LeaseError::Forbidden(message))
    }

    /// Interprets the error of a watch.
    pub(super) fn watch_refused(&self, error: kube::Error) -> LeaseError {
        status_of(error).map_or_else(|error| error, |status| self.failure(status))
    }

    fn failure(&self, status: Status) -> LeaseError {
        if is_missing(&status, "namespaces", &self.namespace) {
            return LeaseError::NoNamespace(self.namespace.clone());
        }
        let Status { code, message, reason, .. } = status;
        match code {
            401 => LeaseError::Unauthorized(message),
            403 => {
                let Self { namespace, name, rights } = self;
                match RbacManifest::for_refusal(name, namespace, rights, &message) {
                    Some(manifest) => {
                        LeaseError::NoRights { message, manifest: Box::new(manifest) }
                    }
                    None => LeaseError::Forbidden(message),
                }
            }
            422 if reason == reason::INVALID => LeaseError::Invalid(message),
            _ => LeaseError::Status { code, message },
        }
    }
}

/// The status in the API server's response, if there was one.
fn status_of(error: kube::Error) -> Result<Status, LeaseError> {
    if let kube::Error::Api(status) = error {
        return Ok(*status);
    }
    Err(LeaseError::Transport(error))
}

fn is_lost_race(status: &Status, creates: bool) -> bool {
    match status.code {
        409 => is_conflict(status),
        // Of two creating PUTs, the server retries the second against the first one's object.
        422 => {
            creates
                && status.reason == reason::INVALID
                && status.message.contains("metadata.resourceVersion")
        }
        _ => false,
    }
}

impl From<BodyError> for LeaseError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge => Self::TooLarge,
            BodyError::Broken(error) => Self::Transport(error),
        }
    }
}

impl From<LeaseError> for StoreError {
    fn from(error: LeaseError) -> Self {
        match error {
            LeaseError::Unauthorized(_)
            | LeaseError::Forbidden(_)
            | LeaseError::NoRights { .. }
            | LeaseError::NoNamespace(_)
            | LeaseError::Invalid(_)
            | LeaseError::NotCalled(CallError::Rejected(_)) => Self::Refused(Box::new(error)),
            LeaseError::TooLarge | LeaseError::InvalidLease(_) | LeaseError::NotJson(_) => {
                Self::Unusable(Box::new(error))
            }
            LeaseError::Status { .. }
            | LeaseError::Transport(_)
            | LeaseError::NotCalled(CallError::Request(_) | CallError::NoCredentials(_)) => {
                Self::Unreachable(Box::new(error))
            }
        }
    }
}

impl fmt::Display for LeaseRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease {}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lease() -> LeaseRef {
        let rights = Rights::LEASE;
        LeaseRef { namespace: "sales".to_owned(), name: "orders".to_owned(), rights }
    }

    /// An error of the API server about an object.
    fn status(code: u16, reason: &str, kind: &str, name: &str) -> Status {
        let status =
            json!({ "code": code, "reason": reason, "details": { "kind": kind, "name": name } });
        serde_json::from_value(status).unwrap()
    }

    /// An error page of a proxy.
    fn proxy_page(code: u16) -> Status {
        Status { code, message: "<html>…</html>".to_owned(), ..Status::default() }
    }

    fn api(status: &Status) -> kube::Error {
        kube::Error::Api(Box::new(status.clone()))
    }

    fn is_absent(status: &Status) -> bool {
        lease().read_refused(api(status)).is_ok()
    }

    fn is_lost(status: &Status, creates: bool) -> bool {
        lease().write_refused(api(status), creates).is_ok()
    }

    /// Whether the outcome is unknown and not a refusal.
    fn is_unknown(status: &Status) -> bool {
        let unreachable = |error: LeaseError| matches!(error.into(), StoreError::Unreachable(_));
        let read = lease().read_refused(api(status)).is_err_and(unreachable);
        read && [true, false]
            .iter()
            .all(|&creates| lease().write_refused(api(status), creates).is_err_and(unreachable))
    }

    #[test]
    fn lease_is_absent_only_if_api_server_names_it() {
        assert!(is_absent(&status(404, "NotFound", "leases", "orders")));
        for other in [
            proxy_page(404),
            status(404, "NotFound", "leases", "bills"),
            status(404, "NotFound", "namespaces", "sales"),
            status(404, "", "leases", "orders"),
            status(410, "Gone", "leases", "orders"),
        ] {
            assert!(!is_absent(&other), "{other:?}");
        }
    }

    #[test]
    fn race_is_lost_only_if_api_server_says_so() {
        assert!(is_lost(&status(409, "Conflict", "leases", "orders"), false));
        assert!(is_lost(&status(409, "AlreadyExists", "leases", "orders"), true));
        let unconditional = Status {
            message:
                "Lease \"orders\" is invalid: metadata.resourceVersion: Invalid value: 0: must be \
                      specified"
                    .to_owned(),
            ..status(422, "Invalid", "Lease", "orders")
        };
        assert!(is_lost(&unconditional, true));
        assert!(!is_lost(&unconditional, false), "only a creating write can lose this way");
        for other in [
            proxy_page(409),
            proxy_page(422),
            proxy_page(404),
            status(422, "Invalid", "Lease", "orders"),
        ] {
            assert!(!is_lost(&other, true), "{other:?}");
        }
    }

    #[test]
    fn unknown_response_leaves_the_outcome_unknown() {
        for code in [400, 404, 405, 408, 409, 410, 413, 422, 429, 500, 501, 502, 503, 504] {
            assert!(is_unknown(&proxy_page(code)), "{code}");
        }
        for (code, reason) in [
            (429, "TooManyRequests"),
            (500, "InternalError"),
            (503, "ServiceUnavailable"),
            (504, "Timeout"),
        ] {
            assert!(is_unknown(&status(code, reason, "leases", "orders")), "{code}");
        }
    }

    #[test]
    fn invalid_lease_is_unusable() {
        let error = LeaseError::from(InvalidLease::Missing("uid"));
        assert!(matches!(error.into(), StoreError::Unusable(_)));
    }

    #[test]
    fn each_refusal_has_its_own_error() {
        let failure = |status: &Status| lease().watch_refused(api(status));
        assert!(matches!(failure(&proxy_page(401)), LeaseError::Unauthorized(_)));
        assert!(matches!(failure(&proxy_page(403)), LeaseError::Forbidden(_)));
        let message = r#"leases "orders" is forbidden: User "jane" cannot watch resource "leases""#
            .to_owned();
        let rights = Status { message, ..status(403, "Forbidden", "leases", "orders") };
        assert!(matches!(failure(&rights), LeaseError::NoRights { .. }));
        assert!(matches!(
            failure(&status(404, "NotFound", "namespaces", "sales")),
            LeaseError::NoNamespace(_)
        ));
        assert!(matches!(
            failure(&status(422, "Invalid", "Lease", "orders")),
            LeaseError::Invalid(_)
        ));
        for status in [
            proxy_page(401),
            proxy_page(403),
            rights,
            status(404, "NotFound", "namespaces", "sales"),
        ] {
            assert!(matches!(failure(&status).into(), StoreError::Refused(_)), "{status:?}");
        }
    }
}
