//! The interface of simulated stores, and a store of one record, which models Leases and files.
//!
//! Pure. Start with [`Store`]. A store processes requests in the order of their arrival. Outages,
//! delays, and stale reads are simulated by the [world](crate::world).

use crate::clock::Moment;
use crate::scenario::{CandidateConfig, ExternalAction, RecordConfig, ServerFault, ServerTarget};
use crate::trace::Departure;
use crate::world::StoreView;
use baton_election::ended_run::EndedRun;
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

/// A store that can hold an election.
pub trait Store: fmt::Debug {
    /// The machine that runs over this store.
    type Election: Election + Clone;

    /// The machine of one candidate.
    fn machine(&mut self, start: NewProcess<'_>) -> Self::Election;

    /// A candidate sends a request. Returns the number of its connection.
    fn on_send(&mut self, _from: usize, _request: &Request<Self>) -> u64 {
        0
    }

    /// Processes `request`. Returns the reply unless it comes later as an [`Effect`].
    fn perform(&mut self, arrival: Arrival, request: &Request<Self>) -> Option<Event<Self>>;

    /// The reply to this call has arrived.
    fn on_reply(&mut self, _from: usize, _call: u64) {}

    /// Whether watch events on this connection still reach the candidate.
    fn is_connected(&self, _to: usize, _connection: u64) -> bool {
        true
    }

    /// When the next internal event is due.
    fn next_at(&self) -> Moment {
        Moment::NEVER
    }

    /// Processes the next internal event.
    fn step(&mut self, _now: Moment) {}

    /// Takes the next pending effect.
    fn next_effect(&mut self) -> Option<Effect<Self::Election>> {
        None
    }

    /// Starts a fault of servers and returns the index of the first affected one. `leader` is the
    /// candidate that leads.
    fn begin_server_fault(
        &mut self,
        _now: Moment,
        _target: ServerTarget,
        _leader: Option<usize>,
        _fault: ServerFault,
    ) -> usize {
        0
    }

    /// Ends a fault that affects `server` and, for some targets, servers after it.
    fn end_server_fault(
        &mut self,
        _now: Moment,
        _target: ServerTarget,
        _server: usize,
        _fault: ServerFault,
    ) {
    }

    /// The reply of a store that serves the state of `ago` changes ago and applies nothing.
    fn false_reply(&self, _request: &Request<Self>, _ago: usize) -> Event<Self> {
        Event::<Self>::UNKNOWN
    }

    /// The request after a component in front of the store has shortened its lease.
    fn shorten_lease(&self, request: &Request<Self>) -> Request<Self> {
        request.clone()
    }

    /// The watch event for the record as it was `ago` changes ago.
    fn watch_event(&self, _ago: usize) -> Option<Event<Self>> {
        None
    }

    /// A watch event that falsely reports a deletion.
    fn false_deletion_event(&self) -> Option<Event<Self>> {
        None
    }

    /// Applies an action of another client.
    fn apply_external_action(&mut self, now: Moment, action: ExternalAction);

    /// Returns to the state of `ago` changes ago, version numbers included.
    fn restore(&mut self, now: Moment, ago: usize);

    /// The number of changes that were sent to all watchers.
    fn changes(&self) -> u64;

    /// The holder, and how long others must wait before they may acquire the election.
    fn holder(&self) -> (Option<&Identity>, Duration);

    /// The content of the store.
    fn view(&self) -> StoreView;
}

/// The parameters of a new process.
#[derive(Debug)]
pub struct NewProcess<'a> {
    /// The number of its candidate.
    pub number: usize,
    /// Its candidate.
    pub candidate: &'a CandidateConfig,
    /// Its identity.
    pub identity: Identity,
    /// Its jitter.
    pub jitter: Jitter,
    /// When it begins to campaign.
    pub from: Instant,
    /// The previous run, if this process may release its record or session.
    pub ended_run: Option<EndedRun>,
}

type Request<S> = <<S as Store>::Election as Election>::Request;
type Event<S> = <<S as Store>::Election as Election>::Event;

/// The metadata of a request that arrives.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// When it arrives.
    pub now: Moment,
    /// The candidate that sent it.
    pub from: usize,
    /// The number of the call.
    pub call: u64,
    /// The number of the connection.
    pub connection: u64,
}

/// An effect that a store has some time after a request, or without one.
#[derive(Clone, Debug)]
pub enum Effect<E: Election> {
    /// A reply to a call.
    Reply {
        /// The candidate that called.
        to: usize,
        /// The number of the call.
        call: u64,
        /// The reply.
        event: E::Event,
    },
    /// A watch event.
    WatchEvent {
        /// The candidate that watches.
        to: usize,
        /// The number of its connection.
        connection: u64,
        /// The event.
        event: E::Event,
    },
    /// A request was applied irrevocably.
    Performed {
        /// The candidate that sent it.
        from: usize,
        /// The request.
        request: E::Request,
        /// The reply, which may never be sent.
        event: E::Event,
    },
    /// The election has another holder.
    HolderChanged {
        /// The new holder.
        holder: Option<Identity>,
        /// Why the previous holder is gone, unless its session expired.
        departure: Option<Departure>,
    },
    /// The holder has begun another session, so it can no longer release this hold.
    SessionForgotten,
    /// Something happened that may affect candidates.
    Disturbed,
}

/// A store of one record, which a write replaces only over the version that it names.
#[derive(Clone, Debug)]
pub struct RecordStore {
    config: RecordConfig,
    record: Option<Snapshot>,
    /// The record after each of the latest changes, newest last.
    history: VecDeque<(Option<Snapshot>, u128)>,
    /// The last version number: a multiple of 100 plus the number of restores. A number never
    /// recurs here, although it may after a restore of a real store.
    number: u128,
    restores: u128,
    changes: u64,
}

impl RecordStore {
    /// How many changes are kept.
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

    fn machine(&mut self, start: NewProcess<'_>) -> RecordElection {
        let NewProcess { candidate, identity, jitter, from, ended_run, .. } = start;
        let machine = RecordElection::new(identity, candidate.timing, jitter, from)
            .with_preference(candidate.preference);
        match ended_run {
            Some(ended_run) => machine.with_ended_run(ended_run),
            None => machine,
        }
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
        Some(RecordEvent::WatchEvent(self.state_before(ago).0.clone()))
    }

    fn false_deletion_event(&self) -> Option<RecordEvent> {
        Some(RecordEvent::WatchEvent(None))
    }

    fn apply_external_action(&mut self, _: Moment, action: ExternalAction) {
        let Some(mut snapshot) = self.record.clone() else { return };
        self.next_version();
        snapshot.version.number = self.number;
        match action {
            ExternalAction::FalseDeletionEvent
            | ExternalAction::CreateStrayNode { .. }
            | ExternalAction::CloseSession(_) => return,
            ExternalAction::EditLabel => {}
            ExternalAction::Delete => return self.set_record(None),
            ExternalAction::Recreate => {
                snapshot.version.uid = format!("uid-{}", self.number).into();
            }
            ExternalAction::ClearHolder => snapshot.record.holder = None,
            ExternalAction::SetHolder(duration) => {
                snapshot.record.holder = Identity::parse_lossy("stranger");
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

    fn view(&self) -> StoreView {
        StoreView::Record(self.record.clone())
    }
}
