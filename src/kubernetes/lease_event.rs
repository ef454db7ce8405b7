//! An Event about a Lease, as JSON.
//!
//! Pure. Start with [`LeaseChange`]. The Event says what the recorder of client-go's leader election
//! says: the reason `LeaderElection`, and the message `IDENTITY became leader` or `IDENTITY stopped
//! leading`. `kubectl describe lease` shows Events by the Lease's uid.

use baton_election::identity::Identity;
use serde_json::{Value, json};
use std::time::SystemTime;

/// A change of leadership that an Event tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseChange {
    /// The candidate acquired leadership.
    Became,
    /// The candidate stopped promising leadership, or lost it.
    Stopped,
}

impl LeaseChange {
    const fn words(self) -> &'static str {
        match self {
            Self::Became => "became leader",
            Self::Stopped => "stopped leading",
        }
    }
}

/// The Lease that an Event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventSubject {
    pub(crate) namespace: String,
    pub(crate) name: String,
    uid: String,
    version: String,
}

/// Why a response is not the expected Lease.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InvalidSubject {
    #[error("it is not a JSON object")]
    Json(#[source] serde_json::Error),
    #[error("it has no metadata.uid")]
    NoUid,
}

impl EventSubject {
    /// The Lease in a response of the API server.
    pub(crate) fn parse(bytes: &[u8], namespace: &str, name: &str) -> Result<Self, InvalidSubject> {
        let lease: Value = serde_json::from_slice(bytes).map_err(InvalidSubject::Json)?;
        let text = |field: &str| lease["metadata"][field].as_str().map(str::to_owned);
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: text("uid").ok_or(InvalidSubject::NoUid)?,
            version: text("resourceVersion").unwrap_or_default(),
        })
    }

    /// The Event that `change` happened to `identity` at the time `wall`. The API server completes its
    /// name.
    pub(crate) fn event(
        &self,
        change: LeaseChange,
        identity: &Identity,
        wall: SystemTime,
    ) -> Vec<u8> {
        let Self { namespace, name, uid, version } = self;
        let at = humantime::format_rfc3339_seconds(wall).to_string();
        let event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": format!("{name}."), "namespace": namespace},
            "involvedObject": {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "namespace": namespace,
                "name": name,
                "uid": uid,
                "resourceVersion": version,
            },
            "type": "Normal",
            "reason": "LeaderElection",
            "message": format!("{identity} {}", change.words(), identity = identity.as_str()),
            "source": {"component": "baton"},
            "reportingComponent": "baton",
            "reportingInstance": "",
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        });
        event.to_string().into_bytes()
    }
}
