//! One process: the machine that ships, run by the rules of its driver and supervisor.
//!
//! Pure. Start with [`Process::handle`]. It takes turns in the order of `src/driver.rs`, and stops
//! like `src/supervisor.rs`: withdraw, wait until the last promise has expired, release.

use crate::trace::{ExitCause, TraceEvent};
use baton_election::claim::{Claim, Standing};
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::leadership::Leadership;
use baton_election::machine::{Election, Event, Reason, Transition, Withdrawal};
use baton_election::timing::Timing;
use std::time::Duration;

/// A running process.
#[derive(Debug)]
pub(crate) struct Process<E: Election> {
    number: usize,
    pub(crate) identity: Identity,
    machine: E,
    leadership: Leadership,
    stays_on_loss: bool,
    is_calling: bool,
    release_state: ReleaseState,
    /// Whether a stop was ordered. Later orders to campaign are ignored.
    is_stopping: bool,
    /// The claim that was published last.
    published: Option<Claim>,
}

/// An input of a process.
#[derive(Debug)]
pub(crate) enum Input<E: Election> {
    /// A timer expired.
    Wake,
    /// The reply to a call, or `None` if the call ended without one.
    Reply { call: u64, event: Option<E::Event> },
    /// A watch event.
    WatchEvent(E::Event),
    /// The application polls: it asks whether its candidate leads.
    Query,
    /// A signal, a hook, or a change in polling.
    Order(Order),
}

/// An order to a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// SIGTERM.
    Stop,
    /// The preStop hook.
    PrepareStop,
    /// The application has not polled for so long that it may be dead.
    Resign,
    /// The application polls again.
    Campaign,
}

/// The progress of a withdrawal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ReleaseState {
    None,
    /// Withdrawn. The release follows when the last promise expires, at this time.
    AwaitingPromises(Purpose, Instant),
    /// Releasing. A stop exits at this time at the latest.
    Releasing(Purpose, Option<Instant>),
    /// Released, and ready to campaign again.
    Resigned,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    Stop,
    Resign { campaigns_after: bool },
}

/// The action of a process after it has handled an input.
#[derive(Debug)]
pub(crate) enum ProcessAction<E: Election> {
    /// Waits for the next input.
    Wait,
    /// Sends a request to the store.
    Send(E::Request),
    /// Exits.
    Exit(ExitCause),
}

impl<E: Election> Process<E> {
    pub(crate) fn new(
        number: usize,
        identity: Identity,
        machine: E,
        timing: Timing,
        stays_on_loss: bool,
    ) -> Self {
        let leadership = Leadership::new(timing.answer_validity());
        let (is_calling, is_stopping, published) = (false, false, None);
        let release_state = ReleaseState::None;
        Self {
            number,
            identity,
            machine,
            leadership,
            stays_on_loss,
            is_calling,
            release_state,
            is_stopping,
            published,
        }
    }

    /// Handles `input` at `now` on its own clock.
    pub(crate) fn handle(
        &mut self,
        input: Input<E>,
        now: Instant,
        emit: &mut impl FnMut(&TraceEvent<'_, E>),
    ) -> ProcessAction<E> {
        match input {
            Input::Wake => self.machine.handle_timeout(now),
            Input::Reply { event, .. } => {
                self.is_calling = false;
                let event = event.unwrap_or(E::Event::UNKNOWN);
                emit(&TraceEvent::ReplyReceived(self.number, &event, now));
                self.machine.handle_event(event, now);
            }
            Input::WatchEvent(event) => {
                emit(&TraceEvent::WatchEventReceived(self.number, &event, now));
                self.machine.handle_event(event, now);
            }
            Input::Order(order) => self.handle_order(order, now, emit),
            Input::Query => {
                // Answers come from the published claim, so the driver need not take a turn.
                let answer = self.leadership.promise(now);
                emit(&TraceEvent::QueryAnswered(self.number, &answer, now));
                return ProcessAction::Wait;
            }
        }
        self.release_when_promises_expire(now);
        if let Some(cause) = self.turn(now, emit) {
            return ProcessAction::Exit(cause);
        }
        if self.is_calling {
            return ProcessAction::Wait;
        }
        let request = self.machine.poll_request(now);
        if let Some(cause) = self.turn(now, emit) {
            return ProcessAction::Exit(cause);
        }
        match request {
            Some(request) => {
                self.is_calling = true;
                emit(&TraceEvent::RequestSent(self.number, &request, now));
                ProcessAction::Send(request)
            }
            None => ProcessAction::Wait,
        }
    }

    /// When to wake it next.
    pub(crate) fn wakes_at(&self) -> Option<Instant> {
        let release_at = match self.release_state {
            ReleaseState::AwaitingPromises(_, until) | ReleaseState::Releasing(_, Some(until)) => {
                Some(until)
            }
            ReleaseState::None | ReleaseState::Releasing(_, None) | ReleaseState::Resigned => None,
        };
        let machine = self.machine.poll_timeout().map(|(due, _)| due);
        machine.into_iter().chain(release_at).min()
    }

    /// How long a call to the store may take at present.
    pub(crate) fn call_timeout(&self) -> Duration {
        self.machine.call_timeout()
    }

    /// The claim that it holds at `now`.
    pub(crate) fn claim(&self, now: Instant) -> Option<Claim> {
        self.published.filter(|claim| !claim.remaining(now).is_zero())
    }

    /// Takes one turn of the driver: timeout, publication, transitions, and progress of a release.
    fn turn(
        &mut self,
        now: Instant,
        emit: &mut impl FnMut(&TraceEvent<'_, E>),
    ) -> Option<ExitCause> {
        self.machine.handle_timeout(now);
        self.publish(now, emit);
        while let Some(transition) = self.machine.poll_transition() {
            emit(&TraceEvent::Transitioned(self.number, &transition));
            if let Transition::Lost { reason, .. } = transition
                && !self.stays_on_loss
            {
                // By the deadline the last promise has expired too, so a stop that is still under
                // way is clean.
                let stops = matches!(
                    self.release_state,
                    ReleaseState::AwaitingPromises(Purpose::Stop, _)
                        | ReleaseState::Releasing(Purpose::Stop, _)
                );
                let is_clean = stops && reason == Reason::Deadline;
                return Some(if is_clean {
                    ExitCause::Stopped
                } else {
                    ExitCause::LeadershipLost(reason)
                });
            }
        }
        let ReleaseState::Releasing(purpose, exit_by) = self.release_state else { return None };
        let is_done = self.machine.is_released() || exit_by.is_some_and(|until| until <= now);
        match purpose {
            Purpose::Stop => is_done.then_some(ExitCause::Stopped),
            Purpose::Resign { campaigns_after } => {
                if is_done {
                    self.release_state = ReleaseState::Resigned;
                }
                if is_done && campaigns_after {
                    self.handle_order(Order::Campaign, now, emit);
                }
                None
            }
        }
    }

    fn publish(&mut self, now: Instant, emit: &mut impl FnMut(&TraceEvent<'_, E>)) {
        let standing = self.machine.standing();
        let claim = match &standing {
            Standing::Leading(claim) | Standing::Resigning(claim) => Some(*claim),
            Standing::Unknown | Standing::Following { .. } => None,
        };
        self.leadership.publish(standing, now);
        if claim != self.published {
            self.published = claim;
            emit(&TraceEvent::ClaimPublished(self.number, claim));
        }
    }

    fn handle_order(
        &mut self,
        order: Order,
        now: Instant,
        emit: &mut impl FnMut(&TraceEvent<'_, E>),
    ) {
        match (order, self.release_state) {
            (Order::Stop, _) => {
                self.is_stopping = true;
                self.withdraw(Purpose::Stop, now, emit);
            }
            (Order::PrepareStop, _) => {
                self.is_stopping = true;
                emit(&TraceEvent::Withdrew(self.number, Withdrawal::Renewing));
                self.machine.withdraw(Withdrawal::Renewing);
                self.publish(now, emit);
            }
            (Order::Resign, ReleaseState::None)
                if !self.is_stopping && self.claim(now).is_some() =>
            {
                self.withdraw(Purpose::Resign { campaigns_after: false }, now, emit);
            }
            (Order::Campaign, ReleaseState::Resigned) if !self.is_stopping => {
                self.release_state = ReleaseState::None;
                emit(&TraceEvent::CampaignResumed(self.number));
                self.machine.campaign(now);
            }
            (Order::Campaign, ReleaseState::AwaitingPromises(Purpose::Resign { .. }, until)) => {
                self.release_state = ReleaseState::AwaitingPromises(
                    Purpose::Resign { campaigns_after: true },
                    until,
                );
            }
            (Order::Campaign, ReleaseState::Releasing(Purpose::Resign { .. }, exit_by)) => {
                self.release_state =
                    ReleaseState::Releasing(Purpose::Resign { campaigns_after: true }, exit_by);
            }
            (Order::Resign | Order::Campaign, _) => {}
        }
    }

    fn withdraw(
        &mut self,
        purpose: Purpose,
        now: Instant,
        emit: &mut impl FnMut(&TraceEvent<'_, E>),
    ) {
        emit(&TraceEvent::Withdrew(self.number, Withdrawal::Releasing));
        self.machine.withdraw(Withdrawal::Releasing);
        self.publish(now, emit);
        self.release_state = ReleaseState::AwaitingPromises(
            purpose,
            self.leadership.promised_until().unwrap_or(now),
        );
    }

    /// Releases once the last promise has expired.
    fn release_when_promises_expire(&mut self, now: Instant) {
        let ReleaseState::AwaitingPromises(purpose, promised_until) = self.release_state else {
            return;
        };
        if promised_until <= now {
            let (reason, exit_by) = match purpose {
                Purpose::Stop => (Reason::Shutdown, Some(now + self.machine.call_timeout() * 3)),
                Purpose::Resign { .. } => (Reason::Unasked, None),
            };
            self.machine.release(reason, now);
            self.release_state = ReleaseState::Releasing(purpose, exit_by);
        }
    }
}
