//! A store of one record, which models Leases, keys in etcd, and files.
//!
//! Pure. Start with [`RecordStore`]. It models the part of etcd's client that matters here too: a
//! write compares the value of the record that its process knows.

use crate::clock::Moment;
use crate::rng::Rng;
use crate::scenario::{ExternalAction, Numbering, RecordConfig};
use crate::store::{Arrival, NewProcess, Store};
use crate::trace_hash::hash_of;
use crate::world::StoreView;
use baton_election::identity::Identity;
use baton_election::record::RecordElection;
use baton_election::record::messages::{
    Intent, Record, RecordEvent, RecordRequest, Snapshot, Stamp, Version, Write,
};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A store of one record, which a write replaces only over the version that it names.
#[derive(Clone, Debug)]
pub struct RecordStore {
    config: RecordConfig,
    record: Option<Snapshot>,
    /// The record after each of the latest changes, newest last.
    history: VecDeque<(Option<Snapshot>, u128)>,
    numbers: Numbers,
    /// The last version number.
    number: u128,
    restores: u128,
    changes: u64,
    /// The record that the process of each candidate handled last.
    known: BTreeMap<usize, Snapshot>,
}

/// Hands out version numbers.
#[derive(Clone, Debug)]
enum Numbers {
    /// Multiples of 100 plus the number of restores.
    Unique,
    /// Other keys take up to five numbers before each change, with this probability.
    Revisions { other_keys: Rng, permille: u16 },
}

impl RecordStore {
    /// How many changes are kept.
    const HISTORY_LENGTH: usize = 16;

    /// A store without a record.
    pub fn new(config: RecordConfig) -> Self {
        let numbers = match config.numbering {
            Numbering::Unique => Numbers::Unique,
            Numbering::Revisions { seed } => {
                let mut other_keys = Rng::new(seed);
                let permille = other_keys.pick(&[0, 100, 900]);
                Numbers::Revisions { other_keys, permille }
            }
        };
        Self {
            config,
            record: None,
            history: VecDeque::from([(None, 0)]),
            numbers,
            number: 0,
            restores: 0,
            changes: 0,
            known: BTreeMap::new(),
        }
    }

    /// Applies `write` unless the version differs, or the value, whose number is `value`.
    fn replace(&mut self, write: &Write, value: u64) -> RecordEvent {
        let held = self.record.as_ref().map(|held| &held.version);
        let is_other = held != write.over.as_ref()
            || self.record.as_ref().is_some_and(|held| self.compared_value(held) != value);
        if is_other && self.config.checks_version {
            return RecordEvent::Conflict;
        }
        let seconds = write.duration.as_secs() + u64::from(write.duration.subsec_nanos() > 0);
        let duration =
            if self.config.whole_seconds { Duration::from_secs(seconds) } else { write.duration };
        let uid = held.map(|held| held.uid.clone());
        self.next_version();
        let stamp = match self.numbers {
            Numbers::Unique => self.number.to_string(),
            // A number may recur, but no time does.
            Numbers::Revisions { .. } => self.changes.to_string(),
        };
        let uid = uid.unwrap_or_else(|| format!("uid-{}", self.number).into());
        let record = Record {
            holder: write.holder.clone(),
            duration: Some(duration),
            transitions: write.transitions,
            acquired: Stamp::default(),
            renewed: Stamp(stamp),
        };
        let snapshot = Snapshot { version: Version { uid, number: self.number }, record };
        self.set_record(Some(snapshot.clone()));
        RecordEvent::Applied(snapshot)
    }

    fn next_version(&mut self) {
        self.number = match &mut self.numbers {
            Numbers::Unique => (self.number / 100 + 1) * 100 + self.restores,
            Numbers::Revisions { other_keys, permille } => {
                let taken =
                    if other_keys.permille(*permille) { other_keys.between(1, 5) } else { 0 };
                self.number + u128::from(taken) + 1
            }
        };
    }

    /// A number for the value of `snapshot`, if a write compares values.
    fn compared_value(&self, snapshot: &Snapshot) -> u64 {
        match self.numbers {
            Numbers::Unique => 0,
            Numbers::Revisions { .. } => hash_of(&snapshot.record),
        }
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
        let NewProcess { number, candidate, identity, jitter, from, ended_run } = start;
        self.known.remove(&number);
        let machine = RecordElection::new(identity, candidate.timing, jitter, from)
            .with_preference(candidate.preference);
        match ended_run {
            Some(ended_run) => machine.with_ended_run(ended_run),
            None => machine,
        }
    }

    /// The value is that of the known record. If the version of that record is another, the process
    /// reads the record first.
    fn on_send(&mut self, from: usize, request: &RecordRequest) -> u64 {
        let RecordRequest::Write(Write { over: Some(over), .. }) = request else { return 0 };
        let is_replaced = |snapshot: &&Snapshot| snapshot.version == *over;
        let known = self.known.get(&from).filter(is_replaced);
        let replaced = known.or_else(|| self.record.as_ref().filter(is_replaced));
        replaced.map_or(0, |replaced| self.compared_value(replaced))
    }

    fn on_handle(&mut self, by: usize, event: &RecordEvent) {
        match event {
            RecordEvent::Read(Some(snapshot)) | RecordEvent::Applied(snapshot) => {
                self.known.insert(by, snapshot.clone());
            }
            RecordEvent::Read(None) => {
                self.known.remove(&by);
            }
            RecordEvent::WatchEvent(Some(snapshot)) => {
                let number = snapshot.version.number;
                if self.known.get(&by).is_none_or(|known| known.version.number < number) {
                    self.known.insert(by, snapshot.clone());
                }
            }
            RecordEvent::WatchEvent(None) | RecordEvent::Conflict | RecordEvent::Unknown => {}
        }
    }

    fn perform(&mut self, arrival: Arrival, request: &RecordRequest) -> Option<RecordEvent> {
        Some(match request {
            RecordRequest::Read => RecordEvent::Read(self.record.clone()),
            RecordRequest::Write(write) => self.replace(write, arrival.attached),
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
