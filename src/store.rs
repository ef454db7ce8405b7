//! The interface of a store, which holds an election.
//!
//! Touches nothing; each store has a module below this one. Start with [`Store`].

pub mod etcd;
pub mod file;
pub mod kubernetes;
mod line_buffer;
pub mod zookeeper;

use baton_election::machine::{Election, Verb};
use std::error::Error;
use std::future::Future;

/// A store: performs a machine's requests and reports its own events, and decides nothing.
pub trait Store<E: Election> {
    /// Performs `request` and returns the machine's event for the reply.
    ///
    /// An error says why the event is [`UNKNOWN`] or [`REFUSED`]. A future dropped at its timeout
    /// counts as `UNKNOWN`.
    ///
    /// [`UNKNOWN`]: baton_election::machine::Event::UNKNOWN
    /// [`REFUSED`]: baton_election::machine::Event::REFUSED
    fn perform(&self, request: E::Request) -> impl Future<Output = Result<E::Event, StoreError>>;

    /// The next event that is not the reply to a request. It may never come.
    fn next_event(&self) -> impl Future<Output = E::Event>;

    /// The record's location, for logs and errors.
    fn location(&self) -> String;
}

/// Why a request has no usable reply.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store did not answer, or its answer leaves the outcome unknown.
    #[error("cannot reach the store")]
    Unreachable(#[source] Box<dyn Error + Send + Sync>),
    /// The store denies us a right. This is not a lost race, and retrying sooner does not help.
    #[error("the store refuses this candidate")]
    Refused(#[source] Box<dyn Error + Send + Sync>),
    /// The record in the store cannot be used. No right is missing, so this ends no candidate.
    #[error("cannot use the record in the store")]
    Unusable(#[source] Box<dyn Error + Send + Sync>),
}

/// A report of a watch of a record.
pub(crate) enum WatchUpdate<R> {
    /// The record at some moment.
    Changed(R),
    /// The record may have been deleted or changed unseen, and must be read.
    ReadRequired,
}

/// A request, as logs and metrics describe it.
#[derive(Clone, Copy, Debug)]
pub struct RequestSummary {
    /// The operation.
    pub verb: Verb,
    /// Whether it renews a claim.
    pub is_renewal: bool,
}
