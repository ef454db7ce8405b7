//! What an API server's refusals mean: a lost race, a Lease that is not there, a mistake of ours, or nothing at all.
//!
//! Pure. Only what the API server itself says, in its own words, is believed to be about our Lease: a load balancer has
//! a page for 404 too, which says nothing about the outcome.

use crate::kubernetes::connection::ConnectError;
use crate::kubernetes::rbac::Role;
use crate::store::StoreError;
use crate::store::kubernetes::bodies::LARGEST;
use crate::store::kubernetes::lease_object::NoLease;
use kube::core::Status;
use kube::core::response::reason;
use std::fmt;

/// Which Lease: `sales/orders`.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// Why a call has an unknown outcome.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    #[error("the API server answers {code}: {message}")]
    Status { code: u16, message: String },
    #[error(
        "the API server knows us no more, or never did (401): {0}: see whether token or certificate have expired, and \
         whether the account is still there"
    )]
    Unauthorized(String),
    #[error("the API server refuses (403): {0}")]
    Forbidden(String),
    #[error("the API server refuses (403): {message}; this lets it through:\n{role}")]
    NoRights { message: String, role: Role },
    #[error("namespace {0:?} is not there: create it, or pass --namespace")]
    NoNamespace(String),
    #[error("the API server calls our Lease invalid: {0}")]
    Invalid(String),
    #[error("the API server's answer is not a Lease")]
    NoLease(#[from] NoLease),
    #[error(
        "the API server's answer is larger than {} KiB, so it is not read: delete the Lease, or remove the labels and \
         annotations that fill it, and see whose they are",
        LARGEST / 1024
    )]
    TooLarge,
    #[error("the API server cannot be reached")]
    Transport(#[source] kube::Error),
    #[error("the API server does not take our credentials (401), and there are no others")]
    Credentials(#[source] ConnectError),
    #[error("the API server was not asked, since there are no credentials yet")]
    NoCredentials(#[source] ConnectError),
}

/// There is no Lease.
pub(super) struct Absent;

/// The write was not applied, because the Lease is another by now.
pub(super) struct LostRace;

impl Place {
    /// What the refusal of a read means.
    pub(super) fn read_refused(&self, error: kube::Error) -> Result<Absent, CallError> {
        let status = answered(error)?;
        if is_missing(&status, "leases", &self.name) {
            Ok(Absent)
        } else {
            Err(self.failure(status))
        }
    }

    /// What the refusal of a write means; `creates` where there was to be no Lease before it.
    pub(super) fn write_refused(
        &self,
        error: kube::Error,
        creates: bool,
    ) -> Result<LostRace, CallError> {
        let status = answered(error)?;
        if is_lost_race(&status, creates) { Ok(LostRace) } else { Err(self.failure(status)) }
    }

    /// What the refusal of a watch means.
    pub(super) fn watch_refused(&self, error: kube::Error) -> CallError {
        answered(error).map_or_else(|error| error, |status| self.failure(status))
    }

    fn failure(&self, status: Status) -> CallError {
        if is_missing(&status, "namespaces", &self.namespace) {
            return CallError::NoNamespace(self.namespace.clone());
        }
        let Status { code, message, reason, .. } = status;
        match code {
            401 => CallError::Unauthorized(message),
            403 => match Role::of_refusal(&self.name, &self.namespace, &message) {
                Some(role) => CallError::NoRights { message, role },
                None => CallError::Forbidden(message),
            },
            422 if reason == reason::INVALID => CallError::Invalid(message),
            _ => CallError::Status { code, message },
        }
    }
}

/// What was answered, where there was an answer.
fn answered(error: kube::Error) -> Result<Status, CallError> {
    if let kube::Error::Api(status) = error {
        return Ok(*status);
    }
    Err(CallError::Transport(error))
}

/// Whether this very object is not there.
fn is_missing(status: &Status, kind: &str, name: &str) -> bool {
    let is_named =
        status.details.as_ref().is_some_and(|details| details.kind == kind && details.name == name);
    status.code == 404 && status.reason == reason::NOT_FOUND && is_named
}

fn is_lost_race(status: &Status, creates: bool) -> bool {
    match status.code {
        409 => status.reason == reason::CONFLICT || status.reason == reason::ALREADY_EXISTS,
        // Of two creating PUTs the server retries the loser against what the winner made.
        422 => {
            creates
                && status.reason == reason::INVALID
                && status.message.contains("metadata.resourceVersion")
        }
        _ => false,
    }
}

impl From<CallError> for StoreError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Unauthorized(_)
            | CallError::Forbidden(_)
            | CallError::NoRights { .. }
            | CallError::NoNamespace(_)
            | CallError::Invalid(_)
            | CallError::Credentials(_) => Self::Refused(Box::new(error)),
            CallError::TooLarge | CallError::NoLease(_) => Self::Unusable(Box::new(error)),
            CallError::Status { .. } | CallError::Transport(_) | CallError::NoCredentials(_) => {
                Self::Unreachable(Box::new(error))
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease {}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn place() -> Place {
        Place { namespace: "sales".to_owned(), name: "orders".to_owned() }
    }

    /// A refusal in the API server's own words, about an object.
    fn status(code: u16, reason: &str, kind: &str, name: &str) -> Status {
        let status =
            json!({ "code": code, "reason": reason, "details": { "kind": kind, "name": name } });
        serde_json::from_value(status).unwrap()
    }

    /// A refusal in anybody else's.
    fn page(code: u16) -> Status {
        Status { code, message: "<html>…</html>".to_owned(), ..Status::default() }
    }

    fn api(status: &Status) -> kube::Error {
        kube::Error::Api(Box::new(status.clone()))
    }

    fn is_absent(status: &Status) -> bool {
        place().read_refused(api(status)).is_ok()
    }

    fn is_lost(status: &Status, creates: bool) -> bool {
        place().write_refused(api(status), creates).is_ok()
    }

    /// Whether the outcome is unknown, and nobody refuses us.
    fn is_unknown(status: &Status) -> bool {
        let unreachable = |error: CallError| matches!(error.into(), StoreError::Unreachable(_));
        let read = place().read_refused(api(status)).is_err_and(unreachable);
        read && [true, false]
            .iter()
            .all(|&creates| place().write_refused(api(status), creates).is_err_and(unreachable))
    }

    #[test]
    fn a_lease_is_gone_when_the_api_server_says_so_of_this_one() {
        assert!(is_absent(&status(404, "NotFound", "leases", "orders")));
        for other in [
            page(404),
            status(404, "NotFound", "leases", "bills"),
            status(404, "NotFound", "namespaces", "sales"),
            status(404, "", "leases", "orders"),
            status(410, "Gone", "leases", "orders"),
        ] {
            assert!(!is_absent(&other), "{other:?}");
        }
    }

    #[test]
    fn a_race_is_lost_when_the_api_server_says_so() {
        assert!(is_lost(&status(409, "Conflict", "leases", "orders"), false));
        assert!(is_lost(&status(409, "AlreadyExists", "leases", "orders"), true));
        let unconditional = Status {
            message: r#"Lease "orders" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified"#
                .to_owned(),
            ..status(422, "Invalid", "Lease", "orders")
        };
        assert!(is_lost(&unconditional, true));
        assert!(!is_lost(&unconditional, false), "this one is our own mistake");
        for other in [page(409), page(422), page(404), status(422, "Invalid", "Lease", "orders")] {
            assert!(!is_lost(&other, true), "{other:?}");
        }
    }

    #[test]
    fn whatever_another_says_in_the_api_servers_stead_is_an_unknown_outcome() {
        for code in [400, 404, 405, 408, 409, 410, 413, 422, 429, 500, 501, 502, 503, 504] {
            assert!(is_unknown(&page(code)), "{code}");
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
    fn answer_that_is_no_lease_is_unusable() {
        let answer = CallError::from(NoLease::Missing("uid"));
        assert!(matches!(answer.into(), StoreError::Unusable(_)));
    }

    #[test]
    fn whoever_refuses_us_does_so_by_the_code_alone() {
        let failure = |status: &Status| place().watch_refused(api(status));
        assert!(matches!(failure(&page(401)), CallError::Unauthorized(_)));
        assert!(matches!(failure(&page(403)), CallError::Forbidden(_)));
        let message = r#"leases "orders" is forbidden: User "jane" cannot watch resource "leases""#
            .to_owned();
        let rights = Status { message, ..status(403, "Forbidden", "leases", "orders") };
        assert!(matches!(failure(&rights), CallError::NoRights { .. }));
        assert!(matches!(
            failure(&status(404, "NotFound", "namespaces", "sales")),
            CallError::NoNamespace(_)
        ));
        assert!(matches!(
            failure(&status(422, "Invalid", "Lease", "orders")),
            CallError::Invalid(_)
        ));
        for status in [page(401), page(403), rights, status(404, "NotFound", "namespaces", "sales")]
        {
            assert!(matches!(failure(&status).into(), StoreError::Refused(_)), "{status:?}");
        }
    }
}
