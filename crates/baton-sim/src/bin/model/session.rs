//! A small model of sessions in a ZooKeeper ensemble.
//!
//! Start with [`Action`]. Each candidate has its own server, which answers reads by itself, and
//! reports active sessions to the ensemble's leader before time advances. A partitioned server
//! reports nothing and answers reads from its last state until the candidate connects again. A
//! session lives for its timeout by the leader's clock, and may end at any moment after that. Slow
//! pings, lagging servers, and server elections are left to the simulator.

use super::candidates::{self, Call, Candidate, ClockRates, Memory, ORDERS, Terms, VALIDITY};
use super::ensemble::{Connection, State, TIMEOUT, Tree, id};
use baton_election::claim::FencingToken;
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::queue::QueueElection;
use baton_election::queue::messages::{QueueEvent, QueueRequest};
use baton_election::queue::timing::SessionTiming;
use baton_election::timing::{Drift, Durations, Jitter, Timing};
use baton_election::withdrawals::Order;
use stateright::{Model, Property};
use std::sync::Arc;
use std::time::Duration;

/// The bounds of the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionModel {
    pub(crate) candidates: usize,
    pub(crate) clocks: ClockRates,
    /// Steps of time. Per step, slow clocks advance by two seconds and fast ones by three,
    /// including the clock of the ensemble's leader.
    pub(crate) steps: u8,
    /// The number of sessions that can be opened.
    pub(crate) sessions: usize,
    /// Whether an abandoned request may still be processed at any time. Only the latest one is
    /// kept.
    pub(crate) late_requests: bool,
    /// Whether replies arrive as soon as their requests are processed.
    pub(crate) prompt_replies: bool,
    /// Whether all candidates have joined the queue at the start, in order of their index, and know
    /// it.
    pub(crate) starts_joined: bool,
    /// The number of partitioned servers, of restarts after a crash, of withdrawals, and of znodes
    /// behind another one that another client deletes.
    pub(crate) partitions: u8,
    pub(crate) crashes: u8,
    pub(crate) releases: u8,
    pub(crate) deletions: u8,
    pub(crate) memory: Memory,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Time advances for all.
    Step,
    /// A driver takes a turn that is due.
    Turn(usize),
    /// A request arrives at its server, which processes it.
    DeliverRequest(usize),
    /// A reply arrives.
    DeliverReply(usize),
    /// A call times out. Its reply is lost, and so is the connection.
    TimeOut(usize),
    /// An abandoned request is processed.
    DeliverLateRequest,
    /// A server answers the leader's ping and reports active sessions.
    Pong(usize),
    /// A server is partitioned from the others.
    Partition(usize),
    /// The leader ends a session.
    ExpireSession(usize),
    /// A watch fires.
    FireWatch(usize),
    /// A process is killed and replaced by a new one.
    Crash(usize),
    /// A candidate is ordered to withdraw.
    Withdraw(usize, Order),
    /// Another client deletes the candidate's znode.
    Delete(usize),
}

/// Durations that are barely valid for sessions of 5 s, ticks of 0.5 s, and clocks 20 % off either
/// way. The slowest leader stops in the step in which the fastest server may end its session.
fn timing() -> Timing {
    let [lease_duration, renew_deadline, retry_period] =
        [TIMEOUT * 1_000, 2_300, 1_000].map(Duration::from_millis);
    let durations =
        Durations { lease_duration, renew_deadline, retry_period, answer_validity: VALIDITY };
    let drift = Drift::parts_per_million(200_000).expect("a drift below 100 %");
    Timing::new(durations, drift).expect("2.3 s × 1.2 is less than 5 s × 0.8")
}

fn identity(number: usize, start: u8) -> Identity {
    Identity::parse(&format!("{number}_{start}")).expect("two numbers")
}

fn machine(number: usize, start: u8, from: Instant) -> QueueElection {
    let timing = SessionTiming::new(timing(), Duration::from_millis(500))
        .expect("3.3 s are left, less a heartbeat");
    QueueElection::new(identity(number, start), timing, Jitter::none(), from)
}

impl SessionModel {
    /// Processes the request of candidate `number`, unless its server has to wait.
    fn deliver_request(&self, state: &mut State, number: usize) -> Option<()> {
        let Call::Sent(request) = state.candidates[number].call.clone() else { return None };
        state.candidates[number].call = Call::Replied(state.perform(number, &request)?);
        if self.prompt_replies {
            state.candidates[number].handle_reply();
        }
        Some(())
    }

    /// The machine of the next process of candidate `number`.
    fn next_machine(&self, state: &State, number: usize) -> QueueElection {
        let candidate = &state.candidates[number];
        let (starts, now) = (candidate.starts, candidate.now());
        let machine = machine(number, starts + 1, now);
        match (self.memory, state.connections[number].session) {
            (Memory::EndedRun, Some(session)) => {
                let ended = candidates::ended_run(identity(number, starts), &timing(), now);
                machine.with_ended_run(ended, id(session), Duration::from_secs(TIMEOUT))
            }
            (Memory::Nothing, _) | (_, None) => machine,
        }
    }

    /// Lets candidate `number` act until it has joined the queue and nothing more is due.
    fn join(&self, mut state: State, number: usize) -> State {
        let is_own = |action: &Action| {
            [Action::Turn, Action::DeliverRequest, Action::DeliverReply, Action::Pong]
                .iter()
                .any(|of| *action == of(number))
        };
        loop {
            let mut actions = Vec::new();
            self.actions(&state, &mut actions);
            match actions
                .into_iter()
                .filter(is_own)
                .find_map(|action| self.next_state(&state, action))
            {
                Some(next) => state = next,
                None => return state,
            }
        }
    }
}

impl Model for SessionModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let of = |rate, rates: &[u64], polls| State {
            step: 0,
            candidates: (rates.iter().enumerate())
                .map(|(number, rate)| {
                    Candidate::new(number, *rate, polls, |now| machine(number, 1, now))
                })
                .collect(),
            connections: vec![Connection::NONE; rates.len()],
            rate,
            clock: 0,
            sessions: Vec::new(),
            tree: Arc::new(Tree { queue: Vec::new(), leader: None }),
            join_count: 0,
            late_request: None,
            terms: Terms::NONE,
            partitions: 0,
            crashes: 0,
            releases: 0,
            deletions: 0,
        };
        // A promise lies within a claim, so it matters only where a claim can end early.
        let polls = self.releases > 0 || self.memory == Memory::EndedRun;
        let clocks = self.clocks.of_candidates(self.candidates);
        let states = clocks
            .flat_map(|rates| self.clocks.of_ensemble().map(move |rate| of(rate, &rates, polls)));
        let joining = || (0..self.candidates).filter(|_| self.starts_joined);
        states
            .map(|state| joining().fold(state, |state, number| self.join(state, number)))
            .collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.step < self.steps && !state.connections.iter().any(Connection::must_report) {
            actions.push(Action::Step);
        }
        if state.late_request.is_some() {
            actions.push(Action::DeliverLateRequest);
        }
        for (number, (candidate, connection)) in
            state.candidates.iter().zip(&state.connections).enumerate()
        {
            match &candidate.call {
                Call::None => actions.push(Action::Turn(number)),
                Call::Sent(QueueRequest::Begin { .. }) if state.sessions.len() >= self.sessions => {
                }
                Call::Sent(_) => {
                    actions.extend([Action::DeliverRequest(number), Action::TimeOut(number)]);
                }
                Call::Replied(_) => {
                    actions.extend([Action::DeliverReply(number), Action::TimeOut(number)]);
                }
            }
            if connection.must_report() {
                actions.push(Action::Pong(number));
            }
            if connection.session.is_some()
                && connection.partition_view.is_none()
                && state.partitions < self.partitions
            {
                actions.push(Action::Partition(number));
            }
            if connection.watch_fired {
                actions.push(Action::FireWatch(number));
            }
            if state.crashes < self.crashes {
                actions.push(Action::Crash(number));
            }
            if state.releases < self.releases && candidate.may_withdraw(false) {
                actions.extend(ORDERS.map(|order| Action::Withdraw(number, order)));
            }
            if state.deletions < self.deletions && state.is_behind_another(number) {
                actions.push(Action::Delete(number));
            }
        }
        for (session, lives_until) in state.sessions.iter().enumerate() {
            if lives_until.is_some_and(|until| until < state.clock) {
                actions.push(Action::ExpireSession(session));
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
                state.clock += state.rate;
                state.candidates.iter_mut().for_each(Candidate::step);
            }
            Action::DeliverRequest(number) => self.deliver_request(&mut state, number)?,
            Action::DeliverReply(number) => {
                state.candidates[number].handle_reply()?;
            }
            Action::TimeOut(number) => {
                let request = state.candidates[number].time_out();
                state.abandon(number, request, self.late_requests);
            }
            Action::DeliverLateRequest => {
                let (session, request) = state.late_request.take()?;
                state.agree(session, &request);
            }
            Action::Pong(number) => {
                let connection = &mut state.connections[number];
                connection.has_unreported_activity = false;
                let session = connection.session?;
                if state.sessions[session].is_some() {
                    state.sessions[session] = Some(state.clock + TIMEOUT);
                }
            }
            Action::Partition(number) => {
                state.partitions += 1;
                state.connections[number].partition_view = Some(Arc::clone(&state.tree));
            }
            Action::ExpireSession(session) => state.end(session),
            Action::FireWatch(number) => {
                state.connections[number].watch_fired = false;
                state.candidates[number].handle_event(QueueEvent::WatchFired);
            }
            Action::Crash(number) => {
                state.crashes += 1;
                let machine = self.next_machine(&state, number);
                let request = state.candidates[number].restart(machine);
                state.abandon(number, request, self.late_requests);
            }
            Action::Withdraw(number, order) => {
                state.releases += 1;
                state.candidates[number].withdraw(order);
            }
            Action::Delete(number) => {
                state.deletions += 1;
                let session = state.connections[number].session;
                state.remove(|znode| Some(znode.session) == session);
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
