//! A simulated world: candidates that run the machines that ship, on clocks that disagree, over one store, on true time.
//!
//! Pure, and built only with the feature `sim`: no release knows of it. It shares the machines, the claims and the promises
//! with what ships, and nothing else; it judges nothing. Start with [`World::step`]. A seed unfolds the same way on any
//! machine: numbers are whole, chance is handed in, and what happens at one moment happens in the order in which it
//! was decided.
//!
//! ```text
//!  storm ─draws─► Setup ─► World ─┬─ Node × N: a clock, a process (machine, driver's rules), its application
//!                                 ├─ Link × N: what becomes of calls, replies and news
//!                                 └─ Store: one record, or an ensemble, in the one order in which requests arrive
//!                                        │
//!                                        └─► Observer: all that happens, on true time
//! ```

mod injection;
mod network;
mod node;

use crate::clock::{Clock, Moment};
use crate::link::Link;
use crate::process::{Input, Process, Step};
use crate::rng::Chance;
use crate::scenario::{Candidate, Outage, Setup};
use crate::schedule::Queue;
use crate::store::Store;
use crate::trace::{End, Happening, Observer, Scene};
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::timing::Jitter;
use network::{Call, Message};
use node::{Alarm, Node};
use std::time::Duration;

/// A candidate is restarted so long after it lost, at the most; kubelet was measured at 0.2 to 1.7 s.
const LONGEST_RESTART: Duration = Duration::from_secs(2);

/// A world, as it is at one moment.
#[derive(Debug)]
pub struct World<S: Store, O> {
    now: Moment,
    setup: Setup,
    clocks: Vec<Clock>,
    nodes: Vec<Node<S::Election>>,
    store: S,
    /// What is wrong with the store, and by which fault.
    outages: Vec<(usize, Outage)>,
    /// What is on its way.
    post: Queue<Message<S::Election>>,
    /// The next fault to begin.
    next_fault: usize,
    /// Faults that will end, and whom they hit.
    ends: Vec<(Moment, usize, Option<usize>)>,
    chance: Chance,
    observer: O,
}

/// What happens next.
enum Next {
    Fault,
    FaultOver(usize),
    Message,
    Store,
    Alarm(usize, Alarm),
    Nothing,
}

impl<S: Store, O: Observer<S::Election>> World<S, O> {
    /// The world of `setup`, before anything has happened.
    pub fn new(setup: Setup, store: S, observer: O) -> Self {
        let mut chance = Chance::new(setup.seed);
        let clocks =
            setup.candidates.iter().map(|c| Clock::new(c.clock_shows, c.clock_rate)).collect();
        let nodes = setup
            .candidates
            .iter()
            .map(|c| Node::new(c, Link::new(chance.fork(), setup.latency)))
            .collect();
        let (outages, ends) = (Vec::new(), Vec::new());
        let post = Queue::default();
        Self {
            now: Moment::START,
            setup,
            clocks,
            nodes,
            store,
            outages,
            post,
            next_fault: 0,
            ends,
            chance,
            observer,
        }
    }

    /// Lets everything happen until the end, and returns who has seen it.
    pub fn run(mut self) -> O {
        while self.step() {}
        self.observer
    }

    /// Lets the next thing happen; false when the world is at its end.
    pub fn step(&mut self) -> bool {
        let (at, next) = self.next();
        if at >= self.setup.end {
            self.now = self.setup.end;
            return false;
        }
        self.now = self.now.max(at);
        match next {
            Next::Fault => {
                self.next_fault += 1;
                self.begin(self.next_fault - 1);
            }
            Next::FaultOver(index) => {
                let (_, fault, candidate) = self.ends.swap_remove(index);
                self.end(fault, candidate);
            }
            Next::Message => self.arrive(),
            Next::Store => {
                self.store.turn(self.now);
                self.collect();
            }
            Next::Alarm(node, alarm) => self.ring(node, alarm),
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
        if let Some(fault) = self.setup.faults.get(self.next_fault) {
            consider(fault.at, Next::Fault);
        }
        for (index, (at, _, _)) in self.ends.iter().enumerate() {
            consider(*at, Next::FaultOver(index));
        }
        consider(self.post.next(), Next::Message);
        consider(self.store.next(), Next::Store);
        for (number, node) in self.nodes.iter().enumerate() {
            for (alarm, at) in Alarm::ALL.into_iter().zip(node.alarms) {
                consider(at, Next::Alarm(number, alarm));
            }
        }
        first
    }

    fn ring(&mut self, number: usize, alarm: Alarm) {
        let node = &mut self.nodes[number];
        node.alarms[alarm as usize] = Moment::NEVER;
        match alarm {
            Alarm::GoOn => self.go_on(number),
            Alarm::Start => self.start(number),
            Alarm::CallOver => {
                if let Some(Call { number: call, .. }) = node.call {
                    self.deliver(number, Input::Reply { call, event: None });
                }
            }
            Alarm::Wake => self.deliver(number, Input::Wake),
            Alarm::Ask => {
                let every = self.setup.candidates[number].asks_every;
                let due = self.clocks[number].read(self.now) + every;
                self.set(number, Alarm::Ask, due);
                self.deliver(number, Input::Asked);
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
        if node.is_still {
            node.backlog.push(input);
            return;
        }
        if let Some((_, longest, until)) = node.starved.last().copied()
            && node.link.chance.in_thousand(300)
        {
            let lasts = node.link.chance.of_any_size(longest).min(until.since(self.now));
            node.in_hand = Some((input, now));
            self.stand_still(number, lasts);
            return;
        }
        self.act(number, input, now);
    }

    /// Lets the process of `number` take `input` in at `now` on its clock, and does what it then wants.
    fn act(&mut self, number: usize, input: Input<S::Election>, now: Instant) {
        let scene = Scene { now: self.now, clocks: &self.clocks };
        let node = &mut self.nodes[number];
        let Some(process) = &mut node.process else { return };
        if let Input::Reply { call, .. } = input {
            // The reply and its time-out may both have waited: the first that is taken in counts.
            let Some(over) = node.call.take_if(|waiting| waiting.number == call) else { return };
            node.alarms[Alarm::CallOver as usize] = Moment::NEVER;
            if over.is_harmed {
                self.observer.see(&scene, &Happening::Felt(Some(number)));
            }
        }
        let observer = &mut self.observer;
        let step = process.take(input, now, &mut |happening| observer.see(&scene, happening));
        let wakes_at = process.wakes_at();
        match step {
            Step::Rest => {}
            Step::Ask(request) => self.send(number, request, now),
            Step::End(end) => return self.ended(number, end),
        }
        match wakes_at {
            Some(due) => self.set(number, Alarm::Wake, due),
            None => self.nodes[number].alarms[Alarm::Wake as usize] = Moment::NEVER,
        }
    }

    /// Rings when the clock of `number` shows `due`; never at this very moment again, since a timer takes some time.
    fn set(&mut self, number: usize, alarm: Alarm, due: Instant) {
        let late = self.nodes[number].link.latency() / 8;
        let soonest = self.now + Duration::from_nanos(1);
        self.nodes[number].alarms[alarm as usize] =
            self.clocks[number].when(due).max(soonest) + late;
    }

    fn start(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        if node.process.is_some() {
            return;
        }
        let candidate = &self.setup.candidates[number];
        let Candidate { timing, stays, asks_every, .. } = *candidate;
        node.starts += 1;
        node.returns = false;
        let name = char::from(b'a' + u8::try_from(number).expect("a world has few candidates"));
        let identity = Identity::unique(name.encode_utf8(&mut [0; 4]), node.starts)
            .expect("a letter and a number");
        let now = self.clocks[number].read(self.now);
        let damped = node.damping(now, timing.retry_period()).min(timing.lease_duration());
        let from = now + damped;
        let jitter = Jitter::new(node.link.chance.draw());
        let machine = self.store.machine(identity.clone(), candidate, jitter, from);
        let process = Process::new(number, identity, machine, timing, stays);
        let scene = Scene { now: self.now, clocks: &self.clocks };
        self.observer.see(&scene, &Happening::Started(number, &process.identity, from));
        node.process = Some(process);
        node.link.is_deaf = node.link.deafening > 0;
        let first_question = node.link.chance.lasting(Duration::ZERO, asks_every);
        self.set(number, Alarm::Ask, now + first_question);
        self.deliver(number, Input::Wake);
    }

    /// The process of `number` is over. One that lost is restarted; one that stopped comes back when its fault is over.
    fn ended(&mut self, number: usize, end: End) {
        let scene = Scene { now: self.now, clocks: &self.clocks };
        self.observer.see(&scene, &Happening::Ended(number, end));
        let now = self.clocks[number].read(self.now);
        let node = &mut self.nodes[number];
        node.process = None;
        node.call = None;
        node.in_hand = None;
        node.backlog.clear();
        node.is_still = false;
        node.alarms = [Moment::NEVER; Alarm::COUNT];
        match end {
            End::Stopped if node.returns => node.alarms[Alarm::Start as usize] = self.now,
            End::Stopped => {}
            End::Killed => node.bad_ends.push(now),
            End::Lost(_) => {
                node.bad_ends.push(now);
                let rest = node.link.chance.of_any_size(LONGEST_RESTART);
                node.alarms[Alarm::Start as usize] = self.now + rest;
            }
        }
    }

    /// Nothing reaches the process of `number` for so long.
    fn stand_still(&mut self, number: usize, lasts: Duration) {
        let node = &mut self.nodes[number];
        let until = self.now + lasts;
        let alarm = &mut node.alarms[Alarm::GoOn as usize];
        *alarm = if node.is_still { (*alarm).max(until) } else { until };
        node.is_still = true;
    }

    /// What waited is taken in: first what was in hand, then the rest in any order, but news in theirs.
    fn go_on(&mut self, number: usize) {
        self.nodes[number].is_still = false;
        if let Some((input, then)) = self.nodes[number].in_hand.take() {
            self.act(number, input, then);
        }
        while !self.nodes[number].is_still && !self.nodes[number].backlog.is_empty() {
            let node = &mut self.nodes[number];
            let drawn = node.link.chance.index(node.backlog.len());
            let is_news = |input: &Input<S::Election>| matches!(input, Input::News(_));
            let taken = if is_news(&node.backlog[drawn]) {
                node.backlog.iter().position(is_news).expect("one was just seen")
            } else {
                drawn
            };
            let input = node.backlog.remove(taken);
            self.deliver(number, input);
        }
    }
}
