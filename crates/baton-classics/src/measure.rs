//! Counts what one algorithm does over many seeds.
//!
//! Pure. Start with [`count`].

use crate::checker::Checker;
use crate::draw::{self, Condition};
use crate::machine::{Algorithm, NodeId, Purpose};
use crate::scenario::{Fault, Scenario, Target};
use crate::world::{Event, Observer, World};
use baton_sim::clock::Moment;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

/// A part of the work for one algorithm.
#[derive(Clone, Debug)]
pub struct Job {
    /// How many candidates there are.
    pub candidates: usize,
    /// The faults; `None` measures what elections cost without further faults.
    pub condition: Option<Condition>,
    /// One run for each.
    pub seeds: Range<u64>,
}

/// The findings of many runs.
#[derive(Clone, Default, Debug)]
pub struct Tally {
    /// The first election, when all candidates start together.
    pub start: Costs,
    /// The election after the leader's crash.
    pub crash: Costs,
    /// The messages while a leader is alive.
    pub rest: Rate,
    /// Runs with faults.
    pub outcomes: BTreeMap<Condition, Outcomes>,
}

impl Tally {
    /// Adds the results of another job.
    pub fn add(&mut self, other: Self) {
        self.start.add(&other.start);
        self.crash.add(&other.crash);
        self.rest.add(&other.rest);
        for (condition, outcomes) in other.outcomes {
            self.outcomes.entry(condition).or_default().add(&outcomes);
        }
    }
}

/// How many messages were sent in how much time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Rate {
    messages: u64,
    millis: u64,
}

impl Rate {
    fn add(&mut self, other: &Self) {
        self.messages += other.messages;
        self.millis += other.millis;
    }

    /// The messages per second times `scale`, rounded; `None` if no time was counted.
    pub const fn per_second(&self, scale: u64) -> Option<u64> {
        (2_000 * self.messages * scale + self.millis).checked_div(2 * self.millis)
    }
}

/// The mean and the largest of some numbers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Spread {
    count: u64,
    sum: u64,
    worst: u64,
}

impl Spread {
    /// Adds a number.
    pub fn push(&mut self, number: u64) {
        self.add(&Self { count: 1, sum: number, worst: number });
    }

    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.worst = self.worst.max(other.worst);
    }

    /// The mean times `scale`, rounded; `None` without numbers.
    pub const fn mean(&self, scale: u64) -> Option<u64> {
        (2 * self.sum * scale + self.count).checked_div(2 * self.count)
    }

    /// The largest number; `None` without numbers.
    pub const fn worst(&self) -> Option<u64> {
        if self.count == 0 { None } else { Some(self.worst) }
    }
}

/// The costs of elections.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Costs {
    /// Messages sent until every candidate names the leader, without heartbeats.
    pub messages: Spread,
    /// How often a candidate handled such a message.
    pub wakeups: Spread,
    /// Milliseconds until exactly one node leads.
    pub millis: Spread,
    /// Elections without an end.
    pub unsettled: u64,
}

impl Costs {
    fn add(&mut self, other: &Self) {
        self.messages.add(&other.messages);
        self.wakeups.add(&other.wakeups);
        self.millis.add(&other.millis);
        self.unsettled += other.unsettled;
    }
}

/// How many runs under one condition showed what.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Outcomes {
    /// All runs.
    pub runs: u64,
    /// Runs in which two nodes led at once.
    pub overlaps: u64,
    /// Runs in which two nodes led with one token.
    pub shared_tokens: u64,
    /// Runs in which a resource that checks nothing took a late write.
    pub late_writes: u64,
    /// Runs in which a resource that checks tokens took a late write.
    pub late_writes_by_token: u64,
    /// Runs in which a leader had no token.
    pub without_tokens: u64,
    /// Runs at whose end every running candidate names the same leader.
    pub settled: u64,
}

impl Outcomes {
    /// Adds the runs of another job.
    pub const fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.overlaps += other.overlaps;
        self.shared_tokens += other.shared_tokens;
        self.late_writes += other.late_writes;
        self.late_writes_by_token += other.late_writes_by_token;
        self.without_tokens += other.without_tokens;
        self.settled += other.settled;
    }
}

/// Does a job for one algorithm.
pub fn count<A: Algorithm + Copy>(algorithm: A, job: &Job) -> Tally {
    let mut tally = Tally::default();
    for seed in job.seeds.clone() {
        match job.condition {
            None => measure_costs(algorithm, job.candidates, seed, &mut tally),
            Some(condition) => {
                let outcomes = run(algorithm, job.candidates, seed, condition);
                tally.outcomes.entry(condition).or_default().add(&outcomes);
            }
        }
    }
    tally
}

/// The outcome of one run.
pub fn run<A: Algorithm>(
    algorithm: A,
    candidates: usize,
    seed: u64,
    condition: Condition,
) -> Outcomes {
    let (servers, patience) = (algorithm.servers(), algorithm.patience());
    let scenario = draw::draw(condition, candidates, servers, seed, patience);
    run_scenario(algorithm, scenario)
}

/// The outcome of a run of `scenario`.
pub fn run_scenario<A: Algorithm>(algorithm: A, scenario: Scenario) -> Outcomes {
    let checker = Checker::new(scenario.candidates.len() + algorithm.servers());
    let end = draw::end(algorithm.patience());
    let mut world = World::new(algorithm, scenario, checker);
    world.run_until(end);
    let settled = u64::from(world.agreed_leader().is_some());
    let verdict = world.observer_mut().verdict(end);
    Outcomes {
        runs: 1,
        overlaps: u64::from(verdict.overlap > Duration::ZERO),
        shared_tokens: u64::from(verdict.is_token_shared),
        late_writes: u64::from(verdict.takes_late_write),
        late_writes_by_token: u64::from(verdict.takes_late_write_by_token == Some(true)),
        without_tokens: u64::from(verdict.takes_late_write_by_token.is_none()),
        settled,
    }
}

/// Measures the first election, the messages at rest, and the election after the leader's crash.
fn measure_costs<A: Algorithm>(algorithm: A, candidates: usize, seed: u64, tally: &mut Tally) {
    let patience = algorithm.patience();
    let mut scenario = draw::calm(candidates, seed, patience);
    // Neither the moment of the crash nor the count before it may depend on the heartbeats. The
    // factor spreads the phases of few seeds too.
    let thousandths = seed.wrapping_mul(617) % 1_000 + 1;
    let thousandths = u32::try_from(thousandths).expect("the number is at most 1,000");
    let phase = patience * thousandths / 1_000;
    let calm = patience * 10 + phase;
    let crash_at = Moment::START + calm;
    scenario.faults.push((crash_at, Fault::Crash { target: Target::LeaderOr(0), lasts: None }));
    let mut world = World::new(algorithm, scenario, Counter::new(candidates));
    let has_leader = elect(&mut world, Moment::START, Moment::START + patience * 8, false);
    world.observer().record(has_leader, &mut tally.start);
    let rest_from = Moment::START + patience * 8 + phase;
    world.run_until(rest_from);
    world.observer_mut().restart(rest_from);
    world.run_until(Moment::START + calm.saturating_sub(Duration::from_nanos(1)));
    if !has_leader || world.agreed_leader().is_none() {
        tally.crash.unsettled += 1;
        return;
    }
    let Counter { messages, heartbeats, .. } = *world.observer();
    let rest = Rate { messages: messages + heartbeats, millis: millis(patience * 2) };
    tally.rest.add(&rest);
    world.observer_mut().restart(crash_at);
    let has_leader = elect(&mut world, crash_at, crash_at + patience * 20, true);
    world.observer().record(has_leader, &mut tally.crash);
}

/// Runs until all candidates agree on a leader, after a crash if `needs_crash`.
fn elect<A: Algorithm>(
    world: &mut World<A, Counter>,
    from: Moment,
    limit: Moment,
    needs_crash: bool,
) -> bool {
    world.observer_mut().restart(from);
    while world.now() < limit {
        world.step();
        let counter = world.observer();
        let is_due = counter.crashes > 0 || !needs_crash && counter.started == counter.candidates;
        if is_due && counter.leader_at.is_some() && world.agreed_leader().is_some() {
            return true;
        }
    }
    false
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Counts the events of an election.
#[derive(Clone, Debug)]
struct Counter {
    candidates: usize,
    started: usize,
    leading: BTreeSet<NodeId>,
    from: Moment,
    messages: u64,
    heartbeats: u64,
    wakeups: u64,
    crashes: u64,
    /// When exactly one node led for the first time.
    leader_at: Option<Moment>,
}

impl Counter {
    const fn new(candidates: usize) -> Self {
        Self {
            candidates,
            started: 0,
            leading: BTreeSet::new(),
            from: Moment::START,
            messages: 0,
            heartbeats: 0,
            wakeups: 0,
            crashes: 0,
            leader_at: None,
        }
    }

    /// Counts from `from` on.
    const fn restart(&mut self, from: Moment) {
        (self.from, self.leader_at) = (from, None);
        (self.messages, self.heartbeats, self.wakeups, self.crashes) = (0, 0, 0, 0);
    }

    fn record(&self, has_leader: bool, costs: &mut Costs) {
        match self.leader_at.filter(|_| has_leader) {
            Some(at) => {
                costs.messages.push(self.messages);
                costs.wakeups.push(self.wakeups);
                costs.millis.push(millis(at.since(self.from)));
            }
            None => costs.unsettled += 1,
        }
    }
}

impl<M> Observer<M> for Counter {
    fn observe(&mut self, now: Moment, event: &Event<'_, M>) {
        match event {
            Event::Sent { purpose: Purpose::Election, .. } => self.messages += 1,
            Event::Sent { purpose: Purpose::Heartbeat, .. } => self.heartbeats += 1,
            Event::Woken { node, message: Some(Purpose::Election) } => {
                self.wakeups += u64::from(node.0 < self.candidates);
            }
            Event::RoleChanged(node, role) => {
                if role.is_leading() {
                    self.leading.insert(*node);
                } else {
                    self.leading.remove(node);
                }
                if self.leading.len() == 1 && role.is_leading() && self.leader_at.is_none() {
                    self.leader_at = Some(now);
                }
            }
            Event::Started(node) => self.started += usize::from(node.0 < self.candidates),
            Event::Crashed(_) => self.crashes += 1,
            Event::Woken { message: Some(Purpose::Heartbeat) | None, .. }
            | Event::Paused(_)
            | Event::Resumed(_)
            | Event::CutBegan(_)
            | Event::CutEnded
            | Event::WriteArrived(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bully::Bully;
    use crate::ring::Ring;

    /// The messages of `algorithm` per second at rest, in tenths.
    fn at_rest<A: Algorithm + Copy>(algorithm: A, candidates: usize) -> u64 {
        let job = Job { candidates, condition: None, seeds: 0..200 };
        count(algorithm, &job).rest.per_second(10).expect("there is a leader")
    }

    /// Bully's coordinator asks every other node once a second. A token passes every link of the
    /// ring once a second. Each is answered.
    #[test]
    fn messages_at_rest_are_those_of_the_timers() {
        for (counted, per_second) in [
            (at_rest(Bully::PAPER, 3), 4),
            (at_rest(Bully::PAPER, 9), 16),
            (at_rest(Ring::PAPER, 3), 6),
            (at_rest(Ring::PAPER, 9), 18),
        ] {
            let exact = per_second * 10;
            assert!(counted.abs_diff(exact) <= exact / 50, "{counted} tenths, {exact} expected");
        }
    }
}
