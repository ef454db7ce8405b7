//! One process: the machine that ships, run by the rules of its driver and supervisor.
//!
//! Pure. Start with [`Process::handle`]. It takes turns in the order of `src/driver.rs`, with the
//! same [`Withdrawals`], and stops like `src/supervisor.rs`.

mod answers;
mod input;

use crate::asker_names::AskerNames;
use crate::runner::{FromGuard, Runner, ToGuard};
use crate::scenario::CandidateConfig;
use crate::trace::{ExitCause, TraceEvent};
use answers::Listeners;
use baton_election::claim::{Claim, FencingToken, Standing};
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::leadership::Leadership;
use baton_election::machine::{Election, Event, Reason, Transition, Withdrawal};
use baton_election::withdrawals::{
    Cause, Order, OrderOutcome, Ticket, WithdrawalEvent, Withdrawals,
};
pub(crate) use input::Input;
use std::time::Duration;

/// A running process.
#[derive(Clone, Debug)]
pub(crate) struct Process<E: Election> {
    number: usize,
    pub(crate) identity: Identity,
    machine: E,
    /// When the machine asked to be woken.
    machine_wakes_at: Option<Instant>,
    leadership: Leadership,
    withdrawals: Withdrawals,
    stays_on_loss: bool,
    is_calling: bool,
    /// The order to stop, and when the process exits without the store's answer.
    stop: Option<(Ticket, Instant)>,
    /// The order because the application does not poll.
    unasked: Option<Unasked>,
    /// The order for an unfit application that may act without a promise. When it has ended, a
    /// process that holds a claim exits.
    unfit: Option<Ticket>,
    has_ended_unfit: bool,
    /// The withdrawal that was reported last; `None` if the candidate campaigns.
    pub(crate) withdrawal: Option<Withdrawal>,
    /// The claim that was published last.
    published: Option<Claim>,
    /// The token in the last promise to the worker that voids its promises.
    promised_token: Option<FencingToken>,
    asker_names: AskerNames,
    listeners: Listeners,
    /// Runs its command, if it has one, which may take this long to stop.
    runner: Option<Runner>,
    stop_timeout: Duration,
}

/// A withdrawal because the application does not poll. It ends when the release has ended and the
/// application polls again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Unasked {
    ticket: Ticket,
    has_ended: bool,
    is_asked_again: bool,
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
    /// A process of `candidate` whose `machine` campaigns from `campaign_from` on.
    pub(crate) fn new(
        number: usize,
        identity: Identity,
        machine: E,
        candidate: &CandidateConfig,
        campaign_from: Instant,
    ) -> Self {
        Self {
            number,
            identity,
            machine_wakes_at: machine.poll_timeout().map(|(due, _)| due),
            machine,
            leadership: Leadership::new(candidate.timing.answer_validity()),
            withdrawals: Withdrawals::new(campaign_from),
            stays_on_loss: candidate.stays_on_loss,
            is_calling: false,
            stop: None,
            unasked: None,
            unfit: None,
            has_ended_unfit: false,
            withdrawal: None,
            published: None,
            promised_token: None,
            asker_names: AskerNames::default(),
            listeners: Listeners::new(candidate.push, candidate.timing.answer_validity()),
            runner: candidate.command.map(|_| Runner::default()),
            stop_timeout: candidate.command.map_or(Duration::ZERO, |command| command.stop_timeout),
        }
    }

    /// Handles `input` at `now` on its own clock.
    pub(crate) fn handle(
        &mut self,
        input: Input<E>,
        now: Instant,
        emit: &mut impl FnMut(&TraceEvent<'_, E>),
    ) -> ProcessAction<E> {
        let is_poll = matches!(input, Input::Query(_));
        let action = self.take_turns(input, now, emit);
        // A poll of the application does not reach the machine.
        if !is_poll {
            self.machine_wakes_at = self.machine.poll_timeout().map(|(due, _)| due);
        }
        if let Some(runner) = &mut self.runner {
            runner.turn(&mut self.leadership, now);
        }
        action
    }

    fn take_turns(
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
            Input::FitAgain => self.end(Cause::Unfit, now, emit),
            Input::FromGuard(message) => {
                if let Some(cause) = self.hear_guard(message, now, emit) {
                    return ProcessAction::Exit(cause);
                }
            }
            Input::AskedAgain => {
                self.unasked = self.unasked.map(|order| Unasked { is_asked_again: true, ..order });
            }
            Input::Query(worker) => {
                self.answer(worker, now, emit);
                return ProcessAction::Wait;
            }
            Input::Done(worker) => {
                if let Some(token) = self.promised_token {
                    self.leadership.void(self.asker_names.name(worker), token);
                }
            }
        }
        self.end_unasked(now, emit);
        if let Some(cause) = self.turn(now, emit) {
            return ProcessAction::Exit(cause);
        }
        if self.is_calling {
            return ProcessAction::Wait;
        }
        let request = self.machine.poll_request(now);
        // The driver takes another turn here. It changes nothing without a request or a withdrawal,
        // because the machine has handled its timeouts up to `now`.
        if request.is_none() && self.withdrawals.withdrawal().is_none() {
            return ProcessAction::Wait;
        }
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

    /// The next message to the guard of its command.
    pub(crate) fn poll_message(&mut self) -> Option<ToGuard> {
        self.runner.as_mut()?.poll_message()
    }

    /// When to wake it next.
    pub(crate) fn wakes_at(&self) -> Option<Instant> {
        let withdrawals = self.withdrawals.poll_timeout(self.leadership.promised_until());
        let exit_by = self.stop.map(|(_, exit_by)| exit_by);
        let listeners = self.listeners.poll_timeout(&self.leadership);
        let others = withdrawals.into_iter().chain(exit_by).chain(listeners);
        self.machine_wakes_at.into_iter().chain(others).min()
    }

    /// Its role as of the last input.
    pub(crate) fn standing(&self) -> Standing {
        self.machine.standing()
    }

    /// How long a call to the store may take at present.
    pub(crate) fn call_timeout(&self) -> Duration {
        self.machine.call_timeout()
    }

    /// The claim that it holds at `now`.
    pub(crate) fn claim(&self, now: Instant) -> Option<Claim> {
        self.published.filter(|claim| !claim.remaining(now).is_zero())
    }

    /// Takes one turn of the driver: timeout, withdrawals, publication, and transitions.
    fn turn(
        &mut self,
        now: Instant,
        emit: &mut impl FnMut(&TraceEvent<'_, E>),
    ) -> Option<ExitCause> {
        self.machine.handle_timeout(now);
        self.withdrawals.set_command_runs(self.leadership.is_lent());
        self.withdrawals.turn(&mut self.machine, self.leadership.promised_until(), now);
        self.publish(now, emit);
        while let Some(transition) = self.machine.poll_transition() {
            emit(&TraceEvent::Transitioned(self.number, &transition));
            if let Transition::Lost { reason, .. } = transition
                && !self.stays_on_loss
            {
                // By the deadline the last promise has expired too, so a stop that is still under
                // way is clean.
                let is_clean = self.stop.is_some() && reason == Reason::Deadline;
                return Some(if is_clean {
                    ExitCause::Stopped
                } else {
                    ExitCause::LeadershipLost(reason)
                });
            }
        }
        self.report_withdrawal(now, emit);
        self.answer_listeners(true, now, emit);
        self.settle(now, emit);
        if self.is_unfit_for_good(now) {
            return Some(ExitCause::LeadershipLost(Reason::Unfit));
        }
        let exits = self.stop.is_some_and(|(_, exit_by)| exit_by <= now);
        exits.then_some(ExitCause::Stopped)
    }

    /// Whether an unfit leader that must not release has no promise left.
    fn is_unfit_for_good(&mut self, now: Instant) -> bool {
        std::mem::take(&mut self.has_ended_unfit)
            && self.stop.is_none()
            && self.claim(now).is_some()
    }

    /// Reports the orders that have ended.
    fn settle(&mut self, now: Instant, emit: &mut impl FnMut(&TraceEvent<'_, E>)) {
        while let Some(event) = self.withdrawals.poll_event() {
            let WithdrawalEvent::Settled(settled, outcome) = event else { continue };
            emit(&TraceEvent::OrderSettled(self.number, settled, outcome, now));
            if let Some(unasked) = self.unasked.as_mut().filter(|order| order.ticket == settled) {
                unasked.has_ended = true;
            }
            self.has_ended_unfit |=
                self.unfit == Some(settled) && outcome == OrderOutcome::Withdrawn;
            if let Some((ticket, exit_by)) = &mut self.stop
                && *ticket == settled
            {
                *exit_by = now;
            }
        }
    }

    /// Reports a change of the withdrawal, or that the candidate campaigns again.
    fn report_withdrawal(&mut self, now: Instant, emit: &mut impl FnMut(&TraceEvent<'_, E>)) {
        let how = self.withdrawals.withdrawal();
        if how == self.withdrawal {
            return;
        }
        self.withdrawal = how;
        if let Some(how) = how {
            emit(&TraceEvent::Withdrew(self.number, how));
        } else if let Some(from) = self.withdrawals.campaigns_from() {
            emit(&TraceEvent::CampaignResumed(self.number, from.max(now)));
        }
    }

    fn publish(&mut self, now: Instant, emit: &mut impl FnMut(&TraceEvent<'_, E>)) {
        self.leadership.publish(self.machine.standing(), now);
        let claim = self.machine.claim();
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
        let is_accepted = match order.cause() {
            Cause::Shutdown => self.stop.is_none(),
            Cause::Stopping => true,
            Cause::Unfit => !self.withdrawals.contains(Cause::Unfit),
            Cause::Resigned => self.claim(now).is_some(),
            Cause::Unasked => self.unasked.is_none() && self.claim(now).is_some(),
        };
        if is_accepted {
            self.withdraw(order, now, emit);
        }
    }

    fn withdraw(&mut self, order: Order, now: Instant, emit: &mut impl FnMut(&TraceEvent<'_, E>)) {
        self.withdrawals.set_command_runs(self.leadership.is_lent());
        let ticket = self.withdrawals.add(order, &mut self.machine, now);
        emit(&TraceEvent::Ordered(self.number, ticket, &order, now));
        self.withdrawal = self.withdrawals.withdrawal();
        if let Some(how) = self.withdrawal {
            emit(&TraceEvent::Withdrew(self.number, how));
        }
        self.publish(now, emit);
        self.answer_listeners(true, now, emit);
        let promised_until = self.leadership.promised_until().unwrap_or(now);
        match order {
            Order::Shutdown => {
                let release_timeout = self.machine.call_timeout() * 3;
                let exit_by = promised_until.max(now) + self.stop_timeout + release_timeout;
                self.stop = Some((ticket, exit_by));
            }
            Order::Unasked => {
                self.unasked = Some(Unasked { ticket, has_ended: false, is_asked_again: false });
            }
            Order::Unfit { releases: false } => {
                self.unfit = self.published.map(|_| ticket);
            }
            Order::Unfit { releases: true } | Order::Stopping { .. } | Order::Resign { .. } => {}
        }
    }

    /// Handles a message of the guard. If the guard stopped the command because leadership was
    /// ending, the process exits, unless it stays on loss or is stopping cleanly.
    fn hear_guard(
        &mut self,
        message: FromGuard,
        now: Instant,
        emit: &mut impl FnMut(&TraceEvent<'_, E>),
    ) -> Option<ExitCause> {
        let runner = self.runner.as_mut()?;
        match message {
            FromGuard::Ending if runner.must_withdraw() => {
                self.withdraw(Order::Resign { hold_off: Duration::ZERO }, now, emit);
                None
            }
            FromGuard::Ending => None,
            FromGuard::TooLate => {
                runner.end(true, &mut self.leadership);
                None
            }
            FromGuard::Ended { lapsed } => {
                runner.end(false, &mut self.leadership);
                let exits = lapsed && !self.stays_on_loss && self.stop.is_none();
                exits.then_some(ExitCause::LeadershipLost(Reason::Deadline))
            }
        }
    }

    /// Ends the withdrawal of an application that polls again, once its release has ended.
    fn end_unasked(&mut self, now: Instant, emit: &mut impl FnMut(&TraceEvent<'_, E>)) {
        if !self.unasked.is_some_and(|order| order.has_ended && order.is_asked_again) {
            return;
        }
        self.unasked = None;
        self.end(Cause::Unasked, now, emit);
    }

    /// Ends the withdrawal for `cause`, if there is one.
    fn end(&mut self, cause: Cause, now: Instant, emit: &mut impl FnMut(&TraceEvent<'_, E>)) {
        if !self.withdrawals.contains(cause) {
            return;
        }
        self.withdrawals.end(cause, &mut self.machine, now);
        emit(&TraceEvent::WithdrawalEnded(self.number, cause));
        self.report_withdrawal(now, emit);
    }
}
