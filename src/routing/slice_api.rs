//! Reads and writes one EndpointSlice.
//!
//! Touches the API server. It performs the calls of [`plan`](super::plan) and decides nothing. Start
//! with [`SliceApi::perform`]. An EndpointSlice cannot be created by PUT as a Lease can.

use super::plan::{Call, Reply};
use crate::kubernetes::answer::{BodyError, is_conflict, is_missing, read_body};
use crate::kubernetes::api_server::{ApiServer, CallError};
use crate::kubernetes::endpoint_slice::{InvalidSlice, SliceObject, SliceRef, new_slice};
use crate::kubernetes::rbac::{RbacManifest, Rights};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Resource as _;
use kube::api::{GetParams, PostParams};
use kube::core::{Request as Requests, Status};
use std::rc::Rc;

/// The largest slice that is read, in bytes. Ours have less than one thousand.
const MAX_SLICE_BYTES: usize = 64 * 1024;

/// The API of one slice.
pub(super) struct SliceApi {
    pub(super) server: Rc<ApiServer>,
    pub(super) namespace: String,
    pub(super) slice: SliceRef,
    /// The election and what it needs rights to, for the remedy of a refusal.
    pub(super) election: String,
    pub(super) rights: Rights,
    /// Whether writes are only checked: `dryRun` of the Kubernetes API.
    pub(super) is_rehearsal: bool,
}

/// Why the outcome of a call is unknown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SliceError {
    #[error("the API server answered {code}: {message}")]
    Status { code: u16, message: String },
    #[error("the API server refused the request (403): {message}; to allow it, apply:\n{manifest}")]
    NoRights { message: String, manifest: Box<RbacManifest> },
    #[error(
        "the slice does not exist, and the API server refused its creation (403): {0}; create it \
         with the Service, or allow this account to create endpointslices"
    )]
    MayNotCreate(String),
    #[error("the API server's response is not the slice")]
    Invalid(#[from] InvalidSlice),
    #[error(
        "the slice exceeds {} KiB: delete it, or remove the endpoints, labels, and annotations that \
         fill it",
        MAX_SLICE_BYTES / 1024
    )]
    TooLarge,
    #[error("cannot reach the API server")]
    Transport(#[source] kube::Error),
    #[error(transparent)]
    NotCalled(#[from] CallError),
    #[error("the API server did not answer in time: check whether it is up and responsive")]
    TimedOut,
}

impl SliceError {
    /// Whether the API server answered that it did not carry out the call.
    pub(super) const fn is_refusal(&self) -> bool {
        match self {
            // A proxy answers 408 also for a request that it has passed on.
            Self::Status { code, .. } => matches!(*code, 400..=407 | 409..500),
            Self::NoRights { .. } | Self::MayNotCreate(_) | Self::NotCalled(_) => true,
            Self::Invalid(_) | Self::TooLarge | Self::Transport(_) | Self::TimedOut => false,
        }
    }
}

impl SliceApi {
    /// Performs `call`. An error leaves its outcome unknown.
    pub(super) async fn perform(&self, call: &Call) -> Result<Reply, SliceError> {
        let requests = Requests::new(EndpointSlice::url_path(&(), Some(&self.namespace)));
        let name = self.slice.name();
        let parameters =
            PostParams { dry_run: self.is_rehearsal, field_manager: Some("baton".to_owned()) };
        let request = match call {
            Call::Read => requests.get(&name, &GetParams::default()),
            Call::Create(content) => requests.create(&parameters, new_slice(&self.slice, content)),
            Call::Replace(over, content) => {
                requests.replace(&name, &parameters, over.with(content))
            }
        };
        match self.server.call(request).await? {
            Ok(response) => {
                let body = read_body(response, MAX_SLICE_BYTES).await?;
                let slice = Box::new(SliceObject::parse(&body, &name)?);
                Ok(match call {
                    Call::Read => Reply::Found(slice),
                    Call::Create(_) | Call::Replace(..) => Reply::Applied(slice),
                })
            }
            Err(kube::Error::Api(status)) => self.refused(call, *status),
            Err(error) => Err(SliceError::Transport(error)),
        }
    }

    /// Interprets an error of the API server.
    fn refused(&self, call: &Call, status: Status) -> Result<Reply, SliceError> {
        let is_absent = is_missing(&status, "endpointslices", &self.slice.name());
        match call {
            Call::Read if is_absent => return Ok(Reply::Absent),
            Call::Replace(..) if is_absent || is_conflict(&status) => return Ok(Reply::Conflict),
            Call::Create(_) if is_conflict(&status) => return Ok(Reply::Conflict),
            Call::Read | Call::Create(_) | Call::Replace(..) => {}
        }
        let Status { code, message, .. } = status;
        let Self { election, namespace, rights, .. } = self;
        Err(match (code, call) {
            (403, Call::Create(_)) => SliceError::MayNotCreate(message),
            (403, Call::Read | Call::Replace(..)) => {
                match RbacManifest::for_refusal(election, namespace, rights, &message) {
                    Some(manifest) => {
                        SliceError::NoRights { message, manifest: Box::new(manifest) }
                    }
                    None => SliceError::Status { code, message },
                }
            }
            (_, Call::Read | Call::Create(_) | Call::Replace(..)) => {
                SliceError::Status { code, message }
            }
        })
    }
}

impl From<BodyError> for SliceError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge => Self::TooLarge,
            BodyError::Broken(error) => Self::Transport(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_nothing_was_done_is_a_refusal() {
        let answered = |code| SliceError::Status { code, message: String::new() }.is_refusal();
        assert!([400, 403, 404, 409, 422, 429].into_iter().all(answered));
        assert!(![200, 408, 500, 503, 504].into_iter().any(answered));
        assert!(!SliceError::TimedOut.is_refusal());
    }
}
