//! Commands and the guards that end them in time, with the [`CommandPlan`] that ships.
//!
//! Pure. Start with [`World::wake_guard`]. A guard outlives its elector, and neither a pause nor a
//! crash of the elector affects it. It may run late, and killed processes take a moment to end.
//! Both together take less than the margin that the plan leaves.

use crate::clock::{Clock, Moment};
use crate::process::Input;
use crate::runner::{FromGuard, ToGuard};
use crate::scenario::CommandConfig;
use crate::store::Store;
use crate::trace::{CommandEvent, Observer, TraceContext, TraceEvent};
use crate::world::World;
use crate::world::network::Message;
use baton_election::claim::FencingToken;
use baton_election::command::{CommandPlan, CommandSignal, KILL_MARGIN};
use baton_election::instant::Instant;
use std::collections::VecDeque;
use std::time::Duration;

/// The longest delivery time of a message between an elector and its guard.
const LONGEST_DELIVERY: Duration = Duration::from_millis(2);
/// The longest time until killed processes have ended and are reaped.
const LONGEST_REAPING: Duration = Duration::from_millis(50);
/// The latest that a guard runs after its timer, so that it still kills before the deadline.
const LATEST: Duration = KILL_MARGIN.saturating_sub(LONGEST_REAPING.saturating_mul(2));

/// A guard and its command. Each `Instant` is by the clock of its machine.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    /// Counts the starts of the process that it belongs to.
    starts: u32,
    token: FencingToken,
    config: CommandConfig,
    /// The plan, once the command runs.
    plan: Option<CommandPlan>,
    /// Messages of the elector, and when each arrives.
    inbox: VecDeque<(Instant, ToGuard)>,
    /// When the last process of the command will have ended.
    ends_at: Option<Instant>,
    has_told_ending: bool,
    /// When it wakes next, by its machine's clock (`due`) and in true time (`at`).
    due: Instant,
    pub(super) at: Moment,
}

impl Guard {
    fn new(starts: u32, token: FencingToken, config: CommandConfig, due: Instant) -> Self {
        let (plan, inbox, ends_at) = (None, VecDeque::new(), None);
        let (has_told_ending, at) = (false, Moment::NEVER);
        Self { starts, token, config, plan, inbox, ends_at, has_told_ending, due, at }
    }

    /// Wakes next at `due` by `clock`, and at least a nanosecond after `now`, so that true time
    /// advances.
    fn wake_at(&mut self, due: Instant, clock: &Clock, now: Moment) {
        self.due = due;
        self.at = clock.when(due).max(now + Duration::from_nanos(1));
    }

    /// Handles the messages that have arrived by `now`. Returns false if the command cannot start.
    fn read_messages(&mut self, now: Instant, retry_period: Duration) -> bool {
        while let Some((_, message)) = self.inbox.pop_front_if(|(arrives, _)| *arrives <= now) {
            match (message, &mut self.plan) {
                (ToGuard::Start(claim), plan) => {
                    *plan =
                        CommandPlan::start(claim.deadline(), self.config.grace, retry_period, now);
                    if plan.is_none() {
                        return false;
                    }
                }
                (ToGuard::Deadline(deadline), Some(plan)) => plan.extend(deadline, now),
                (ToGuard::Stop, Some(plan)) => plan.stop(self.config.stop_timeout, now),
                (ToGuard::Kill, Some(plan)) => plan.kill(),
                (ToGuard::ElectorGone, Some(plan)) => plan.lose_elector(now),
                (
                    ToGuard::Deadline(_) | ToGuard::Stop | ToGuard::Kill | ToGuard::ElectorGone,
                    None,
                ) => {}
            }
        }
        true
    }
}

impl<S: Store, O: Observer<S::Election>> World<S, O> {
    /// Delivers the messages that the process of candidate `number` has for its guard.
    pub(super) fn send_to_guard(&mut self, number: usize) {
        while let Some(message) = self.nodes[number].poll_message() {
            if let ToGuard::Start(claim) = message {
                let (token, now) = (claim.token(), self.clocks[number].read(self.now));
                let Some(config) = self.scenario.candidates[number].command else { return };
                let node = &mut self.nodes[number];
                node.guards.push(Guard::new(node.starts, token, config, now));
                self.emit_command(number, token, CommandEvent::Ordered);
            }
            self.tell_guard(number, message);
        }
    }

    /// Delivers `message` to the guard that was started last by the present process, if it lives.
    pub(super) fn tell_guard(&mut self, number: usize, message: ToGuard) {
        let clock = &self.clocks[number];
        let node = &mut self.nodes[number];
        let delay = node.link.rng.skewed_duration(LONGEST_DELIVERY);
        let Some(guard) = node.guards.last_mut().filter(|guard| guard.starts == node.starts) else {
            return;
        };
        let last = guard.inbox.back().map_or(guard.due, |(arrives, _)| *arrives);
        let soonest = if guard.inbox.is_empty() { clock.read(self.now) } else { last };
        let arrives = clock.read(self.now + delay).max(soonest);
        guard.inbox.push_back((arrives, message));
        if arrives < guard.due || guard.at == Moment::NEVER {
            guard.wake_at(arrives, clock, self.now);
        }
    }

    /// Lets the guard with this index act, and schedules its next turn.
    pub(super) fn wake_guard(&mut self, number: usize, index: usize) {
        let now = self.clocks[number].read(self.now);
        let retry_period = self.scenario.candidates[number].timing.retry_period();
        let guard = &mut self.nodes[number].guards[index];
        let was_running = guard.plan.is_some();
        if !guard.read_messages(now, retry_period) {
            return self.end_guard(number, index, FromGuard::TooLate);
        }
        let token = guard.token;
        if !was_running && guard.plan.is_some() {
            self.emit_command(number, token, CommandEvent::Started);
        }
        self.signal(number, index, now);
        let guard = &self.nodes[number].guards[index];
        if guard.ends_at.is_some_and(|ends_at| ends_at <= now) {
            let lapsed = guard.plan.as_ref().is_some_and(CommandPlan::lapses);
            return self.end_guard(number, index, FromGuard::Ended { lapsed });
        }
        self.schedule_guard(number, index);
    }

    /// Sends the signals that are due by `now`. A command may ignore SIGTERM for long.
    fn signal(&mut self, number: usize, index: usize, now: Instant) {
        let lease = self.scenario.candidates[number].timing.lease_duration();
        let node = &mut self.nodes[number];
        let (guard, rng) = (&mut node.guards[index], &mut node.link.rng);
        let Some(plan) = &mut guard.plan else { return };
        plan.handle_timeout(now);
        let takes = match plan.poll_signal() {
            Some(CommandSignal::Terminate) => Some(rng.skewed_duration(lease)),
            Some(CommandSignal::Kill) => Some(rng.skewed_duration(LONGEST_REAPING)),
            None => None,
        };
        if let Some(takes) = takes {
            guard.ends_at = Some(guard.ends_at.map_or(now + takes, |at| at.min(now + takes)));
        }
        if plan.lapses() && !guard.has_told_ending {
            guard.has_told_ending = true;
            let (starts, token) = (guard.starts, guard.token);
            self.emit_command(number, token, CommandEvent::Ending);
            self.tell_elector(number, starts, FromGuard::Ending);
        }
    }

    /// Schedules the next turn of a guard. It may run late after a timer.
    fn schedule_guard(&mut self, number: usize, index: usize) {
        let node = &mut self.nodes[number];
        let (guard, rng) = (&mut node.guards[index], &mut node.link.rng);
        let late = if rng.permille(200) { rng.skewed_duration(LATEST) } else { Duration::ZERO };
        let timer = guard.plan.as_ref().and_then(CommandPlan::poll_timeout).map(|due| due + late);
        let arrives = guard.inbox.front().map(|(arrives, _)| *arrives);
        match timer.into_iter().chain(arrives).chain(guard.ends_at).min() {
            Some(due) => guard.wake_at(due, &self.clocks[number], self.now),
            None => guard.at = Moment::NEVER,
        }
    }

    /// Adapts the guards of candidate `number` to another rate of its clock.
    pub(super) fn reschedule_guards(&mut self, number: usize) {
        for guard in self.nodes[number].guards.iter_mut().filter(|it| it.at != Moment::NEVER) {
            guard.wake_at(guard.due, &self.clocks[number], self.now);
        }
    }

    fn end_guard(&mut self, number: usize, index: usize, message: FromGuard) {
        let Guard { token, starts, .. } = self.nodes[number].guards.remove(index);
        self.emit_command(number, token, CommandEvent::Ended);
        self.tell_elector(number, starts, message);
    }

    fn tell_elector(&mut self, to: usize, starts: u32, message: FromGuard) {
        let delay = self.nodes[to].link.rng.skewed_duration(LONGEST_DELIVERY);
        let last = self.nodes[to].last_from_guard;
        let at = (self.now + delay).max(last);
        self.nodes[to].last_from_guard = at;
        self.post(at, Message::FromGuard { to, starts, message });
    }

    /// Delivers a message of a guard, if its elector still runs.
    pub(super) fn guard_told(&mut self, to: usize, starts: u32, message: FromGuard) {
        if self.nodes[to].starts == starts {
            self.deliver(to, Input::FromGuard(message));
        }
    }

    fn emit_command(&mut self, number: usize, token: FencingToken, event: CommandEvent) {
        let context = TraceContext { now: self.now, clocks: &self.clocks };
        self.observer.observe(&context, &TraceEvent::Command(number, token, event));
    }
}
