//! FaultKind an event, and a request, says of the record, so that a judge can hold a machine to the newest_version that it was told.

use baton_election::identity::Identity;
use baton_election::machine::Election;
use baton_election::queue::QueueElection;
use baton_election::queue::messages::{QueueEvent, QueueRequest};
use baton_election::record::RecordElection;
use baton_election::record::messages::{RecordEvent, RecordRequest};

/// FaultKind an event says of the record.
#[derive(Clone, Copy)]
pub(crate) enum ReportedRecord<'a> {
    Unspecified,
    /// It is gone.
    Absent,
    /// It had this version, and this holder.
    Present(u128, Option<&'a Identity>),
}

/// A machine whose events can be read by a judge.
pub(crate) trait Inspect: Election {
    fn reported_record(event: &Self::Event) -> ReportedRecord<'_>;

    /// The version that a request replaces, and no other.
    fn replaced_version(request: &Self::Request) -> Option<u128>;
}

impl Inspect for RecordElection {
    fn reported_record(event: &RecordEvent) -> ReportedRecord<'_> {
        match event {
            RecordEvent::Read(None) | RecordEvent::Noticed(None) => ReportedRecord::Absent,
            RecordEvent::Read(Some(seen))
            | RecordEvent::Noticed(Some(seen))
            | RecordEvent::Applied(seen) => {
                ReportedRecord::Present(seen.version.number, seen.record.holder.as_ref())
            }
            RecordEvent::Conflict | RecordEvent::Unknown => ReportedRecord::Unspecified,
        }
    }

    fn replaced_version(request: &RecordRequest) -> Option<u128> {
        match request {
            RecordRequest::Read => None,
            RecordRequest::Write(write) => write.over.as_ref().map(|over| over.number),
        }
    }
}

/// Who leads is no property of what a candidate of ZooKeeper hears last: it may hear of a session's end before or after.
impl Inspect for QueueElection {
    fn reported_record(_: &QueueEvent) -> ReportedRecord<'_> {
        ReportedRecord::Unspecified
    }

    fn replaced_version(_: &QueueRequest) -> Option<u128> {
        None
    }
}
