//! Small worlds around sessions, as an ensemble of ZooKeeper servers keeps them.
//!
//! Each candidate is connected to a server of its own, which answers reads alone, and tells the ensemble's leader whom it heard of
//! before time goes on. A server that is cut off does neither: it goes on answering reads, of what it knew, and is
//! left at the next connect. A session lives for its time-out by the leader's clock, and may end at any moment from then on.
//! That pings are late, servers behind, and leaders elected anew is drawn by the simulator. Start with [`Action`].

use super::candidates::{self, Call, Candidate, Clocks, Terms, VALIDITY};
use super::ensemble::{Connection, State, TIMEOUT, Tree};
use baton_election::claim::FencingToken;
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::queue::QueueElection;
use baton_election::queue::messages::{QueueEvent, QueueRequest};
use baton_election::queue::timing::SessionTiming;
use baton_election::timing::{Drift, Durations, Jitter, Timing};
use stateright::{Model, Property};
use std::sync::Arc;
use std::time::Duration;

/// How large a world may become.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    pub(crate) candidates: usize,
    pub(crate) clocks: Clocks,
    /// Steps of time. In each a slow clock counts two seconds, and a fast one three; the leader's clock is one of them.
    pub(crate) steps: u8,
    /// Sessions that are opened, before none is any more.
    pub(crate) sessions: usize,
    /// Whether a request whose caller has given up may be done all the same, at any time; of two, the younger.
    pub(crate) late: bool,
    /// Whether a reply comes in as soon as its request is done.
    pub(crate) prompt: bool,
    /// Whether all stand in the line as it begins, in the order of their numbers, and know it.
    pub(crate) joined: bool,
    /// How many servers are cut off, processes killed and followed by another, leaderships given up, and znodes of those
    /// who stand behind another deleted by a stranger.
    pub(crate) cuts: u8,
    pub(crate) crashes: u8,
    pub(crate) releases: u8,
    pub(crate) deletions: u8,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Time passes, for everybody.
    Step,
    /// A driver turns because it is due.
    Turn(usize),
    /// A request reaches its server, and is done.
    Arrives(usize),
    /// A reply comes in.
    Hears(usize),
    /// A call is given up; its reply is lost, and the connection.
    GivesUp(usize),
    /// A request that was given up is done.
    ArrivesLate,
    /// A server answers the leader's ping, and tells whom it heard of.
    Pong(usize),
    /// A server is cut off from the others.
    Cut(usize),
    /// The leader ends a session.
    Expires(usize),
    /// A watch fires.
    Fires(usize),
    /// SIGKILL, and another process in its place.
    Crashes(usize),
    /// It is to give leadership up.
    Withdraws(usize),
    /// Its last promise has run out.
    Releases(usize),
    /// A stranger deletes its znode.
    Deletes(usize),
}

/// Durations that only just pass with sessions of 5 s and ticks of half a second, when clocks are 20 % off either way: the slowest
/// leader stops in the step in which the fastest server may end its session.
fn machine(number: usize, start: u8, from: Instant) -> QueueElection {
    let [lease_duration, renew_deadline, retry_period] =
        [TIMEOUT * 1_000, 2_300, 1_000].map(Duration::from_millis);
    let durations =
        Durations { lease_duration, renew_deadline, retry_period, answer_validity: VALIDITY };
    let drift = Drift::parts_per_million(200_000).expect("less than the whole");
    let timing = Timing::new(durations, drift).expect("2.3 s × 1.2 is less than 5 s × 0.8");
    let timing = SessionTiming::new(timing, Duration::from_millis(500))
        .expect("3.3 s are left, less a heartbeat");
    let identity = Identity::parse(&format!("{number}_{start}")).expect("two numbers");
    QueueElection::new(identity, timing, Jitter::none(), from)
}

impl World {
    /// What `number` asked for is done, if its server need not wait.
    fn arrive(&self, state: &mut State, number: usize) -> Option<()> {
        let Call::Sent(request) = state.candidates[number].call.clone() else { return None };
        state.candidates[number].call = Call::Replied(state.perform(number, &request)?);
        if self.prompt {
            state.candidates[number].hear_reply();
        }
        Some(())
    }

    /// `state`, after candidate `number` has done all that it can do at once.
    fn join(&self, mut state: State, number: usize) -> State {
        let is_its_own = |action: &Action| {
            [Action::Turn, Action::Arrives, Action::Hears, Action::Pong]
                .iter()
                .any(|of| *action == of(number))
        };
        loop {
            let mut actions = Vec::new();
            self.actions(&state, &mut actions);
            match actions
                .into_iter()
                .filter(is_its_own)
                .find_map(|action| self.next_state(&state, action))
            {
                Some(next) => state = next,
                None => return state,
            }
        }
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let of = |rate, rates: &[u64], asks| State {
            step: 0,
            candidates: (rates.iter().enumerate())
                .map(|(number, rate)| {
                    Candidate::new(number, *rate, asks, |now| machine(number, 1, now))
                })
                .collect(),
            connections: vec![Connection::NONE; rates.len()],
            rate,
            shows: 0,
            sessions: Vec::new(),
            tree: Arc::new(Tree { line: Vec::new(), leader: None }),
            joined: 0,
            late: None,
            terms: Terms::NONE,
            cuts: 0,
            crashes: 0,
            releases: 0,
            deletions: 0,
        };
        // An answer lies within a claim: it matters to nobody where no claim is given up before its end.
        let asks = self.releases > 0;
        let clocks = self.clocks.of_candidates(self.candidates);
        let states = clocks
            .flat_map(|rates| self.clocks.of_ensemble().map(move |rate| of(rate, &rates, asks)));
        let joining = || (0..self.candidates).filter(|_| self.joined);
        states
            .map(|state| joining().fold(state, |state, number| self.join(state, number)))
            .collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.step < self.steps && !state.connections.iter().any(Connection::has_news) {
            actions.push(Action::Step);
        }
        if state.late.is_some() {
            actions.push(Action::ArrivesLate);
        }
        for (number, (candidate, connection)) in
            state.candidates.iter().zip(&state.connections).enumerate()
        {
            match &candidate.call {
                Call::None => actions.push(Action::Turn(number)),
                Call::Sent(QueueRequest::Begin { .. }) if state.sessions.len() >= self.sessions => {
                }
                Call::Sent(_) => actions.extend([Action::Arrives(number), Action::GivesUp(number)]),
                Call::Replied(_) => {
                    actions.extend([Action::Hears(number), Action::GivesUp(number)]);
                }
            }
            if connection.has_news() {
                actions.push(Action::Pong(number));
            }
            if connection.session.is_some() && connection.cut.is_none() && state.cuts < self.cuts {
                actions.push(Action::Cut(number));
            }
            if connection.fires {
                actions.push(Action::Fires(number));
            }
            if state.crashes < self.crashes {
                actions.push(Action::Crashes(number));
            }
            if state.releases < self.releases && candidate.may_withdraw(false) {
                actions.push(Action::Withdraws(number));
            }
            if candidate.may_release() {
                actions.push(Action::Releases(number));
            }
            if state.deletions < self.deletions && state.waits(number) {
                actions.push(Action::Deletes(number));
            }
        }
        for (session, lives) in state.sessions.iter().enumerate() {
            if lives.is_some_and(|lives| lives < state.shows) {
                actions.push(Action::Expires(session));
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
                state.shows += state.rate;
                state.candidates.iter_mut().for_each(Candidate::step);
            }
            Action::Arrives(number) => self.arrive(&mut state, number)?,
            Action::Hears(number) => {
                state.candidates[number].hear_reply()?;
            }
            Action::GivesUp(number) => {
                let request = state.candidates[number].give_up();
                state.abandon(number, request, self.late);
            }
            Action::ArrivesLate => {
                let (session, request) = state.late.take()?;
                state.agree(session, &request);
            }
            Action::Pong(number) => {
                let connection = &mut state.connections[number];
                connection.is_untold = false;
                let session = connection.session?;
                if state.sessions[session].is_some() {
                    state.sessions[session] = Some(state.shows + TIMEOUT);
                }
            }
            Action::Cut(number) => {
                state.cuts += 1;
                state.connections[number].cut = Some(Arc::clone(&state.tree));
            }
            Action::Expires(session) => state.end(session),
            Action::Fires(number) => {
                state.connections[number].fires = false;
                state.candidates[number].hear(QueueEvent::WatchFired);
            }
            Action::Crashes(number) => {
                state.crashes += 1;
                let candidate = &mut state.candidates[number];
                let request =
                    candidate.restart(machine(number, candidate.starts + 1, candidate.now()));
                state.abandon(number, request, self.late);
            }
            Action::Withdraws(number) => {
                state.releases += 1;
                state.candidates[number].withdraw();
            }
            Action::Releases(number) => state.candidates[number].release(),
            Action::Deletes(number) => {
                state.deletions += 1;
                let session = state.connections[number].session;
                state.remove(|znode| Some(znode.session) == session);
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
