//! Errors of the ZooKeeper store, with the flags and settings that remedy them.
//!
//! Pure. Start with [`RefusedCall`] and [`ConnectFailed`]. The client's errors name no flags.

use std::collections::BTreeSet;
use zookeeper_client::client::CallError;
use zookeeper_client::dial::{ConnectError, DialError};
use zookeeper_client::wire::Code;

/// A call that failed.
pub(super) struct FailedCall {
    pub(super) action: &'static str,
    pub(super) path: String,
    pub(super) error: CallError,
}

/// The servers refused a call.
#[derive(Debug, thiserror::Error)]
#[error("the ZooKeeper servers refused to {action} {path}: {code}; {remedy}")]
pub(super) struct RefusedCall {
    action: &'static str,
    path: String,
    code: Code,
    remedy: &'static str,
}

impl RefusedCall {
    pub(super) const fn new(
        action: &'static str,
        path: String,
        code: Code,
        has_chroot: bool,
    ) -> Self {
        Self { action, path, code, remedy: remedy(code, has_chroot) }
    }
}

const fn remedy(code: Code, has_chroot: bool) -> &'static str {
    match code {
        Code::NoNode if has_chroot => {
            "the chroot after the servers' ports must exist: create it, or remove it from \
             --zookeeper-servers"
        }
        Code::NoAuth => {
            "candidates need the rights to read, create, and delete there: pass their \
             credentials with --zookeeper-auth-file"
        }
        Code::AuthRequired | Code::AuthFailed | Code::InvalidAccess => {
            "pass credentials that the servers know with --zookeeper-auth-file"
        }
        Code::EphemeralOnLocalSession => {
            "set localSessionsUpgradingEnabled=true on the servers, or turn local sessions off"
        }
        Code::QuotaExceeded => "raise the quota on the path, or delete what uses it up",
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
    }
}

/// No server granted a session. `Display` also names the flags that the failures depend on.
#[derive(Debug, thiserror::Error)]
#[error("{error}{flags}")]
pub(super) struct ConnectFailed {
    error: ConnectError,
    flags: String,
}

impl ConnectFailed {
    pub(super) fn new(error: ConnectError) -> Self {
        Self { flags: related_flags(&error), error }
    }
}

fn related_flags(error: &ConnectError) -> String {
    let flags = error.failures().iter().filter_map(|failure| match failure {
        DialError::Tls(..) => Some("--zookeeper-ca-file names the trusted authorities"),
        DialError::NotGranted(..) => {
            Some("--zookeeper-ca-file turns TLS on, --zookeeper-cert-file presents a certificate")
        }
        DialError::Refused { .. } => Some("--zookeeper-auth-file names the credentials"),
        DialError::Resolve(..)
        | DialError::Connect(..)
        | DialError::Timeout(..)
        | DialError::Protocol(..) => None,
    });
    let flags: BTreeSet<&str> = flags.collect();
    flags.into_iter().flat_map(|flag| ["; ", flag]).collect()
}
