//! What an event, and a request, says of the record, so that a judge can hold a machine to the newest that it was told.

use baton_election::identity::Identity;
use baton_election::machine::Election;
use baton_election::queue::QueueElection;
use baton_election::queue::messages::{QueueEvent, QueueRequest};
use baton_election::record::RecordElection;
use baton_election::record::messages::{RecordEvent, RecordRequest};

/// What an event says of the record.
#[derive(Clone, Copy)]
pub(crate) enum Hearsay<'a> {
    Nothing,
    /// It is gone.
    Gone,
    /// It had this version, and this holder.
    Held(u128, Option<&'a Identity>),
}

/// A machine whose events can be read by a judge.
pub(crate) trait Legible: Election {
    fn hearsay(event: &Self::Event) -> Hearsay<'_>;

    /// The version that a request replaces, and no other.
    fn replaces(request: &Self::Request) -> Option<u128>;
}

impl Legible for RecordElection {
    fn hearsay(event: &RecordEvent) -> Hearsay<'_> {
        match event {
            RecordEvent::Read(None) | RecordEvent::WatchEvent(None) => Hearsay::Gone,
            RecordEvent::Read(Some(seen))
            | RecordEvent::WatchEvent(Some(seen))
            | RecordEvent::Applied(seen) => {
                Hearsay::Held(seen.version.number, seen.record.holder.as_ref())
            }
            RecordEvent::Conflict | RecordEvent::Unknown => Hearsay::Nothing,
        }
    }

    fn replaces(request: &RecordRequest) -> Option<u128> {
        match request {
            RecordRequest::Read => None,
            RecordRequest::Write(write) => write.over.as_ref().map(|over| over.number),
        }
    }
}

/// Who leads is no property of what a candidate of ZooKeeper hears last: it may hear of a session's end before or after.
impl Legible for QueueElection {
    fn hearsay(_: &QueueEvent) -> Hearsay<'_> {
        Hearsay::Nothing
    }

    fn replaces(_: &QueueRequest) -> Option<u128> {
        None
    }
}
