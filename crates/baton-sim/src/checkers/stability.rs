//! Stability: without a fault nothing changes, a short fault ends no term, and a deletion ends it
//! at once.
//!
//! Pure. Each function is one property. Start with [`no_transition_without_fault`].

use super::exclusion::name;
use super::state::CheckerState;
use crate::clock::Moment;
use crate::trace::{TraceContext, TraceEvent};
use baton_election::machine::{Election, Reason, Transition, Withdrawal};
use std::time::Duration;

/// After a long time without disturbance there are no transitions.
pub(super) fn no_transition_without_fault<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::Transitioned(number, transition) = event else { return None };
    let disturbed_at =
        state.external_change.map_or(state.quiet_since, |(at, _)| at.max(state.quiet_since));
    let quiet = context.now.since(disturbed_at);
    (state.is_fault_free() && quiet > state.settling_time).then(|| {
        format!("{} reports {transition:?} after {quiet:?} without disturbance", name(*number))
    })
}

/// A fault that is shorter than two calls does not end a term, because the third attempt to renew
/// succeeds. Before the deadline only another client or a stale read may end a term. While the
/// servers of an ensemble elect a leader, they are unavailable too. A claim that rests on an old
/// answer is affected by disturbances since that answer.
pub(super) fn short_fault_keeps_term<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::Transitioned(number, Transition::Lost { reason, .. }) = event else {
        return None;
    };
    let candidate = &state.candidates[*number];
    let is_releasing = candidate.withdrawal.is_some_and(|(how, _)| how == Withdrawal::Releasing);
    let is_allowed = match reason {
        // An applied release is not a loss. If a proxy sent it twice, the reply was a conflict.
        Reason::Conflict | Reason::Deleted if is_releasing && !state.is_loss_excused(candidate) => {
            !candidate.has_released
                && candidate.disturbance_at_loss.or(candidate.disturbance).is_some()
        }
        Reason::Conflict | Reason::Deleted => state.is_loss_excused(candidate),
        Reason::Deadline if is_releasing || candidate.rests_on(state.restored_at) => true,
        Reason::Deadline => {
            let elected = state
                .election_time_after(context.clocks[*number].when(candidate.full_claim_sent_at));
            let duration = candidate
                .disturbance_at_loss
                .map(|(from, to)| to.since(from) + state.latency * 4 + elected);
            duration >= Some(candidate.call_budget_with_lag(state.lag) * 2)
        }
        Reason::SessionExpired
        | Reason::Resigned
        | Reason::Unasked
        | Reason::Unfit
        | Reason::Shutdown
        | Reason::Fault => false,
    };
    (!is_allowed).then(|| {
        let disturbance_at_loss = candidate.disturbance_at_loss;
        format!(
            "{} lost leadership ({reason}) after the disturbance {disturbance_at_loss:?}",
            name(*number)
        )
    })
}

/// A claim expires only after three attempts to renew it, unless the candidate was suspended or
/// contradicted, or the session left less than three calls. Resuming a session counts as an
/// attempt.
pub(super) fn three_renewal_attempts<E: Election>(
    state: &CheckerState,
    _: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::Transitioned(number, Transition::Lost { reason: Reason::Deadline, .. }) = event
    else {
        return None;
    };
    let candidate = &state.candidates[*number];
    let (attempts, renewed) = candidate.attempts_at_loss;
    // In a session, a pause between the answer that the claim rests on and the claim counts too.
    let was_paused =
        candidate.pauses > 0 || renewed.min(candidate.full_claim_sent_at) <= candidate.paused_at;
    let was_contradicted =
        candidate.contradicted_at.is_some_and(|at| renewed <= at + state.latency * 8);
    let is_releasing = candidate.withdrawal.is_some_and(|(how, _)| how == Withdrawal::Releasing);
    // A releasing candidate does not renew. If the cause ends before the release, the candidate
    // campaigns again, or keeps the record for another cause.
    let is_releasing = is_releasing
        || renewed <= candidate.campaigns_from
        || candidate.causes.ended_at().is_some_and(|ended_at| renewed <= ended_at);
    let is_excused =
        was_paused || is_releasing || was_contradicted || candidate.rests_on(state.restored_at);
    (attempts < 3 && candidate.claim_allows_three_calls(state.lag) && !is_excused).then(|| {
        format!("{} lost leadership after {attempts} attempts to renew its claim", name(*number))
    })
}

/// An undisturbed leader withdraws at once when it learns that its record is gone.
pub(super) fn deletion_ends_term<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    _: &TraceEvent<'_, E>,
) -> Option<String> {
    let deleted_at = state.deleted_at?;
    let ignores = |number: &usize| {
        let candidate = &state.candidates[*number];
        let seen_at = candidate.deletion_seen_at.filter(|seen_at| *seen_at >= deleted_at);
        let was_fault_free = |seen_at: Moment| {
            let fault_free_since = candidate.fault_free_since.max(state.store_fault_free_since);
            let awaits_lost_reply =
                candidate.awaits_lost_reply(context.clocks[*number].read(fault_free_since));
            candidate.faults + state.store_faults == 0
                && !awaits_lost_reply
                && fault_free_since <= seen_at
                && context
                    .now
                    .since(seen_at.max(context.clocks[*number].when(candidate.backoff_until)))
                    > state.latency * 8
        };
        // A releasing candidate waits for its last promise to expire and reads nothing.
        let is_releasing =
            candidate.withdrawal.is_some_and(|(how, _)| how == Withdrawal::Releasing);
        !is_releasing
            && seen_at.is_some_and(was_fault_free)
            && candidate.claims(context.local_time(*number))
            && candidate.applied_at() <= Some(deleted_at)
    };
    if let Some(number) = (0..state.candidates.len()).find(ignores) {
        return Some(format!(
            "{} still holds a claim, although it learned of the deletion at {deleted_at:?}",
            name(number)
        ));
    }
    let (external_change, was_quiet) = state.external_change?;
    let is_due = context.now.since(external_change) > state.latency * 8;
    if !was_quiet || !is_due || !state.leaders_watch || state.quiet_since > external_change {
        return None;
    }
    let claims = |number: &usize| {
        let candidate = &state.candidates[*number];
        let is_watch_reliable =
            candidate.watch_faults == 0 && candidate.watch_reliable_since < external_change;
        is_watch_reliable
            && candidate.claims(context.local_time(*number))
            && candidate.applied_at() <= Some(external_change)
    };
    (0..state.candidates.len()).find(claims).map(|number| {
        format!("{} still holds a claim after the deletion at {external_change:?}", name(number))
    })
}

impl CheckerState {
    /// The longest retry period of all candidates.
    pub(super) fn longest_retry(&self) -> Duration {
        self.candidates
            .iter()
            .map(|candidate| candidate.timing.retry_period())
            .max()
            .unwrap_or_default()
    }

    /// Whether there has been no disturbance and no external action for so long that no transition
    /// may happen.
    pub(super) fn is_calm(&self, now: Moment) -> bool {
        let disturbed_at = self.quiet_since.max(self.last_external_action);
        self.is_fault_free() && now.since(disturbed_at) > self.settling_time
    }

    /// Computes [`Self::settling_time`].
    pub(super) fn longest_settling_time(&self) -> Duration {
        let lease = self
            .candidates
            .iter()
            .map(|candidate| candidate.timing.lease_duration())
            .max()
            .unwrap_or_default();
        // On the slowest clock that is ever drawn.
        let ensemble = self.tick * (4 + self.sync_limit)
            + if self.tick.is_zero() { Duration::ZERO } else { lease };
        let preference = self.candidates.iter().map(|it| it.preference.stand_after()).max();
        (lease.max(self.longest_lease)
            + preference.unwrap_or_default()
            + ensemble
            + self.longest_retry() * 6
            + self.latency * 20)
            * 3
            / 2
    }
}
