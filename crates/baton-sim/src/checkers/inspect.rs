//! Extracts what requests and events say about the record, so that the checkers can compare a
//! candidate with the newest state that it has seen.
//!
//! Pure. Start with [`Inspect`].

use baton_election::machine::Election;
use baton_election::queue::QueueElection;
use baton_election::queue::messages::{QueueEvent, QueueRequest};
use baton_election::record::RecordElection;
use baton_election::record::messages::{Intent, RecordEvent, RecordRequest, Snapshot};

/// The state of the record according to an event.
#[derive(Clone, Copy)]
pub(crate) enum ReportedRecord<'a> {
    Unspecified,
    /// The record is gone.
    Absent,
    /// This is the record.
    Present(&'a Snapshot),
}

/// A machine whose requests and events the checkers can read.
pub(crate) trait Inspect: Election {
    fn reported_record(event: &Self::Event) -> ReportedRecord<'_>;

    /// The version of the record that a write has just created.
    fn written_version(reply: &Self::Event) -> Option<u128>;

    /// The version that a write replaces.
    fn replaced_version(request: &Self::Request) -> Option<u128>;

    /// Whether the request gives the election up.
    fn is_release(request: &Self::Request) -> bool;

    /// Whether the request acquires a record.
    fn is_acquisition(request: &Self::Request) -> bool;

    /// Whether the request may give the candidate something to release: it acquires a record, or
    /// joins a queue.
    fn is_entry(request: &Self::Request) -> bool;
}

impl Inspect for RecordElection {
    fn reported_record(event: &RecordEvent) -> ReportedRecord<'_> {
        match event {
            RecordEvent::Read(None) | RecordEvent::WatchEvent(None) => ReportedRecord::Absent,
            RecordEvent::Read(Some(seen))
            | RecordEvent::WatchEvent(Some(seen))
            | RecordEvent::Applied(seen) => ReportedRecord::Present(seen),
            RecordEvent::Conflict | RecordEvent::Unknown => ReportedRecord::Unspecified,
        }
    }

    fn written_version(reply: &RecordEvent) -> Option<u128> {
        match reply {
            RecordEvent::Applied(snapshot) => Some(snapshot.version.number),
            RecordEvent::Read(_)
            | RecordEvent::Conflict
            | RecordEvent::Unknown
            | RecordEvent::WatchEvent(_) => None,
        }
    }

    fn replaced_version(request: &RecordRequest) -> Option<u128> {
        match request {
            RecordRequest::Read => None,
            RecordRequest::Write(write) => write.over.as_ref().map(|over| over.number),
        }
    }

    fn is_release(request: &RecordRequest) -> bool {
        match request {
            RecordRequest::Read => false,
            RecordRequest::Write(write) => write.intent == Intent::Release,
        }
    }

    fn is_acquisition(request: &RecordRequest) -> bool {
        match request {
            RecordRequest::Read => false,
            RecordRequest::Write(write) => write.intent == Intent::Acquire,
        }
    }

    fn is_entry(request: &RecordRequest) -> bool {
        Self::is_acquisition(request)
    }
}

/// Over ZooKeeper the last event does not determine the leader, because each candidate learns of
/// the end of a session at its own time.
impl Inspect for QueueElection {
    fn reported_record(_: &QueueEvent) -> ReportedRecord<'_> {
        ReportedRecord::Unspecified
    }

    fn written_version(_: &QueueEvent) -> Option<u128> {
        None
    }

    fn replaced_version(_: &QueueRequest) -> Option<u128> {
        None
    }

    fn is_release(request: &QueueRequest) -> bool {
        matches!(request, QueueRequest::Close)
    }

    /// Preferences concern only records.
    fn is_acquisition(_: &QueueRequest) -> bool {
        false
    }

    fn is_entry(request: &QueueRequest) -> bool {
        matches!(request, QueueRequest::Join { .. })
    }
}
