//! A simulated world: candidates that run the machines that ship, on clocks that disagree, over one store, on true time.
//!
//! Pure, and built only with the feature `sim`: no release knows of it. It shares the machines, the claims and the promises
//! with what ships, and nothing else; it judges nothing. Start with [`World::step`]. A seed unfolds the same way on any
//! machine: numbers are whole, rng is handed in, and what happens at one moment happens in the order in which it
//! was decided.
//!
//! ```text
//!  storm ─draws─► Scenario ─► World ─┬─ Node × N: a clock, a process (machine, driver's rules), its application
//!                                 ├─ Link × N: what becomes of calls, replies and news
//!                                 └─ Store: one record, or an ensemble, in the one order in which requests deliver_next_message
//!                                        │
//!                                        └─► Observer: all that happens, on true time
//! ```

mod injection;
mod network;
mod node;

use crate::clock::{Clock, Moment};
use crate::event_queue::EventQueue;
use crate::link::Link;
use crate::process::{Input, Process, ProcessAction};
use crate::rng::Rng;
use crate::scenario::{Candidate, Scenario, StoreFault};
use crate::store::Store;
use crate::trace::{ExitCause, Observer, TraceContext, TraceEvent};
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::timing::Jitter;
use network::{Call, Message};
use node::{Node, Timer};
use std::time::Duration;

/// A candidate is restarted so long after it lost, at the most; kubelet was measured at 0.2 to 1.7 s.
const MAX_RESTART_DELAY: Duration = Duration::from_secs(2);

/// A world, as it is at one moment.
#[derive(Debug)]
pub struct World<S: Store, O> {
    now: Moment,
    scenario: Scenario,
    clocks: Vec<Clock>,
    nodes: Vec<Node<S::Election>>,
    store: S,
    /// FaultKind is wrong with the store, and by which fault.
    store_faults: Vec<(usize, StoreFault)>,
    /// FaultKind is on its way.
    in_flight: EventQueue<Message<S::Election>>,
    /// The next fault to begin.
    next_fault: usize,
    /// Faults that will end, and whom they hit.
    active_faults: Vec<(Moment, usize, Option<usize>)>,
    rng: Rng,
    observer: O,
}

/// FaultKind happens next.
enum Next {
    Fault,
    FaultOver(usize),
    Message,
    Store,
    Timer(usize, Timer),
    Nothing,
}

impl<S: Store, O: Observer<S::Election>> World<S, O> {
    /// The world of `scenario`, before anything has happened.
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

    /// Lets everything happen until the end, and restarts_after_stop who has seen it.
    pub fn run(mut self) -> O {
        while self.step() {}
        self.observer
    }

    /// Lets the next thing happen; false when the world is at its end.
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
                self.begin(self.next_fault - 1);
            }
            Next::FaultOver(index) => {
                let (_, fault, candidate) = self.active_faults.swap_remove(index);
                self.end(fault, candidate);
            }
            Next::Message => self.deliver_next_message(),
            Next::Store => {
                self.store.step(self.now);
                self.apply_effects();
            }
            Next::Timer(node, timer) => self.fire_timer(node, timer),
            Next::Nothing => return false,
        }
        true
    }

    /// The true time.
    pub const fn now(&self) -> Moment {
        self.now
    }

    /// Who looks on.
    pub const fn observer(&self) -> &O {
        &self.observer
    }

    /// Whoever holds a claim by its own clock.
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
            consider(*at, Next::FaultOver(index));
        }
        consider(self.in_flight.next_at(), Next::Message);
        consider(self.store.next_at(), Next::Store);
        for (number, node) in self.nodes.iter().enumerate() {
            for (timer, at) in Timer::ALL.into_iter().zip(node.timers) {
                consider(at, Next::Timer(number, timer));
            }
        }
        first
    }

    fn fire_timer(&mut self, number: usize, timer: Timer) {
        let node = &mut self.nodes[number];
        node.timers[timer as usize] = Moment::NEVER;
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
                let every = self.scenario.candidates[number].poll_interval;
                let due = self.clocks[number].read(self.now) + every;
                self.set_timer(number, Timer::Query, due);
                self.deliver(number, Input::Query);
            }
        }
    }

    /// Hands `input` to the process of `number`, at once if that does not stand still.
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
        if let Some((_, longest, until)) = node.stalls.last().copied()
            && node.link.rng.permille(300)
        {
            let duration = node.link.rng.skewed_duration(longest).min(until.since(self.now));
            node.interrupted_input = Some((input, now));
            self.pause(number, duration);
            return;
        }
        self.handle_input(number, input, now);
    }

    /// Lets the process of `number` take `input` in at `now` on its clock, and does what it then wants.
    fn handle_input(&mut self, number: usize, input: Input<S::Election>, now: Instant) {
        let context = TraceContext { now: self.now, clocks: &self.clocks };
        let node = &mut self.nodes[number];
        let Some(process) = &mut node.process else { return };
        if let Input::Reply { call, .. } = input {
            // The reply and its time-out may both have waited: the first that is taken in counts.
            let Some(over) = node.call.take_if(|waiting| waiting.number == call) else { return };
            node.timers[Timer::CallTimeout as usize] = Moment::NEVER;
            if over.is_impaired {
                self.observer.observe(&context, &TraceEvent::Disturbed(Some(number)));
            }
        }
        let observer = &mut self.observer;
        let step = process.handle(input, now, &mut |event| observer.observe(&context, event));
        let wakes_at = process.wakes_at();
        match step {
            ProcessAction::Wait => {}
            ProcessAction::Send(request) => self.send(number, request, now),
            ProcessAction::Exit(end) => return self.exited(number, end),
        }
        match wakes_at {
            Some(due) => self.set_timer(number, Timer::Wake, due),
            None => self.nodes[number].timers[Timer::Wake as usize] = Moment::NEVER,
        }
    }

    /// Rings when the clock of `number` shows `due`; never at this very moment again, since a timer takes some time.
    fn set_timer(&mut self, number: usize, timer: Timer, due: Instant) {
        let late = self.nodes[number].link.latency() / 8;
        let soonest = self.now + Duration::from_nanos(1);
        self.nodes[number].timers[timer as usize] =
            self.clocks[number].when(due).max(soonest) + late;
    }

    fn start(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        if node.process.is_some() {
            return;
        }
        let candidate = &self.scenario.candidates[number];
        let Candidate { timing, stays_on_loss, poll_interval, .. } = *candidate;
        node.starts += 1;
        node.restarts_after_stop = false;
        let name = char::from(b'a' + u8::try_from(number).expect("a world has few candidates"));
        let identity = Identity::unique(name.encode_utf8(&mut [0; 4]), node.starts)
            .expect("a letter and a number");
        let now = self.clocks[number].read(self.now);
        let damping = node.damping(now, timing.retry_period()).min(timing.lease_duration());
        let from = now + damping;
        let jitter = Jitter::new(node.link.rng.next_u64());
        let machine = self.store.machine(identity.clone(), candidate, jitter, from);
        let process = Process::new(number, identity, machine, timing, stays_on_loss);
        let context = TraceContext { now: self.now, clocks: &self.clocks };
        self.observer
            .observe(&context, &TraceEvent::ProcessStarted(number, &process.identity, from));
        node.process = Some(process);
        node.link.watch_is_broken = node.link.watch_faults > 0;
        let first_query = node.link.rng.duration_between(Duration::ZERO, poll_interval);
        self.set_timer(number, Timer::Query, now + first_query);
        self.deliver(number, Input::Wake);
    }

    /// The process of `number` is over. One that lost is restarted; one that stopped comes back when its fault is over.
    fn exited(&mut self, number: usize, end: ExitCause) {
        let context = TraceContext { now: self.now, clocks: &self.clocks };
        self.observer.observe(&context, &TraceEvent::ProcessExited(number, end));
        let now = self.clocks[number].read(self.now);
        let node = &mut self.nodes[number];
        node.process = None;
        node.call = None;
        node.interrupted_input = None;
        node.backlog.clear();
        node.is_paused = false;
        node.timers = [Moment::NEVER; Timer::COUNT];
        match end {
            ExitCause::Stopped if node.restarts_after_stop => {
                node.timers[Timer::Start as usize] = self.now
            }
            ExitCause::Stopped => {}
            ExitCause::Crashed => node.failures.push(now),
            ExitCause::LeadershipLost(_) => {
                node.failures.push(now);
                let delay = node.link.rng.skewed_duration(MAX_RESTART_DELAY);
                node.timers[Timer::Start as usize] = self.now + delay;
            }
        }
    }

    /// Nothing reaches the process of `number` for so long.
    fn pause(&mut self, number: usize, duration: Duration) {
        let node = &mut self.nodes[number];
        let until = self.now + duration;
        let timer = &mut node.timers[Timer::Resume as usize];
        *timer = if node.is_paused { (*timer).max(until) } else { until };
        node.is_paused = true;
    }

    /// FaultKind waited is taken in: first what was in hand, then the delay in any order, but news in theirs.
    fn resume(&mut self, number: usize) {
        self.nodes[number].is_paused = false;
        if let Some((input, then)) = self.nodes[number].interrupted_input.take() {
            self.handle_input(number, input, then);
        }
        while !self.nodes[number].is_paused && !self.nodes[number].backlog.is_empty() {
            let node = &mut self.nodes[number];
            let drawn = node.link.rng.index(node.backlog.len());
            let is_watch_event = |input: &Input<S::Election>| matches!(input, Input::WatchEvent(_));
            let taken = if is_watch_event(&node.backlog[drawn]) {
                node.backlog.iter().position(is_watch_event).expect("one was just seen")
            } else {
                drawn
            };
            let input = node.backlog.remove(taken);
            self.deliver(number, input);
        }
    }
}
