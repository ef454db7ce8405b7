//! A store that an election is held in: it turns a machine's requests into calls, and decides nothing.
//!
//! Touches nothing itself; each store has its folder. Start with [`Store`]. A new store goes here, beside the others.

pub mod file;
pub mod kubernetes;
pub mod zookeeper;

use baton_election::machine::{Election, Verb};
use std::error::Error;
use std::future::Future;

/// A store that an election is held in: it turns requests into calls, and decides nothing.
pub trait Store<E: Election> {
    /// Does what `request` says and returns the machine's event for the reply. An error says why there is none: it stands
    /// for [`Event::UNKNOWN`] or [`Event::REFUSED`]. A future that is dropped because it took too long stands for
    /// `UNKNOWN`.
    fn perform(&self, request: E::Request) -> impl Future<Output = Result<E::Event, StoreError>>;

    /// The next news that nobody asked for. It may pend for ever.
    fn next_event(&self) -> impl Future<Output = E::Event>;

    /// Where this is, as a person would look for it.
    fn place(&self) -> String;
}

/// Why a request has no reply that says what became of it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store did not answer, or not in a way that says what became of the request.
    #[error("the store cannot be reached")]
    Unreachable(#[source] Box<dyn Error + Send + Sync>),
    /// The store answered that we may not: not a lost race, and not cured by trying sooner.
    #[error("the store refuses us")]
    Refused(#[source] Box<dyn Error + Send + Sync>),
    /// The store holds data that we do not read. We lack no right, so this ends no candidate.
    #[error("the record in the store cannot be used")]
    Unusable(#[source] Box<dyn Error + Send + Sync>),
}

/// What reports need to know of a request.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// What the store was asked to do.
    pub verb: Verb,
    /// Whether a claim hung on it.
    pub is_renewal: bool,
}
