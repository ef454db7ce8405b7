//! Sends an Event about the election's Lease.
//!
//! Touches the API server. It decides nothing. Start with [`EventApi::record`]. The Lease's uid, which
//! an Event names, is read at the beginning of a term.

use crate::config::ElectionName;
use crate::kubernetes::answer::{BodyError, read_body};
use crate::kubernetes::api_server::{ApiServer, CallError};
use crate::kubernetes::lease_event::{EventSubject, InvalidSubject, LeaseChange};
use crate::kubernetes::rbac::{RbacManifest, Rights};
use baton_election::identity::Identity;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Event;
use kube::Resource as _;
use kube::api::{GetParams, PostParams};
use kube::core::{Request as Requests, Status};
use std::time::SystemTime;

/// The largest Lease that is read, in bytes. Ours have less than one thousand.
const MAX_LEASE_BYTES: usize = 64 * 1024;

/// The API of one Lease's Events.
pub(super) struct EventApi {
    server: ApiServer,
    namespace: String,
    pub(super) election: ElectionName,
    /// The rights that the account needs, for the remedy of a refusal.
    rights: Rights,
    subject: Option<EventSubject>,
}

/// Why an Event was not recorded.
#[derive(Debug, thiserror::Error)]
pub(super) enum EventError {
    #[error("the API server answered {code}: {message}")]
    Status { code: u16, message: String },
    #[error("the API server refused the request (403): {message}; to allow it, apply:\n{manifest}")]
    NoRights { message: String, manifest: Box<RbacManifest> },
    #[error("the API server's response is not the Lease")]
    Invalid(#[from] InvalidSubject),
    #[error("the Lease exceeds {} KiB: remove what fills it", MAX_LEASE_BYTES / 1024)]
    TooLarge,
    #[error("cannot reach the API server")]
    Transport(#[source] kube::Error),
    #[error(transparent)]
    NotCalled(#[from] CallError),
    #[error("the API server did not answer in time: check whether it is up and responsive")]
    TimedOut,
}

impl EventApi {
    pub(super) const fn new(
        server: ApiServer,
        namespace: String,
        election: ElectionName,
        rights: Rights,
    ) -> Self {
        Self { server, namespace, election, rights, subject: None }
    }

    /// Records that `change` happened to `identity` at the time `wall`.
    pub(super) async fn record(
        &mut self,
        change: LeaseChange,
        identity: &Identity,
        wall: SystemTime,
    ) -> Result<(), EventError> {
        let subject = match (change, self.subject.take()) {
            (LeaseChange::Stopped, Some(subject)) => subject,
            (LeaseChange::Became, _) | (LeaseChange::Stopped, None) => self.subject().await?,
        };
        let requests = Requests::new(Event::url_path(&(), Some(&self.namespace)));
        let event = subject.event(change, identity, wall);
        self.subject = Some(subject);
        match self.server.call(requests.create(&PostParams::default(), event)).await? {
            // Dropping the answer closes the connection, which is not needed again soon.
            Ok(_created) => Ok(()),
            Err(kube::Error::Api(status)) => Err(self.refused(*status)),
            Err(error) => Err(EventError::Transport(error)),
        }
    }

    /// The Lease as it is now.
    async fn subject(&self) -> Result<EventSubject, EventError> {
        let requests = Requests::new(Lease::url_path(&(), Some(&self.namespace)));
        let election = self.election.as_str();
        match self.server.call(requests.get(election, &GetParams::default())).await? {
            Ok(response) => {
                let body = read_body(response, MAX_LEASE_BYTES).await?;
                Ok(EventSubject::parse(&body, &self.namespace, election)?)
            }
            Err(kube::Error::Api(status)) => Err(self.refused(*status)),
            Err(error) => Err(EventError::Transport(error)),
        }
    }

    /// Interprets an error of the API server.
    fn refused(&self, status: Status) -> EventError {
        let Status { code, message, .. } = status;
        let Self { election, namespace, rights, .. } = self;
        let manifest = (code == 403)
            .then(|| RbacManifest::for_refusal(election.as_str(), namespace, rights, &message))
            .flatten();
        match manifest {
            Some(manifest) => EventError::NoRights { message, manifest: Box::new(manifest) },
            None => EventError::Status { code, message },
        }
    }
}

impl From<BodyError> for EventError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge => Self::TooLarge,
            BodyError::Broken(error) => Self::Transport(error),
        }
    }
}
