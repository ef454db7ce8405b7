//! Withdrawals: no order cancels another, and a release waits for the last promise.
//!
//! Pure. [`Causes`] is a second account of the reasons to stay away, kept from the orders alone.
//! Start with [`no_campaign_while_a_cause_applies`]. Each function is one property.

use super::candidate_view::{CandidateView, Race, RoleWhenSent};
use super::exclusion::name;
use super::inspect::Inspect;
use super::state::CheckerState;
use crate::clock::Moment;
use crate::trace::{ExitCause, TraceContext, TraceEvent};
use baton_election::instant::Instant;
use baton_election::leadership::Status;
use baton_election::machine::{Election, Reason, Withdrawal};
use baton_election::withdrawals::{Cause, Order, OrderOutcome, Ticket};
use std::collections::BTreeMap;

/// The causes that apply to one candidate. Each `Instant` is by its own clock.
#[derive(Clone, Default, Debug)]
pub(super) struct Causes {
    orders: BTreeMap<Cause, Received>,
    /// An order that a later one has superseded and that has not ended yet, and since when.
    superseded: Option<(Ticket, Moment)>,
    /// When an order last ended a cause.
    ended_at: Option<Instant>,
}

/// The last order of one cause.
#[derive(Clone, Copy, Debug)]
struct Received {
    ticket: Ticket,
    order: Order,
    at: Instant,
    /// How it ended, when, and when the claim ended that it releases.
    settled: Option<(OrderOutcome, Instant, Option<Instant>)>,
}

impl CheckerState {
    pub(super) fn withdrew(&mut self, context: &TraceContext<'_>, number: usize, how: Withdrawal) {
        self.allow_extra_request();
        self.candidates[number].withdraw(how, context.local_time(number));
        self.candidates[number].commands.ask();
        self.disturbed(context.now);
    }

    pub(super) fn resumed(&mut self, context: &TraceContext<'_>, number: usize, from: Instant) {
        self.allow_extra_request();
        let began = context.clocks[number].when(from).max(context.now);
        self.candidates[number].campaign(from, began);
        self.disturbed(began);
    }

    pub(super) fn order_settled(
        &mut self,
        number: usize,
        ticket: Ticket,
        outcome: OrderOutcome,
        at: Instant,
    ) {
        let candidate = &mut self.candidates[number];
        candidate.causes.settle(ticket, outcome, at, candidate.claim_ends);
    }
}

impl CandidateView {
    /// The candidate withdraws when its clock reads `local_time`. Another order to release changes
    /// nothing.
    pub(super) fn withdraw(&mut self, how: Withdrawal, local_time: Instant) {
        let since = match (self.withdrawal, how) {
            (Some((Withdrawal::Releasing, since)), Withdrawal::Releasing) => since,
            (Some(_) | None, Withdrawal::Releasing | Withdrawal::Renewing) => local_time,
        };
        (self.withdrawal, self.is_campaigning, self.race) = (Some((how, since)), false, Race::None);
    }

    /// The candidate may campaign again from the local time `from` on, which is the moment `began`.
    pub(super) fn campaign(&mut self, from: Instant, began: Moment) {
        (self.withdrawal, self.is_campaigning, self.fault_free_since) = (None, true, began);
        (self.campaigns_from, self.campaigns_since) = (from, began);
    }
}

impl Causes {
    pub(super) fn add(&mut self, ticket: Ticket, order: Order, at: Instant, now: Moment) {
        let received = Received { ticket, order, at, settled: None };
        let earlier = self.orders.insert(order.cause(), received);
        if let Some(Received { ticket, settled: None, .. }) = earlier {
            self.superseded = Some((ticket, now));
        }
    }

    pub(super) fn settle(
        &mut self,
        ticket: Ticket,
        outcome: OrderOutcome,
        at: Instant,
        claim_ends: Option<Instant>,
    ) {
        self.superseded.take_if(|(superseded, _)| {
            *superseded == ticket && outcome == OrderOutcome::Superseded
        });
        for received in self.orders.values_mut().filter(|received| received.ticket == ticket) {
            received.settled = Some((outcome, at, claim_ends));
        }
    }

    /// Whether a superseded order has not ended yet.
    pub(super) const fn is_any_superseded(&self) -> bool {
        self.superseded.is_some()
    }

    /// When a cause last ended by order.
    pub(super) const fn ended_at(&self) -> Option<Instant> {
        self.ended_at
    }

    pub(super) fn end(&mut self, cause: Cause, local_time: Instant) {
        self.orders.remove(&cause);
        self.ended_at = Some(local_time);
    }

    /// The cause that applies longest, and until when; `None` for an end that is not known yet.
    fn longest(&self) -> Option<(Cause, Option<Instant>)> {
        let all = self.orders.iter().map(|(cause, received)| (*cause, until(received)));
        all.max_by_key(|(_, until)| (until.is_none(), *until))
    }

    /// Whether an order that applies at `local_time` asks for a release. The other orders keep the
    /// record.
    fn ask_for_a_release(&self, local_time: Instant) -> bool {
        let is_over = |received: &Received| until(received).is_some_and(|until| until < local_time);
        let orders = self.orders.values().filter(|received| !is_over(received));
        orders.into_iter().any(|received| match received.order {
            Order::Shutdown | Order::Resign { .. } | Order::Unasked => true,
            Order::Unfit { releases } => releases,
            Order::Stopping { .. } => false,
        })
    }

    /// The cause that applies at `local_time`.
    fn applying(&self, local_time: Instant) -> Option<Cause> {
        let applies = |received: &Received| {
            received.at < local_time && until(received).is_none_or(|until| local_time < until)
        };
        let mut applying = self.orders.iter().filter(|(_, received)| applies(received));
        applying.next().map(|(cause, _)| *cause)
    }
}

/// When a cause ends by itself; `None` if that is not known yet.
fn until(received: &Received) -> Option<Instant> {
    match (received.order, received.settled) {
        (Order::Stopping { limit }, _) => Some(received.at + limit),
        (Order::Resign { hold_off }, Some((OrderOutcome::Unconfirmed, _, Some(claim_ends)))) => {
            Some(claim_ends + hold_off)
        }
        (Order::Resign { hold_off }, Some((_, at, _))) => Some(at + hold_off),
        (Order::Resign { .. } | Order::Shutdown | Order::Unasked | Order::Unfit { .. }, _) => None,
    }
}

/// While a cause applies, no term begins and no promise is made, whatever other orders say.
pub(super) fn no_campaign_while_a_cause_applies<E: Election>(
    state: &CheckerState,
    _: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let (number, instants, what) = if let TraceEvent::ClaimPublished(number, Some(claim)) = event {
        let candidate = &state.candidates[*number];
        if candidate.term == Some(claim.token())
            || candidate.role_when_sent == RoleWhenSent::Leading
        {
            return None;
        }
        (*number, [candidate.sent_at, candidate.last_input_at], "begins a term")
    } else {
        let (number, queried_at) = promised(event)?;
        (number, [queried_at; 2], "promises")
    };
    let causes = &state.candidates[number].causes;
    let cause = instants.into_iter().find_map(|at| causes.applying(at))?;
    Some(format!("{} {what} at {instants:?}, although it is withdrawn: {cause:?}", name(number)))
}

/// The candidate that promises with this event, and when it was asked.
fn promised<E: Election>(event: &TraceEvent<'_, E>) -> Option<(usize, Instant)> {
    let TraceEvent::QueryAnswered(number, _, answer, queried_at) = event else { return None };
    matches!(answer.status, Status::Leading(_)).then_some((*number, *queried_at))
}

/// The holder sends a release only when none of its promises holds. A candidate that lost its term
/// may remove what a restored store holds of it: others could lead since the loss.
pub(super) fn release_waits_for_promises<E: Inspect>(
    state: &CheckerState,
    _: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::RequestSent(number, request, sent) = event else { return None };
    let candidate = &state.candidates[*number];
    let promised = candidate.own_promise().filter(|until| sent < until)?;
    let holds = state.holder == candidate.identity && !candidate.has_lost;
    let gives_up = E::is_release(request) && holds;
    gives_up.then(|| {
        format!("{} sends a release at {sent:?}, promised until {promised:?}", name(*number))
    })
}

/// A candidate whose claim holds releases the record only on an order to release. If it is withdrawn
/// in another way, its application may act without a promise, so no other candidate may lead.
pub(super) fn release_is_ordered<E: Inspect>(
    state: &CheckerState,
    _: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::RequestSent(number, request, sent) = event else { return None };
    let candidate = &state.candidates[*number];
    let gives_up = E::is_release(request) && candidate.claims(*sent);
    let gives_up = gives_up && !candidate.causes.ask_for_a_release(*sent);
    gives_up.then(|| format!("{} sends a release at {sent:?} without an order", name(*number)))
}

/// A process that prepares to stop does not end because its application is unfit: an application
/// that drains may fail, and the shutdown will release the record.
pub(super) fn unfit_exit_waits_for_the_stop<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::ProcessExited(number, ExitCause::LeadershipLost(Reason::Unfit)) = event else {
        return None;
    };
    let candidate = &state.candidates[*number];
    let stopping = candidate.causes.orders.get(&Cause::Stopping)?;
    let local_time = context.local_time(*number);
    let applies = until(stopping).is_some_and(|until| local_time < until);
    applies.then(|| {
        format!("{} ends as unfit, although it prepares to stop: {stopping:?}", name(*number))
    })
}

/// The caller of a superseded order hears so at once.
pub(super) fn superseded_order_ends<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    _: &TraceEvent<'_, E>,
) -> Option<String> {
    if !state.summary.is_order_superseded {
        return None;
    }
    let is_open = |number: &usize| {
        let superseded = state.candidates[*number].causes.superseded;
        superseded.is_some_and(|(_, since)| since < context.now)
    };
    (0..state.candidates.len())
        .find(is_open)
        .map(|number| format!("{} leaves a superseded order open", name(number)))
}

/// A candidate without a cause to stay away campaigns again.
pub(super) fn campaigns_without_a_cause<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    _: &TraceEvent<'_, E>,
) -> Option<String> {
    if !state.summary.is_any_withdrawn {
        return None;
    }
    let stays_away = |number: &usize| {
        let candidate = &state.candidates[*number];
        if candidate.withdrawal.is_none() || candidate.pauses + candidate.intermittent_faults > 0 {
            return false;
        }
        let over_since = match candidate.causes.longest() {
            Some((_, Some(until))) => until,
            Some((_, None)) => return false,
            None => candidate.paused_at,
        };
        let since = over_since.max(candidate.paused_at);
        let since = candidate.causes.ended_at.map_or(since, |ended_at| ended_at.max(since));
        let since = context.clocks[*number].when(since);
        context.now.since(since.max(candidate.fault_free_since)) > state.latency * 4
    };
    (0..state.candidates.len())
        .find(stays_away)
        .map(|number| format!("{} stays away without a cause", name(number)))
}
