//! What an event, and a request, says of the record, so that a judge can hold a machine to the newest that it was told.

use baton::election::Election;
use baton::election::lease::Lease;
use baton::election::record::{LeaseEvent, LeaseRequest};
use baton::election::zookeeper::ZooKeeper;
use baton::election::zookeeper::words::{ZooKeeperEvent, ZooKeeperRequest};
use baton::identity::Identity;

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

impl Legible for Lease {
    fn hearsay(event: &LeaseEvent) -> Hearsay<'_> {
        match event {
            LeaseEvent::Read(None) | LeaseEvent::Noticed(None) => Hearsay::Gone,
            LeaseEvent::Read(Some(seen)) | LeaseEvent::Noticed(Some(seen)) | LeaseEvent::Applied(seen) => {
                Hearsay::Held(seen.version.number, seen.record.holder.as_ref())
            }
            LeaseEvent::Conflict | LeaseEvent::Unknown => Hearsay::Nothing,
        }
    }

    fn replaces(request: &LeaseRequest) -> Option<u128> {
        match request {
            LeaseRequest::Read => None,
            LeaseRequest::Write(write) => write.over.as_ref().map(|over| over.number),
        }
    }
}

/// Who leads is no property of what a candidate of ZooKeeper hears last: it may hear of a session's end before or after.
impl Legible for ZooKeeper {
    fn hearsay(_: &ZooKeeperEvent) -> Hearsay<'_> {
        Hearsay::Nothing
    }

    fn replaces(_: &ZooKeeperRequest) -> Option<u128> {
        None
    }
}
