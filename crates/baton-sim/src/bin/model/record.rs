//! Small worlds around one record, as Lease and file have it.
//!
//! Start with [`Action`]: each is one thing that may happen next, and nothing has to happen before another but what it comes of. So
//! processes stand still as long as they like, calls are given up at any time, and replies, news and abandoned writes come late.

use super::candidates::{self, Call, Candidate, Clocks, Terms, VALIDITY};
use baton_election::claim::{FencingToken, Standing};
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::machine::Election;
use baton_election::record::RecordElection;
use baton_election::record::messages::{
    Record, RecordEvent, RecordRequest, Snapshot, Stamp, Version, Write,
};
use baton_election::timing::{Drift, Durations, Jitter, Timing};
use stateright::{Model, Property};
use std::time::Duration;

/// How large a world may become.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    pub(crate) candidates: usize,
    pub(crate) clocks: Clocks,
    /// Steps of time. In each a slow clock counts two seconds, and a fast one three.
    pub(crate) steps: u8,
    /// Writes that the store does, before it does none any more.
    pub(crate) writes: u8,
    /// Whether changes are told: in their order, and as late as may be.
    pub(crate) news: bool,
    /// Whether a write whose caller has given up may be done all the same, at any time; of two, the younger.
    pub(crate) late: bool,
    /// How many processes are killed, and followed by another; how many give leadership up; how often a stranger
    /// deletes the record, when everybody has seen its last change.
    pub(crate) crashes: u8,
    pub(crate) releases: u8,
    pub(crate) deletions: u8,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct State {
    step: u8,
    candidates: Vec<Candidate<RecordElection, RecordRequest, RecordEvent>>,
    /// The largest version that each has taken in.
    known: Vec<u8>,
    record: Option<Snapshot>,
    version: u8,
    /// Changes that each is still to be told of, oldest first.
    news: Vec<Vec<Option<Snapshot>>>,
    /// A write that nobody waits for any more.
    late: Option<Write>,
    terms: Terms,
    crashes: u8,
    releases: u8,
    deletions: u8,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Time passes, for everybody.
    Step,
    /// A driver turns because it is due.
    Turn(usize),
    /// A request reaches the store, and is done.
    Arrives(usize),
    /// A reply comes in.
    Hears(usize),
    /// A call is given up; its reply is lost.
    GivesUp(usize),
    /// A write that was given up is done.
    ArrivesLate,
    /// News come in.
    Notices(usize),
    /// SIGKILL, and another process in its place.
    Crashes(usize),
    /// It is to give leadership up.
    Withdraws(usize),
    /// Its last promise has run out.
    Releases(usize),
    /// A stranger deletes the record.
    Deletes,
}

/// Durations that only just pass when clocks are 20 % off either way: the slowest leader stops in the step in which the fastest
/// follower may begin.
fn machine(number: usize, start: u8, from: Instant) -> RecordElection {
    let [lease_duration, renew_deadline, retry_period] =
        [5_000, 3_300, 1_000].map(Duration::from_millis);
    let durations =
        Durations { lease_duration, renew_deadline, retry_period, answer_validity: VALIDITY };
    let drift = Drift::parts_per_million(200_000).expect("less than the whole");
    let timing = Timing::new(durations, drift).expect("3.3 s × 1.2 is less than 5 s × 0.8");
    let identity = Identity::parse(&format!("{number}_{start}")).expect("two numbers");
    RecordElection::new(identity, timing, Jitter::none(), from)
}

impl State {
    fn perform(&mut self, request: RecordRequest, tells: bool) -> RecordEvent {
        match request {
            RecordRequest::Read => RecordEvent::Read(self.record.clone()),
            RecordRequest::Write(write) => self.replace(&write, tells),
        }
    }

    fn replace(&mut self, write: &Write, tells: bool) -> RecordEvent {
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
        self.set(Some(snapshot.clone()), tells);
        RecordEvent::Applied(snapshot)
    }

    fn set(&mut self, record: Option<Snapshot>, tells: bool) {
        self.record = record;
        if tells {
            self.news.iter_mut().for_each(|news| news.push(self.record.clone()));
        }
    }

    fn abandon(&mut self, request: Option<RecordRequest>, late: bool) {
        if let Some(RecordRequest::Write(write)) = request
            && late
        {
            self.late = Some(write);
        }
    }

    fn learns(&mut self, number: usize, event: &RecordEvent) {
        if let RecordEvent::Read(Some(seen))
        | RecordEvent::Applied(seen)
        | RecordEvent::WatchEvent(Some(seen)) = event
        {
            let version = u8::try_from(seen.version.number).expect("versions are counted in bytes");
            self.known[number] = self.known[number].max(version);
        }
    }

    /// Whether a deletion is one that the machines promise to outlive: everybody knows whom to wait for, and nobody has a
    /// create on its way.
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
            && self.known.iter().all(|known| *known == self.version)
            && !self.candidates.iter().any(is_creating)
            && !self.late.as_ref().is_some_and(creates)
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let of = |rates: Vec<u64>, asks| State {
            step: 0,
            candidates: (rates.iter().enumerate())
                .map(|(number, rate)| {
                    Candidate::new(number, *rate, asks, |now| machine(number, 1, now))
                })
                .collect(),
            known: vec![0; rates.len()],
            record: None,
            version: 0,
            news: vec![Vec::new(); rates.len()],
            late: None,
            terms: Terms::NONE,
            crashes: 0,
            releases: 0,
            deletions: 0,
        };
        // An answer lies within a claim: it matters to nobody where no claim is given up before its end.
        let asks = self.releases + self.deletions > 0;
        self.clocks.of_candidates(self.candidates).map(|rates| of(rates, asks)).collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let is_full = state.version >= self.writes;
        if state.step < self.steps {
            actions.push(Action::Step);
        }
        if state.late.is_some() && !is_full {
            actions.push(Action::ArrivesLate);
        }
        if state.deletions < self.deletions && state.may_be_deleted() {
            actions.push(Action::Deletes);
        }
        for (number, candidate) in state.candidates.iter().enumerate() {
            match &candidate.call {
                Call::None => actions.push(Action::Turn(number)),
                Call::Sent(RecordRequest::Write(_)) if is_full => {
                    actions.push(Action::GivesUp(number));
                }
                Call::Sent(_) => actions.extend([Action::Arrives(number), Action::GivesUp(number)]),
                Call::Replied(_) => {
                    actions.extend([Action::Hears(number), Action::GivesUp(number)]);
                }
            }
            // A watch begins where a read ended.
            if !state.news[number].is_empty() && candidate.machine.standing() != Standing::Unknown {
                actions.push(Action::Notices(number));
            }
            // Who comes after a deletion knows of nobody to wait for.
            if state.crashes < self.crashes && state.deletions == 0 {
                actions.push(Action::Crashes(number));
            }
            let is_racing = matches!(
                candidate.call,
                Call::Sent(RecordRequest::Write(_)) | Call::Replied(RecordEvent::Applied(_))
            );
            if state.releases < self.releases && candidate.may_withdraw(is_racing) {
                actions.push(Action::Withdraws(number));
            }
            if candidate.may_release() {
                actions.push(Action::Releases(number));
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        if let Action::Turn(number) = action {
            // Most often nothing is due, which is cheaper to see of one candidate than of all.
            let mut candidate = last.candidates[number].clone();
            let has_turned = candidate.turn();
            return has_turned.then(|| {
                let mut state = last.clone();
                state.candidates[number] = candidate;
                state.terms.note(&mut state.candidates);
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
            Action::Arrives(number) => {
                let Call::Sent(request) = state.candidates[number].call.clone() else {
                    return None;
                };
                state.candidates[number].call = Call::Replied(state.perform(request, self.news));
            }
            Action::Hears(number) => {
                let event = state.candidates[number].hear_reply()?;
                state.learns(number, &event);
            }
            Action::GivesUp(number) => {
                let request = state.candidates[number].give_up();
                state.abandon(request, self.late);
            }
            Action::ArrivesLate => {
                let write = state.late.take()?;
                state.replace(&write, self.news);
            }
            Action::Notices(number) => {
                let event = RecordEvent::WatchEvent(state.news[number].remove(0));
                state.learns(number, &event);
                state.candidates[number].hear(event);
            }
            Action::Crashes(number) => {
                state.crashes += 1;
                (state.known[number], state.news[number]) = (0, Vec::new());
                let candidate = &mut state.candidates[number];
                let request =
                    candidate.restart(machine(number, candidate.starts + 1, candidate.now()));
                state.abandon(request, self.late);
            }
            Action::Withdraws(number) => {
                state.releases += 1;
                state.candidates[number].withdraw();
            }
            Action::Releases(number) => state.candidates[number].release(),
            Action::Deletes => {
                state.deletions += 1;
                state.set(None, self.news);
            }
        }
        state.terms.note(&mut state.candidates);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always("no two hold a current claim", |_, state| {
                candidates::claims(&state.candidates) < 2
            }),
            Property::<Self>::always(
                "no answer is good beside another's claim or answer",
                |_, state| !candidates::promises_overlap(&state.candidates),
            ),
            Property::<Self>::always("no term begins after a withdrawal", |_, state| {
                !candidates::begins_withdrawn(&state.candidates)
            }),
            Property::<Self>::always("tokens grow from term to term", |_, state| {
                state.terms.are_in_order()
            }),
            Property::<Self>::sometimes("somebody leads", |_, state| {
                candidates::claims(&state.candidates) == 1
            }),
            Property::<Self>::sometimes("another term follows", |_, state| {
                state.terms.follows(FencingToken::new(1))
            }),
        ]
    }
}
