//! Runs a scenario: candidates with the machines that ship, on clocks that disagree, over one
//! store.
//!
//! Pure. Start with [`World::step`]. The world checks nothing; an [`Observer`] does. A seed gives
//! the same run on any machine. All numbers are integers, randomness comes from the seed, and
//! events of the same moment happen in the order in which they were scheduled.
//!
//! ```text
//!  draw ──► Scenario ──► World ─┬─ Node × N: clock, process, application
//!                               ├─ Link × N: delivery of messages
//!                               └─ Store: a record or an ensemble
//!                                     │
//!                                     └─► Observer: every event, at true time
//! ```

mod guards;
mod injection;
mod network;
mod node;
mod timers;
mod view;

use crate::clock::{Clock, Moment};
use crate::event_queue::EventQueue;
use crate::link::Link;
use crate::process::{Input, Process, ProcessAction};
use crate::rng::Rng;
use crate::runner::ToGuard;
use crate::scenario::{CandidateConfig, Fault, Scenario, StoreFault};
use crate::store::{NewProcess, Store};
use crate::trace::{ExitCause, Observer, TraceContext, TraceEvent};
use baton_election::ended_run::EndedRun;
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::timing::Jitter;
use network::{Call, Posted};
use node::Node;
use std::mem::discriminant;
use std::time::Duration;
use timers::{Timer, Timers};
pub(crate) use view::view;
pub use view::{MessageKind, MessageView, NodeView, StoreView, WorldView, ZnodeView};

/// The longest delay until a candidate restarts after a loss. The kubelet takes 0.2 to 1.7 s
/// (measured).
const MAX_RESTART_DELAY: Duration = Duration::from_secs(2);

/// How often a process tries to lock its state directory.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The state of a run.
#[derive(Clone, Debug)]
pub struct World<S: Store, O> {
    now: Moment,
    scenario: Scenario,
    clocks: Vec<Clock>,
    nodes: Vec<Node<S::Election>>,
    store: S,
    /// The active faults of the store, with their indices.
    store_faults: Vec<(usize, StoreFault)>,
    /// Messages in flight.
    in_flight: EventQueue<Posted<S::Election>>,
    /// The index of the next fault to start.
    next_fault: usize,
    /// When each active fault ends, its index, and the candidate or server that it affects.
    active_faults: Vec<(Moment, usize, Option<usize>)>,
    rng: Rng,
    observer: O,
}

/// The next event.
enum Next {
    Fault,
    FaultEnd(usize),
    Message,
    Store,
    Timer(usize, Timer),
    Guard(usize, usize),
    Nothing,
}

impl<S: Store, O: Observer<S::Election>> World<S, O> {
    /// A world at the start of `scenario`.
    pub fn new(scenario: Scenario, store: S, observer: O) -> Self {
        let mut rng = Rng::new(scenario.seed);
        let clocks =
            scenario.candidates.iter().map(|c| Clock::new(c.clock_start, c.clock_rate)).collect();
        let nodes = scenario
            .candidates
            .iter()
            .map(|c| Node::new(c, Link::new(rng.fork(), scenario.latency)))
            .collect();
        let (store_faults, active_faults) = (Vec::new(), Vec::new());
        let in_flight = EventQueue::default();
        Self {
            now: Moment::START,
            scenario,
            clocks,
            nodes,
            store,
            store_faults,
            in_flight,
            next_fault: 0,
            active_faults,
            rng,
            observer,
        }
    }

    /// Runs to the end, and returns the observer.
    pub fn run(mut self) -> O {
        while self.step() {}
        self.observer
    }

    /// Processes the next event; false at the end of the run.
    pub fn step(&mut self) -> bool {
        let (at, next) = self.next();
        if at >= self.scenario.end {
            self.now = self.scenario.end;
            return false;
        }
        self.now = self.now.max(at);
        match next {
            Next::Fault => {
                self.next_fault += 1;
                self.begin_fault(self.next_fault - 1);
            }
            Next::FaultEnd(index) => {
                let (_, fault, affected) = self.active_faults.swap_remove(index);
                self.end_fault(fault, affected);
            }
            Next::Message => self.deliver_next_message(),
            Next::Store => {
                self.store.step(self.now);
                self.apply_effects();
            }
            Next::Timer(node, timer) => self.fire_timer(node, timer),
            Next::Guard(node, index) => self.wake_guard(node, index),
            Next::Nothing => return false,
        }
        true
    }

    /// Processes all events up to `until`.
    pub fn advance(&mut self, until: Moment) {
        while self.next().0 <= until && self.step() {}
    }

    /// Replaces the faults of the scenario.
    ///
    /// The result is the world that a run with these faults reaches, if both lists agree about all
    /// faults that have started.
    pub fn set_faults(&mut self, faults: Vec<Fault>) {
        debug_assert_eq!(self.scenario.faults[..self.next_fault], faults[..self.next_fault]);
        self.scenario.faults = faults;
    }

    /// The true time of the last event.
    pub const fn now(&self) -> Moment {
        self.now
    }

    /// The observer.
    pub const fn observer(&self) -> &O {
        &self.observer
    }

    /// The observer.
    pub const fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }

    /// The first candidate that holds a current claim by its own clock.
    pub fn leader(&self) -> Option<usize> {
        let leads = |(node, clock): (&Node<S::Election>, &Clock)| {
            node.process
                .as_ref()
                .is_some_and(|process| process.claim(clock.read(self.now)).is_some())
        };
        self.nodes.iter().zip(&self.clocks).position(leads)
    }

    fn next(&self) -> (Moment, Next) {
        let mut first = (Moment::NEVER, Next::Nothing);
        let mut consider = |at: Moment, next: Next| {
            if at < first.0 {
                first = (at, next);
            }
        };
        if let Some(fault) = self.scenario.faults.get(self.next_fault) {
            consider(fault.at, Next::Fault);
        }
        for (index, (at, _, _)) in self.active_faults.iter().enumerate() {
            consider(*at, Next::FaultEnd(index));
        }
        consider(self.in_flight.next_at(), Next::Message);
        consider(self.store.next_at(), Next::Store);
        for (number, node) in self.nodes.iter().enumerate() {
            let (at, timer) = node.timers.next();
            consider(at, Next::Timer(number, timer));
            for (index, guard) in node.guards.iter().enumerate() {
                consider(guard.at, Next::Guard(number, index));
            }
        }
        first
    }

    fn fire_timer(&mut self, number: usize, timer: Timer) {
        let node = &mut self.nodes[number];
        node.timers.clear(timer);
        match timer {
            Timer::Resume => self.resume(number),
            Timer::Start => self.start(number),
            Timer::CallTimeout => {
                if let Some(Call { number: call, .. }) = node.call {
                    self.deliver(number, Input::Reply { call, event: None });
                }
            }
            Timer::Wake => self.deliver(number, Input::Wake),
            Timer::Query => {
                let interval = self.scenario.candidates[number].poll_interval;
                let due = self.clocks[number].read(self.now) + interval;
                self.set_timer(number, Timer::Query, due);
                let worker = self.nodes[number].next_worker();
                self.deliver(number, Input::Query(worker));
            }
        }
    }

    /// Hands `input` to the process of candidate `number`, or queues it while that is suspended.
    fn deliver(&mut self, number: usize, input: Input<S::Election>) {
        let now = self.clocks[number].read(self.now);
        let node = &mut self.nodes[number];
        if node.process.is_none() {
            return;
        }
        if node.is_paused {
            node.backlog.push(input);
            return;
        }
        if let Some((_, max_stall, until)) = node.stalls.last().copied()
            && node.link.rng.permille(300)
        {
            let duration = node.link.rng.skewed_duration(max_stall).min(until.since(self.now));
            node.interrupted_input = Some((input, now));
            self.pause(number, duration);
            return;
        }
        self.handle_input(number, input, now);
    }

    /// Lets the process handle `input` at `now` on its clock, and executes the resulting action.
    fn handle_input(&mut self, number: usize, input: Input<S::Election>, now: Instant) {
        let context = TraceContext { now: self.now, clocks: &self.clocks };
        let node = &mut self.nodes[number];
        let Some(process) = &mut node.process else { return };
        if let Input::Reply { call, .. } = input {
            // The reply and the timeout may both be queued. The first one that is handled counts.
            let Some(call) = node.call.take_if(|pending| pending.number == call) else { return };
            node.timers.clear(Timer::CallTimeout);
            if call.is_impaired {
                self.observer.observe(&context, &TraceEvent::Disturbed(Some(number)));
            }
        }
        if let Input::Reply { event: Some(event), .. } | Input::WatchEvent(event) = &input {
            self.store.on_handle(number, event);
        }
        let observer = &mut self.observer;
        let action = process.handle(input, now, &mut |event| observer.observe(&context, event));
        let wakes_at = process.wakes_at();
        self.send_to_guard(number);
        match action {
            ProcessAction::Wait => {}
            ProcessAction::Send(request) => self.send(number, request, now),
            ProcessAction::Exit(cause) => return self.exited(number, cause),
        }
        match wakes_at {
            Some(due) => self.set_timer(number, Timer::Wake, due),
            None => self.nodes[number].timers.clear(Timer::Wake),
        }
    }

    /// Sets `timer` to fire when the clock of candidate `number` reads `due`, and at least a
    /// nanosecond from now, so that true time advances.
    fn set_timer(&mut self, number: usize, timer: Timer, due: Instant) {
        let delay = self.nodes[number].link.timer_delay();
        let soonest = self.now + Duration::from_nanos(1);
        let at = self.clocks[number].when(due).max(soonest) + delay;
        self.nodes[number].timers.set(timer, at);
    }

    fn start(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        if node.process.is_some() {
            return;
        }
        let candidate = &self.scenario.candidates[number];
        let CandidateConfig { timing, poll_interval, .. } = *candidate;
        let now = self.clocks[number].read(self.now);
        if candidate.keeps_state && !node.guards.is_empty() {
            // A guard holds the lock of the state directory until its command has ended.
            return self.set_timer(number, Timer::Start, now + LOCK_POLL_INTERVAL);
        }
        node.starts += 1;
        node.restarts_after_stop = false;
        let name = char::from(b'a' + u8::try_from(number).expect("fewer than 26 candidates"));
        let identity = Identity::unique(name.encode_utf8(&mut [0; 4]), node.starts)
            .expect("a letter and a number");
        let promised_until = now + timing.longest_promise();
        let ended_run = node.ended_run.take().map(|identity| EndedRun { identity, promised_until });
        let damping = node.damping(now, timing.retry_period()).min(timing.lease_duration());
        let from = now + damping;
        let jitter = Jitter::new(node.link.rng.next_u64());
        let machine = self.store.machine(NewProcess {
            number,
            candidate,
            identity: identity.clone(),
            jitter,
            from,
            ended_run,
        });
        let process = Process::new(number, identity, machine, candidate, from);
        let context = TraceContext { now: self.now, clocks: &self.clocks };
        self.observer
            .observe(&context, &TraceEvent::ProcessStarted(number, &process.identity, from));
        node.process = Some(process);
        node.link.watch_is_broken = node.link.watch_faults > 0;
        let first_query = node.link.rng.duration_between(Duration::ZERO, poll_interval);
        self.set_timer(number, Timer::Query, now + first_query);
        self.deliver(number, Input::Wake);
    }

    /// Handles the exit of a process. It restarts soon after a loss, and at the end of the fault
    /// after a stop or a crash.
    fn exited(&mut self, number: usize, cause: ExitCause) {
        // A process that is killed cannot kill its command.
        if cause != ExitCause::Crashed {
            self.tell_guard(number, ToGuard::Kill);
        }
        self.tell_guard(number, ToGuard::ElectorGone);
        let context = TraceContext { now: self.now, clocks: &self.clocks };
        self.observer.observe(&context, &TraceEvent::ProcessExited(number, cause));
        let now = self.clocks[number].read(self.now);
        let CandidateConfig { keeps_state, asks, command, .. } = self.scenario.candidates[number];
        let node = &mut self.nodes[number];
        // Otherwise the application may act without a promise.
        let is_releasable =
            keeps_state && cause != ExitCause::Stopped && (asks || command.is_some());
        node.ended_run =
            node.process.take().filter(|_| is_releasable).map(|process| process.identity);
        node.call = None;
        node.interrupted_input = None;
        node.backlog.clear();
        node.is_paused = false;
        node.timers = Timers::default();
        match cause {
            ExitCause::Stopped if node.restarts_after_stop => {
                node.timers.set(Timer::Start, self.now);
            }
            ExitCause::Stopped => {}
            ExitCause::Crashed => node.failures.push(now),
            ExitCause::LeadershipLost(_) => {
                node.failures.push(now);
                let delay = node.link.rng.skewed_duration(MAX_RESTART_DELAY);
                node.timers.set(Timer::Start, self.now + delay);
            }
        }
    }

    /// Suspends the process of candidate `number` for `duration`.
    fn pause(&mut self, number: usize, duration: Duration) {
        let node = &mut self.nodes[number];
        let until = self.now + duration;
        let until = if node.is_paused { node.timers.at(Timer::Resume).max(until) } else { until };
        node.timers.set(Timer::Resume, until);
        node.is_paused = true;
    }

    /// Resumes a process: first the interrupted input, then the backlog in random order, except
    /// that watch events stay in order, and so do messages of a guard.
    fn resume(&mut self, number: usize) {
        self.nodes[number].is_paused = false;
        if let Some((input, read_at)) = self.nodes[number].interrupted_input.take() {
            self.handle_input(number, input, read_at);
        }
        while !self.nodes[number].is_paused && !self.nodes[number].backlog.is_empty() {
            let node = &mut self.nodes[number];
            let drawn = node.link.rng.index(node.backlog.len());
            let kind = discriminant(&node.backlog[drawn]);
            let is_ordered =
                matches!(node.backlog[drawn], Input::WatchEvent(_) | Input::FromGuard(_));
            let is_same = |input: &Input<S::Election>| discriminant(input) == kind;
            let first = node.backlog.iter().position(is_same);
            let taken = first.filter(|_| is_ordered).unwrap_or(drawn);
            let input = node.backlog.remove(taken);
            self.deliver(number, input);
        }
    }
}
