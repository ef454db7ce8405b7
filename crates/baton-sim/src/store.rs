//! A store as it behaves in a world, and the one record that Lease and file come down to.
//!
//! Pure. Requests are done in the one order in which they arrive: that is what a store that agrees is. How it can be away,
//! slow or behind is the world's to say.

use crate::clock::Moment;
use crate::scenario::{Candidate, Deed, Mishap, RecordKind, Which};
use crate::trace::Departure;
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::machine::{Election, Event as _};
use baton_election::record::RecordElection;
use baton_election::record::messages::{
    Intent, Record, RecordEvent, RecordRequest, Snapshot, Stamp, Version, Write,
};
use baton_election::timing::Jitter;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// What a world holds its election in.
pub trait Store: fmt::Debug {
    /// The machine that runs over it.
    type Election: Election<Request: Clone>;

    /// The machine of one candidate.
    fn machine(
        &self,
        identity: Identity,
        candidate: &Candidate,
        jitter: Jitter,
        from: Instant,
    ) -> Self::Election;

    /// A candidate sends a request: the number of the connection that it goes over.
    fn sets_out(&mut self, _from: usize, _request: &Request<Self>) -> u64 {
        0
    }

    /// Does what `request` says, and replies, unless the reply comes later as an [`Effect`].
    fn perform(&mut self, arrival: Arrival, request: &Request<Self>) -> Option<Event<Self>>;

    /// The reply to this call has come in.
    fn heard(&mut self, _from: usize, _call: u64) {}

    /// Whether news of this connection still reach its candidate.
    fn is_connected(&self, _to: usize, _connection: u64) -> bool {
        true
    }

    /// When something happens in it by itself.
    fn next(&self) -> Moment {
        Moment::NEVER
    }

    /// Lets the next of that happen.
    fn turn(&mut self, _now: Moment) {}

    /// The next of what has come of all that.
    fn next_effect(&mut self) -> Option<Effect<Self::Election>> {
        None
    }

    /// Servers are struck, and which one first; `leader` is the candidate that leads.
    fn strike(
        &mut self,
        _now: Moment,
        _which: Which,
        _leader: Option<usize>,
        _mishap: Mishap,
    ) -> usize {
        0
    }

    /// That is over.
    fn mend(&mut self, _now: Moment, _which: Which, _struck: usize, _mishap: Mishap) {}

    /// The reply of a store that does not do what it is asked: from so many changes ago.
    fn feign(&self, _request: &Request<Self>, _ago: usize) -> Event<Self> {
        Event::<Self>::UNKNOWN
    }

    /// The request that reaches a store behind something that shortens leases.
    fn shorten(&self, request: &Request<Self>) -> Request<Self> {
        request.clone()
    }

    /// What watchers are told of the record as it was so many changes ago.
    fn news(&self, _ago: usize) -> Option<Event<Self>> {
        None
    }

    /// What watchers are told when nobody knows whether the record is still there.
    fn rumour(&self) -> Option<Event<Self>> {
        None
    }

    /// Does what a stranger does.
    fn meddle(&mut self, now: Moment, deed: Deed);

    /// Is as it was so many changes ago, numbers too.
    fn restore(&mut self, now: Moment, ago: usize);

    /// Counts the changes that all watchers are told of.
    fn changes(&self) -> u64;

    /// Who holds the election, and how long whoever sees that has to wait for him.
    fn holder(&self) -> (Option<&Identity>, Duration);
}

type Request<S> = <<S as Store>::Election as Election>::Request;
type Event<S> = <<S as Store>::Election as Election>::Event;

/// A request that comes in.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// When.
    pub now: Moment,
    /// Whose it is.
    pub from: usize,
    /// The number of the call.
    pub call: u64,
    /// The number of the connection.
    pub connection: u64,
}

/// What a store does some time after it was asked, or unasked.
#[derive(Debug)]
pub enum Effect<E: Election> {
    /// It replies to a call.
    Reply {
        /// Whose it is.
        to: usize,
        /// Its number.
        call: u64,
        /// The reply.
        event: E::Event,
    },
    /// It tells news.
    News {
        /// Whom.
        to: usize,
        /// Over which connection.
        connection: u64,
        /// What.
        event: E::Event,
    },
    /// It has done what was asked, and nothing can undo that.
    Performed {
        /// By whom.
        from: usize,
        /// What.
        request: E::Request,
        /// The reply, which may never be sent.
        event: E::Event,
    },
    /// Another holds the election.
    Holder {
        /// Who.
        holder: Option<Identity>,
        /// Why the one before does no more, where that was no time-out.
        departure: Option<Departure>,
    },
    /// Whoever holds the election has begun another session since: this hold is out of his hands.
    Orphaned,
    /// Candidates may feel what happened in it.
    Stirred,
}

/// One record, replaced only over the version that a write names.
#[derive(Debug)]
pub struct RecordStore {
    kind: RecordKind,
    record: Option<Snapshot>,
    /// The record after each of the last changes, newest last.
    past: VecDeque<(Option<Snapshot>, u128)>,
    /// Of the last write, in hundreds, and how often the store was set back: no number comes again here, as it may where a real
    /// store was restored.
    number: u128,
    set_back: u128,
    changes: u64,
}

impl RecordStore {
    /// How many changes are remembered.
    const MEMORY: usize = 16;

    /// A store without a record.
    pub fn new(kind: RecordKind) -> Self {
        let past = VecDeque::from([(None, 0)]);
        Self { kind, record: None, past, number: 0, set_back: 0, changes: 0 }
    }

    fn replace(&mut self, write: &Write) -> RecordEvent {
        let held = self.record.as_ref().map(|held| &held.version);
        if held != write.over.as_ref() && self.kind.compares {
            return RecordEvent::Conflict;
        }
        let seconds = write.duration.as_secs() + u64::from(write.duration.subsec_nanos() > 0);
        let duration =
            if self.kind.whole_seconds { Duration::from_secs(seconds) } else { write.duration };
        let uid = held.map(|held| held.uid.clone());
        self.count();
        let stamp = Stamp(self.number.to_string());
        let uid = uid.unwrap_or_else(|| format!("uid-{}", self.number).into());
        let record = Record {
            holder: write.holder.clone(),
            duration: Some(duration),
            transitions: write.transitions,
            acquired: Stamp::default(),
            renewed: stamp,
        };
        let snapshot = Snapshot { version: Version { uid, number: self.number }, record };
        self.set(Some(snapshot.clone()));
        RecordEvent::Applied(snapshot)
    }

    fn count(&mut self) {
        self.number = (self.number / 100 + 1) * 100 + self.set_back;
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
    type Election = RecordElection;

    fn machine(
        &self,
        identity: Identity,
        candidate: &Candidate,
        jitter: Jitter,
        from: Instant,
    ) -> RecordElection {
        RecordElection::new(identity, candidate.timing, jitter, from)
    }

    fn perform(&mut self, _: Arrival, request: &RecordRequest) -> Option<RecordEvent> {
        Some(match request {
            RecordRequest::Read => RecordEvent::Read(self.record.clone()),
            RecordRequest::Write(write) => self.replace(write),
        })
    }

    fn feign(&self, request: &RecordRequest, ago: usize) -> RecordEvent {
        let (was, _) = self.was(ago);
        match (request, was) {
            (RecordRequest::Write(write), Some(was))
                if write.over.as_ref() == Some(&was.version) =>
            {
                RecordEvent::Applied(was.clone())
            }
            (RecordRequest::Write(_), _) => RecordEvent::Conflict,
            (RecordRequest::Read, was) => RecordEvent::Read(was.clone()),
        }
    }

    fn shorten(&self, request: &RecordRequest) -> RecordRequest {
        match request {
            RecordRequest::Write(write) if write.intent == Intent::Acquire => {
                RecordRequest::Write(Write { duration: write.duration / 8, ..write.clone() })
            }
            RecordRequest::Read | RecordRequest::Write(_) => request.clone(),
        }
    }

    fn news(&self, ago: usize) -> Option<RecordEvent> {
        Some(RecordEvent::WatchEvent(self.was(ago).0.clone()))
    }

    fn rumour(&self) -> Option<RecordEvent> {
        Some(RecordEvent::WatchEvent(None))
    }

    fn meddle(&mut self, _: Moment, deed: Deed) {
        let Some(mut snapshot) = self.record.clone() else { return };
        self.count();
        snapshot.version.number = self.number;
        match deed {
            Deed::Rumour | Deed::Litter { .. } => return,
            Deed::Label => {}
            Deed::Delete => return self.set(None),
            Deed::Remake => snapshot.version.uid = format!("uid-{}", self.number).into(),
            Deed::Wipe => snapshot.record.holder = None,
            Deed::Seize(duration) => {
                snapshot.record.holder = Identity::parse_lossy("stranger");
                snapshot.record.duration = Some(duration);
            }
        }
        self.set(Some(snapshot));
    }

    fn restore(&mut self, _: Moment, ago: usize) {
        let (record, number) = self.was(ago).clone();
        self.number = number;
        self.set_back += 1;
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
