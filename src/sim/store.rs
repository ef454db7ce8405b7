//! A store as it behaves in a world, and the one record that Lease and file come down to.
//!
//! Pure. Requests are done in the one order in which they arrive: that is what a store that agrees is. How it can be away,
//! slow or behind is the world's to say.

use super::setup::{Deed, StoreKind};
use crate::clock::Instant;
use crate::election::Election;
use crate::election::lease::Lease;
use crate::election::record::{LeaseEvent, LeaseRequest, Record, Snapshot, Stamp, Version, Write};
use crate::election::timing::{Jitter, Timing};
use crate::identity::Identity;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// What a world holds its election in.
pub trait Store: fmt::Debug {
    /// The machine that runs over it.
    type Election: Election<Request: Clone>;

    /// The machine of one candidate.
    fn machine(&self, identity: Identity, timing: Timing, jitter: Jitter, from: Instant) -> Self::Election;

    /// Does what `request` says, and replies.
    fn perform(&mut self, request: &<Self::Election as Election>::Request) -> <Self::Election as Election>::Event;

    /// The reply of a store that does not do what it is asked: from so many changes ago.
    fn feign(&self, request: &<Self::Election as Election>::Request, ago: usize)
    -> <Self::Election as Election>::Event;

    /// What watchers are told of the record as it was so many changes ago.
    fn news(&self, ago: usize) -> <Self::Election as Election>::Event;

    /// What watchers are told when nobody knows whether the record is still there.
    fn rumour(&self) -> <Self::Election as Election>::Event;

    /// Does what a stranger does.
    fn meddle(&mut self, deed: Deed);

    /// Is as it was so many changes ago, numbers too.
    fn restore(&mut self, ago: usize);

    /// Counts the changes that watchers are told of.
    fn changes(&self) -> u64;

    /// Who holds the election, and how long whoever sees that has to wait for him.
    fn holder(&self) -> (Option<&Identity>, Duration);
}

/// One record, replaced only over the version that a write names.
#[derive(Debug)]
pub struct RecordStore {
    kind: StoreKind,
    record: Option<Snapshot>,
    /// The record after each of the last changes, newest last.
    past: VecDeque<(Option<Snapshot>, u128)>,
    number: u128,
    changes: u64,
}

impl RecordStore {
    /// How many changes are remembered.
    const MEMORY: usize = 16;

    /// A store without a record.
    pub fn new(kind: StoreKind) -> Self {
        let past = VecDeque::from([(None, 0)]);
        Self { kind, record: None, past, number: 0, changes: 0 }
    }

    fn replace(&mut self, write: &Write) -> LeaseEvent {
        let held = self.record.as_ref().map(|held| &held.version);
        if held != write.over.as_ref() && self.kind.compares {
            return LeaseEvent::Conflict;
        }
        let seconds = write.duration.as_secs() + u64::from(write.duration.subsec_nanos() > 0);
        let duration = if self.kind.whole_seconds { Duration::from_secs(seconds) } else { write.duration };
        self.number += 1;
        let stamp = Stamp(self.number.to_string());
        let uid = held.map_or_else(|| format!("uid-{}", self.number).into(), |held| held.uid.clone());
        let record = Record {
            holder: write.holder.clone(),
            duration: Some(duration),
            transitions: write.transitions,
            acquired: Stamp::default(),
            renewed: stamp,
        };
        let snapshot = Snapshot { version: Version { uid, number: self.number }, record };
        self.set(Some(snapshot.clone()));
        LeaseEvent::Applied(snapshot)
    }

    fn set(&mut self, record: Option<Snapshot>) {
        self.record = record;
        self.changes += 1;
        if self.past.len() == Self::MEMORY {
            self.past.pop_front();
        }
        self.past.push_back((self.record.clone(), self.number));
    }

    fn was(&self, ago: usize) -> &(Option<Snapshot>, u128) {
        let newest = self.past.len() - 1;
        &self.past[newest.saturating_sub(ago)]
    }
}

impl Store for RecordStore {
    type Election = Lease;

    fn machine(&self, identity: Identity, timing: Timing, jitter: Jitter, from: Instant) -> Lease {
        Lease::new(identity, timing, jitter, from)
    }

    fn perform(&mut self, request: &LeaseRequest) -> LeaseEvent {
        match request {
            LeaseRequest::Read => LeaseEvent::Read(self.record.clone()),
            LeaseRequest::Write(write) => self.replace(write),
        }
    }

    fn feign(&self, request: &LeaseRequest, ago: usize) -> LeaseEvent {
        let (was, _) = self.was(ago);
        match (request, was) {
            (LeaseRequest::Write(write), Some(was)) if write.over.as_ref() == Some(&was.version) => {
                LeaseEvent::Applied(was.clone())
            }
            (LeaseRequest::Write(_), _) => LeaseEvent::Conflict,
            (LeaseRequest::Read, was) => LeaseEvent::Read(was.clone()),
        }
    }

    fn news(&self, ago: usize) -> LeaseEvent {
        LeaseEvent::Noticed(self.was(ago).0.clone())
    }

    fn rumour(&self) -> LeaseEvent {
        LeaseEvent::Noticed(None)
    }

    fn meddle(&mut self, deed: Deed) {
        let Some(mut snapshot) = self.record.clone() else { return };
        self.number += 1;
        snapshot.version.number = self.number;
        match deed {
            Deed::Rumour => return,
            Deed::Label => {}
            Deed::Delete => return self.set(None),
            Deed::Wipe => snapshot.record.holder = None,
            Deed::Seize(duration) => {
                snapshot.record.holder = Identity::lossy("stranger");
                snapshot.record.duration = Some(duration);
            }
        }
        self.set(Some(snapshot));
    }

    fn restore(&mut self, ago: usize) {
        let (record, number) = self.was(ago).clone();
        self.number = number;
        self.set(record);
    }

    fn changes(&self) -> u64 {
        self.changes
    }

    fn holder(&self) -> (Option<&Identity>, Duration) {
        let record = self.record.as_ref().map(|held| &held.record);
        let protects = record.and_then(|record| record.duration).unwrap_or_default();
        (record.and_then(|record| record.holder.as_ref()), protects)
    }
}
