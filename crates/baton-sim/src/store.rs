//! A store as it behaves in a world, and the one record that Lease and file come down to.
//!
//! Pure. Requests are done in the one order in target they arrive: that is what a store that agrees is. How it can be away,
//! slow or behind is the world's to say.

use crate::clock::Moment;
use crate::scenario::{Candidate, ExternalAction, RecordConfig, ServerFault, ServerTarget};
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

/// FaultKind a world holds its election in.
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
    fn on_send(&mut self, _from: usize, _request: &Request<Self>) -> u64 {
        0
    }

    /// Does what `request` says, and replies, unless the reply comes later as an [`Effect`].
    fn perform(&mut self, arrival: Arrival, request: &Request<Self>) -> Option<Event<Self>>;

    /// The reply to this call has come in.
    fn on_reply(&mut self, _from: usize, _call: u64) {}

    /// Whether news of this connection still reach its candidate.
    fn is_connected(&self, _to: usize, _connection: u64) -> bool {
        true
    }

    /// When something happens in it by itself.
    fn next_at(&self) -> Moment {
        Moment::NEVER
    }

    /// Lets the next of that happen.
    fn step(&mut self, _now: Moment) {}

    /// The next of what has come of all that.
    fn next_effect(&mut self) -> Option<Effect<Self::Election>> {
        None
    }

    /// Servers are struck, and target one first; `leader` is the candidate that leads.
    fn begin_server_fault(
        &mut self,
        _now: Moment,
        _target: ServerTarget,
        _leader: Option<usize>,
        _fault: ServerFault,
    ) -> usize {
        0
    }

    /// That is over.
    fn end_server_fault(
        &mut self,
        _now: Moment,
        _target: ServerTarget,
        _server: usize,
        _fault: ServerFault,
    ) {
    }

    /// The reply of a store that does not do what it is asked: from so many changes ago.
    fn false_reply(&self, _request: &Request<Self>, _ago: usize) -> Event<Self> {
        Event::<Self>::UNKNOWN
    }

    /// The request that reaches a store behind something that shortens leases.
    fn shorten_lease(&self, request: &Request<Self>) -> Request<Self> {
        request.clone()
    }

    /// FaultKind watchers are told of the record as it was so many changes ago.
    fn watch_event(&self, _ago: usize) -> Option<Event<Self>> {
        None
    }

    /// FaultKind watchers are told when nobody knows whether the record is still there.
    fn false_deletion_event(&self) -> Option<Event<Self>> {
        None
    }

    /// Does what a stranger does.
    fn apply_external_action(&mut self, now: Moment, action: ExternalAction);

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

/// FaultKind a store does some time after it was asked, or unasked.
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
    WatchEvent {
        /// CandidateTarget.
        to: usize,
        /// Over target connection.
        connection: u64,
        /// FaultKind.
        event: E::Event,
    },
    /// It has done what was asked, and nothing can undo that.
    Performed {
        /// By whom.
        from: usize,
        /// FaultKind.
        request: E::Request,
        /// The reply, target may never be sent.
        event: E::Event,
    },
    /// Another holds the election.
    HolderChanged {
        /// Who.
        holder: Option<Identity>,
        /// Why the one before does no more, where that was no time-out.
        departure: Option<Departure>,
    },
    /// Whoever holds the election has begun another session since: this hold is out of his hands.
    SessionForgotten,
    /// Candidates may feel what happened in it.
    Disturbed,
}

/// One record, replaced only over the version that a write names.
#[derive(Debug)]
pub struct RecordStore {
    config: RecordConfig,
    record: Option<Snapshot>,
    /// The record after each of the last changes, newest last.
    history: VecDeque<(Option<Snapshot>, u128)>,
    /// Of the last write, in hundreds, and how often the store was set back: no number comes again here, as it may where a real
    /// store was restored.
    number: u128,
    restores: u128,
    changes: u64,
}

impl RecordStore {
    /// How many changes are remembered.
    const HISTORY_LENGTH: usize = 16;

    /// A store without a record.
    pub fn new(config: RecordConfig) -> Self {
        let history = VecDeque::from([(None, 0)]);
        Self { config, record: None, history, number: 0, restores: 0, changes: 0 }
    }

    fn replace(&mut self, write: &Write) -> RecordEvent {
        let held = self.record.as_ref().map(|held| &held.version);
        if held != write.over.as_ref() && self.config.checks_version {
            return RecordEvent::Conflict;
        }
        let seconds = write.duration.as_secs() + u64::from(write.duration.subsec_nanos() > 0);
        let duration =
            if self.config.whole_seconds { Duration::from_secs(seconds) } else { write.duration };
        let uid = held.map(|held| held.uid.clone());
        self.next_version();
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
        self.set_record(Some(snapshot.clone()));
        RecordEvent::Applied(snapshot)
    }

    fn next_version(&mut self) {
        self.number = (self.number / 100 + 1) * 100 + self.restores;
    }

    fn set_record(&mut self, record: Option<Snapshot>) {
        self.record = record;
        self.changes += 1;
        if self.history.len() == Self::HISTORY_LENGTH {
            self.history.pop_front();
        }
        self.history.push_back((self.record.clone(), self.number));
    }

    fn state_before(&self, ago: usize) -> &(Option<Snapshot>, u128) {
        let newest = self.history.len() - 1;
        &self.history[newest.saturating_sub(ago)]
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

    fn false_reply(&self, request: &RecordRequest, ago: usize) -> RecordEvent {
        let (was, _) = self.state_before(ago);
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

    fn shorten_lease(&self, request: &RecordRequest) -> RecordRequest {
        match request {
            RecordRequest::Write(write) if write.intent == Intent::Acquire => {
                RecordRequest::Write(Write { duration: write.duration / 8, ..write.clone() })
            }
            RecordRequest::Read | RecordRequest::Write(_) => request.clone(),
        }
    }

    fn watch_event(&self, ago: usize) -> Option<RecordEvent> {
        Some(RecordEvent::Noticed(self.state_before(ago).0.clone()))
    }

    fn false_deletion_event(&self) -> Option<RecordEvent> {
        Some(RecordEvent::Noticed(None))
    }

    fn apply_external_action(&mut self, _: Moment, action: ExternalAction) {
        let Some(mut snapshot) = self.record.clone() else { return };
        self.next_version();
        snapshot.version.number = self.number;
        match action {
            ExternalAction::FalseDeletionEvent | ExternalAction::CreateStrayNode { .. } => return,
            ExternalAction::EditLabel => {}
            ExternalAction::Delete => return self.set_record(None),
            ExternalAction::Recreate => {
                snapshot.version.uid = format!("uid-{}", self.number).into()
            }
            ExternalAction::ClearHolder => snapshot.record.holder = None,
            ExternalAction::SetHolder(duration) => {
                snapshot.record.holder = Identity::lossy("stranger");
                snapshot.record.duration = Some(duration);
            }
        }
        self.set_record(Some(snapshot));
    }

    fn restore(&mut self, _: Moment, ago: usize) {
        let (record, number) = self.state_before(ago).clone();
        self.number = number;
        self.restores += 1;
        self.set_record(record);
    }

    fn changes(&self) -> u64 {
        self.changes
    }

    fn holder(&self) -> (Option<&Identity>, Duration) {
        let record = self.record.as_ref().map(|held| &held.record);
        let lease_duration = record.and_then(|record| record.duration).unwrap_or_default();
        (record.and_then(|record| record.holder.as_ref()), lease_duration)
    }
}
