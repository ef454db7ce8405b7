//! Calm: what is not broken does not change hands, and what is broken is noticed.

use super::exclusion::name;
use super::state::CheckerState;
use crate::clock::Moment;
use crate::trace::{TraceContext, TraceEvent};
use baton_election::machine::{Election, Reason, Transition, Withdrawal};
use std::time::Duration;

/// When nothing has been wrong for long enough, nothing occurs to anybody.
pub(super) fn no_transition_without_fault<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::Transitioned(number, transition) = event else { return None };
    let disturbed =
        state.external_change.map_or(state.quiet_since, |(at, _)| at.max(state.quiet_since));
    let quiet = context.now.since(disturbed);
    (state.is_fault_free() && quiet > state.settling_time()).then(|| {
        format!("nothing has been wrong for {quiet:?}, and {} tells {transition:?}", name(*number))
    })
}

/// A leader that is cut off for less than the slack, two calls' time, goes on leading, for the third try comes through; and
/// nothing but a stranger or a read from the past takes leadership away before its deadline. An ensemble is away, too, while its
/// servers look for a leader. A claim that the session cut, for it rests on an old answer, suffers from what was wrong since that.
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
        // A release of ours that was applied is no loss. Where somebody between sent it twice, we were told of a conflict.
        Reason::Conflict | Reason::Deleted
            if is_releasing && !state.is_undone_from_outside(candidate) =>
        {
            !candidate.has_released
                && candidate.disturbance_at_loss.or(candidate.disturbance).is_some()
        }
        Reason::Conflict | Reason::Deleted => state.is_undone_from_outside(candidate),
        Reason::Deadline if is_releasing || candidate.rests_on(state.restored_at) => true,
        Reason::Deadline => {
            let elected = state
                .election_time_after(context.clocks[*number].when(candidate.full_claim_sent_at));
            let lasted = candidate
                .disturbance_at_loss
                .map(|(from, to)| to.since(from) + state.latency * 4 + elected);
            lasted >= Some(candidate.call_budget_with_lag(state.lag()) * 2)
        }
        Reason::SessionExpired
        | Reason::Resigned
        | Reason::Unasked
        | Reason::Shutdown
        | Reason::Fault => false,
    };
    (!is_allowed).then(|| {
        let disturbance_at_loss = candidate.disturbance_at_loss;
        format!(
            "{} lost leadership ({reason}) though all that was wrong since its last renewal is {disturbance_at_loss:?}",
            name(*number)
        )
    })
}

/// Nobody's claim runs out who has not attempts_at_loss three times to renew it, unless it stood still or was contradicted, or the session
/// left less than three calls of it. To take up a session whose connection broke is a try.
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
    // In a session a pause also counts between the answer that the last claim rests on and the claim.
    let stood_still =
        candidate.pauses > 0 || renewed.min(candidate.full_claim_sent_at) <= candidate.paused_at;
    let was_contradicted =
        candidate.contradicted_at.is_some_and(|at| renewed <= at + state.latency * 8);
    let is_releasing = candidate.withdrawal.is_some_and(|(how, _)| how == Withdrawal::Releasing);
    let is_excused =
        stood_still || is_releasing || was_contradicted || candidate.rests_on(state.restored_at);
    (attempts < 3 && candidate.claim_allows_three_calls(state.lag()) && !is_excused).then(|| {
        format!("{} lost leadership after {attempts} attempts to renew its claim", name(*number))
    })
}

/// A leader that is well and told that its record is gone withdraws at once, whatever else is under way.
pub(super) fn deletion_ends_term<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    _: &TraceEvent<'_, E>,
) -> Option<String> {
    let deleted = state.deleted?;
    let ignores = |number: &usize| {
        let candidate = &state.candidates[*number];
        let told = candidate.deletion_seen_at.filter(|told| *told >= deleted);
        let was_well = |told: Moment| {
            let fault_free_since = candidate.fault_free_since.max(state.store_fault_free_since);
            // A call from before that is never answered has to be waited out first.
            let asks_in_vain = candidate.has_pending_request()
                && candidate.sent_at < context.clocks[*number].read(fault_free_since);
            candidate.faults + state.store_faults == 0
                && !asks_in_vain
                && fault_free_since <= told
                && context
                    .now
                    .since(told.max(context.clocks[*number].when(candidate.backoff_until)))
                    > state.latency * 8
        };
        // Who waits for its last promise to run out, to release, looks into nothing any more.
        let is_releasing =
            candidate.withdrawal.is_some_and(|(how, _)| how == Withdrawal::Releasing);
        !is_releasing
            && told.is_some_and(was_well)
            && candidate.claims(context.local_time(*number))
            && candidate.applied_at() <= Some(deleted)
    };
    if let Some(number) = (0..state.candidates.len()).find(ignores) {
        return Some(format!(
            "{} still claims what it was told is gone since {deleted:?}",
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
        let hears_news =
            candidate.watch_faults == 0 && candidate.watch_reliable_since < external_change;
        hears_news
            && candidate.claims(context.local_time(*number))
            && candidate.applied_at() <= Some(external_change)
    };
    (0..state.candidates.len()).find(claims).map(|number| {
        format!("{} still claims what a stranger deleted at {external_change:?}", name(number))
    })
}

impl CheckerState {
    /// The longest retry period of any.
    pub(super) fn longest_retry(&self) -> Duration {
        self.candidates
            .iter()
            .map(|candidate| candidate.timing.retry_period())
            .max()
            .unwrap_or_default()
    }

    /// Whether nothing has been wrong, and no stranger has done anything, for so long that nothing may happen.
    pub(super) fn is_calm(&self, now: Moment) -> bool {
        let disturbed = self.quiet_since.max(self.last_external_action);
        self.is_fault_free() && now.since(disturbed) > self.settling_time()
    }

    /// How long an election takes at the most, from the end of what was wrong, until it changes no more.
    pub(super) fn settling_time(&self) -> Duration {
        let lease = self
            .candidates
            .iter()
            .map(|candidate| candidate.timing.lease_duration())
            .max()
            .unwrap_or_default();
        // On the slowest_clock clock that is drawn.
        let ensemble = self.tick * (4 + self.sync_limit)
            + if self.tick.is_zero() { Duration::ZERO } else { lease };
        (lease.max(self.longest_lease) + ensemble + self.longest_retry() * 6 + self.latency * 20)
            * 3
            / 2
    }
}
