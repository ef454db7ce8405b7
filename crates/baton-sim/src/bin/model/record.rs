//! A small model of one record, as in a Lease or a file.
//!
//! Start with [`Action`]. Actions may happen in any causal order. So processes pause for any time,
//! calls time out at any time, and replies, watch events, and abandoned writes may be late.

use super::candidates::{self, Call, Candidate, ClockRates, Memory, ORDERS, Terms, VALIDITY};
use baton_election::claim::{FencingToken, Standing};
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::machine::Election;
use baton_election::record::RecordElection;
use baton_election::record::messages::{
    Record, RecordEvent, RecordRequest, Snapshot, Stamp, Version, Write,
};
use baton_election::timing::{Drift, Durations, Jitter, Timing};
use baton_election::withdrawals::Order;
use stateright::{Model, Property};
use std::time::Duration;

/// The bounds of the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordModel {
    pub(crate) candidates: usize,
    pub(crate) clocks: ClockRates,
    /// Steps of time. Per step, slow clocks advance by two seconds and fast ones by three.
    pub(crate) steps: u8,
    /// The number of writes that the store applies.
    pub(crate) writes: u8,
    /// Whether watch events are sent. They arrive in order, with any delay.
    pub(crate) watch_events: bool,
    /// Whether an abandoned write may still be applied at any time. Only the latest one is kept.
    pub(crate) late_writes: bool,
    /// The number of restarts after a crash, of withdrawals, and of deletions by another client
    /// after all candidates have seen the last change.
    pub(crate) crashes: u8,
    pub(crate) releases: u8,
    pub(crate) deletions: u8,
    pub(crate) memory: Memory,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct State {
    step: u8,
    candidates: Vec<Candidate<RecordElection, RecordRequest, RecordEvent>>,
    /// The highest version that each candidate has seen.
    known_versions: Vec<u8>,
    record: Option<Snapshot>,
    version: u8,
    /// The watch events in flight to each candidate, oldest first.
    watch_events: Vec<Vec<Option<Snapshot>>>,
    /// An abandoned write in flight.
    late_write: Option<Write>,
    terms: Terms,
    crashes: u8,
    releases: u8,
    deletions: u8,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Time advances for all.
    Step,
    /// A driver takes a turn that is due.
    Turn(usize),
    /// A request arrives at the store, which processes it.
    DeliverRequest(usize),
    /// A reply arrives.
    DeliverReply(usize),
    /// A call times out, and its reply is lost.
    TimeOut(usize),
    /// An abandoned write is applied.
    DeliverLateRequest,
    /// A watch event arrives.
    DeliverWatchEvent(usize),
    /// A process is killed and replaced by a new one.
    Crash(usize),
    /// A candidate is ordered to withdraw.
    Withdraw(usize, Order),
    /// Another client deletes the record.
    Delete,
}

/// Durations that are barely valid with clocks 20 % off either way: the slowest leader stops in the
/// step in which the fastest follower may begin.
fn timing() -> Timing {
    let [lease_duration, renew_deadline, retry_period] =
        [5_000, 3_300, 1_000].map(Duration::from_millis);
    let durations =
        Durations { lease_duration, renew_deadline, retry_period, answer_validity: VALIDITY };
    let drift = Drift::parts_per_million(200_000).expect("a drift below 100 %");
    Timing::new(durations, drift).expect("3.3 s × 1.2 is less than 5 s × 0.8")
}

fn identity(number: usize, start: u8) -> Identity {
    Identity::parse(&format!("{number}_{start}")).expect("two numbers")
}

fn machine(number: usize, start: u8, from: Instant) -> RecordElection {
    RecordElection::new(identity(number, start), timing(), Jitter::none(), from)
}

impl State {
    fn perform(&mut self, request: RecordRequest, notifies: bool) -> RecordEvent {
        match request {
            RecordRequest::Read => RecordEvent::Read(self.record.clone()),
            RecordRequest::Write(write) => self.replace(&write, notifies),
        }
    }

    fn replace(&mut self, write: &Write, notifies: bool) -> RecordEvent {
        let held = self.record.as_ref().map(|record| &record.version);
        if held != write.over.as_ref() {
            return RecordEvent::Conflict;
        }
        self.version += 1;
        let uid = held.map_or_else(|| self.version.to_string().into(), |held| held.uid.clone());
        let record = Record {
            holder: write.holder.clone(),
            duration: Some(write.duration),
            transitions: write.transitions,
            acquired: Stamp::default(),
            renewed: Stamp(self.version.to_string()),
        };
        let snapshot = Snapshot { version: Version { uid, number: self.version.into() }, record };
        self.set(Some(snapshot.clone()), notifies);
        RecordEvent::Applied(snapshot)
    }

    fn set(&mut self, record: Option<Snapshot>, notifies: bool) {
        self.record = record;
        if notifies {
            self.watch_events.iter_mut().for_each(|events| events.push(self.record.clone()));
        }
    }

    fn abandon(&mut self, request: Option<RecordRequest>, allows_late: bool) {
        if let Some(RecordRequest::Write(write)) = request
            && allows_late
        {
            self.late_write = Some(write);
        }
    }

    fn learn(&mut self, number: usize, event: &RecordEvent) {
        if let RecordEvent::Read(Some(seen))
        | RecordEvent::Applied(seen)
        | RecordEvent::WatchEvent(Some(seen)) = event
        {
            let version =
                u8::try_from(seen.version.number).expect("a small model has few versions");
            self.known_versions[number] = self.known_versions[number].max(version);
        }
    }

    /// Whether the machines must tolerate a deletion: all candidates know which lease to wait for,
    /// and no create is in flight.
    fn may_be_deleted(&self) -> bool {
        let creates = |write: &Write| write.over.is_none();
        let is_creating =
            |candidate: &Candidate<RecordElection, RecordRequest, RecordEvent>| match &candidate
                .call
            {
                Call::Sent(RecordRequest::Write(write)) => creates(write),
                Call::Sent(RecordRequest::Read) | Call::None | Call::Replied(_) => false,
            };
        self.record.is_some()
            && self.known_versions.iter().all(|known| *known == self.version)
            && !self.candidates.iter().any(is_creating)
            && !self.late_write.as_ref().is_some_and(creates)
    }
}

impl Model for RecordModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let of = |rates: Vec<u64>, polls| State {
            step: 0,
            candidates: (rates.iter().enumerate())
                .map(|(number, rate)| {
                    Candidate::new(number, *rate, polls, |now| machine(number, 1, now))
                })
                .collect(),
            known_versions: vec![0; rates.len()],
            record: None,
            version: 0,
            watch_events: vec![Vec::new(); rates.len()],
            late_write: None,
            terms: Terms::NONE,
            crashes: 0,
            releases: 0,
            deletions: 0,
        };
        // A promise lies within a claim, so it matters only where a claim can end early.
        let polls = self.releases + self.deletions > 0 || self.memory == Memory::EndedRun;
        self.clocks.of_candidates(self.candidates).map(|rates| of(rates, polls)).collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let is_full = state.version >= self.writes;
        if state.step < self.steps {
            actions.push(Action::Step);
        }
        if state.late_write.is_some() && !is_full {
            actions.push(Action::DeliverLateRequest);
        }
        if state.deletions < self.deletions && state.may_be_deleted() {
            actions.push(Action::Delete);
        }
        for (number, candidate) in state.candidates.iter().enumerate() {
            match &candidate.call {
                Call::None => actions.push(Action::Turn(number)),
                Call::Sent(RecordRequest::Write(_)) if is_full => {
                    actions.push(Action::TimeOut(number));
                }
                Call::Sent(_) => {
                    actions.extend([Action::DeliverRequest(number), Action::TimeOut(number)]);
                }
                Call::Replied(_) => {
                    actions.extend([Action::DeliverReply(number), Action::TimeOut(number)]);
                }
            }
            // A watch starts after a read.
            if !state.watch_events[number].is_empty()
                && candidate.machine.standing() != Standing::Unknown
            {
                actions.push(Action::DeliverWatchEvent(number));
            }
            // A process that starts after a deletion does not know which lease to wait for.
            if state.crashes < self.crashes && state.deletions == 0 {
                actions.push(Action::Crash(number));
            }
            let is_racing = matches!(
                candidate.call,
                Call::Sent(RecordRequest::Write(_)) | Call::Replied(RecordEvent::Applied(_))
            );
            if state.releases < self.releases && candidate.may_withdraw(is_racing) {
                actions.extend(ORDERS.map(|order| Action::Withdraw(number, order)));
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        if let Action::Turn(number) = action {
            // Usually nothing is due, and cloning one candidate is cheaper than cloning the state.
            let mut candidate = last.candidates[number].clone();
            let has_turned = candidate.turn();
            return has_turned.then(|| {
                let mut state = last.clone();
                state.candidates[number] = candidate;
                state.terms.update(&mut state.candidates);
                state
            });
        }
        let mut state = last.clone();
        match action {
            Action::Turn(_) => {}
            Action::Step => {
                state.step += 1;
                state.candidates.iter_mut().for_each(Candidate::step);
            }
            Action::DeliverRequest(number) => {
                let Call::Sent(request) = state.candidates[number].call.clone() else {
                    return None;
                };
                state.candidates[number].call =
                    Call::Replied(state.perform(request, self.watch_events));
            }
            Action::DeliverReply(number) => {
                let event = state.candidates[number].handle_reply()?;
                state.learn(number, &event);
            }
            Action::TimeOut(number) => {
                let request = state.candidates[number].time_out();
                state.abandon(request, self.late_writes);
            }
            Action::DeliverLateRequest => {
                let write = state.late_write.take()?;
                state.replace(&write, self.watch_events);
            }
            Action::DeliverWatchEvent(number) => {
                let event = RecordEvent::WatchEvent(state.watch_events[number].remove(0));
                state.learn(number, &event);
                state.candidates[number].handle_event(event);
            }
            Action::Crash(number) => {
                state.crashes += 1;
                (state.known_versions[number], state.watch_events[number]) = (0, Vec::new());
                let candidate = &mut state.candidates[number];
                let (starts, now) = (candidate.starts, candidate.now());
                let mut machine = machine(number, starts + 1, now);
                if self.memory == Memory::EndedRun {
                    let ended = identity(number, starts);
                    machine = machine.with_ended_run(candidates::ended_run(ended, &timing(), now));
                }
                let request = candidate.restart(machine);
                state.abandon(request, self.late_writes);
            }
            Action::Withdraw(number, order) => {
                state.releases += 1;
                state.candidates[number].withdraw(order);
            }
            Action::Delete => {
                state.deletions += 1;
                state.set(None, self.watch_events);
            }
        }
        state.terms.update(&mut state.candidates);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always("at most one candidate holds a claim", |_, state| {
                candidates::count_claims(&state.candidates) < 2
            }),
            Property::<Self>::always("at most one candidate promises", |_, state| {
                !candidates::promises_overlap(&state.candidates)
            }),
            Property::<Self>::always("no term begins during a withdrawal", |_, state| {
                !candidates::any_began_withdrawn(&state.candidates)
            }),
            Property::<Self>::always("tokens increase from term to term", |_, state| {
                state.terms.are_increasing()
            }),
            Property::<Self>::sometimes("a candidate leads", |_, state| {
                candidates::count_claims(&state.candidates) == 1
            }),
            Property::<Self>::sometimes("a second term begins", |_, state| {
                state.terms.has_later_than(FencingToken::new(1))
            }),
        ]
    }
}
