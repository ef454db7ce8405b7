//! Liveness: while one candidate and the store are well there is a leader, and soon.

use super::candidate_view::{CandidateView, Race};
use super::exclusion::name;
use super::state::CheckerState;
use crate::clock::Moment;
use crate::trace::{ExitCause, TraceContext, TraceEvent};
use baton_election::machine::{Election, Request as _, Verb, Withdrawal};
use std::time::Duration;

/// Spread over candidates that wait for the same lease to run out.
const MAX_SPREAD: Duration = Duration::from_millis(100);
/// How long nobody leads after a release at the most.
const MAX_HANDOVER: Duration = Duration::from_millis(100);
/// The longest way that anything calls for over a record: a write that is refused, a read, and the write over that.
const MAX_STEPS_OVER_RECORD: u32 = 3;
/// The same over an ensemble: to connect, make the path, join, list, look, check, read who leads, and write that.
const MAX_STEPS_OVER_ENSEMBLE: u32 = 8;
/// How often anybody asks in one retry period of calm, at the most.
const MAX_CALM_REQUESTS: u32 = 2;

/// Any candidate that is well, since it and the store are and since anybody led, sees a leader within `L + 2·retry` by its own
/// clock, and the spread; what the calls take comes on top.
///
/// In an ensemble it waits for sessions that nobody uses any more, `T + 3/2·tick` by the slowest_clock server's clock. Whoever stands
/// next is told of their end at once, and fault_began to lead.
pub(super) fn leader_in_time<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    _: &TraceEvent<'_, E>,
) -> Option<String> {
    if state.has_leader(context.now) {
        return None;
    }
    (0..state.candidates.len()).find_map(|number| {
        let candidate = &state.candidates[number];
        // News that come late may tell of a record that a stranger has deleted since: it is waited for as if it were there. Who was
        // shown the past may be told of a later past, and waits for what he reads next.
        let is_late = state.external_change.is_some() || state.stale_reads_until.is_some();
        let hears_since = if is_late { candidate.watch_reliable_since } else { Moment::START };
        if state.external_change.is_some() && candidate.watch_faults > 0 {
            return None;
        }
        let lease = candidate.timing.lease_duration().max(state.longest_lease);
        let calm_since = state
            .fault_free_since(number)?
            .max(state.last_led_at)
            .max(state.queue_moves_since()?)
            .max(hears_since);
        // A session that its owner has had to forget lasts as long as any from when it was heard of last. Who goes on forgetting
        // them when all others are over has no such reason.
        let since = calm_since.max(
            state
                .last_session_forgotten
                .min(calm_since + state.session_end_bound(lease, calm_since)),
        );
        let waited = context.now.since(since);
        let rate = context.clocks[number].rate();
        let bound = match state.lag() {
            None => rate.true_time_for(lease + candidate.timing.retry_period() * 2 + MAX_SPREAD),
            Some(lag) => {
                let given_up = state.restored_at.map_or(Duration::ZERO, |_| {
                    rate.true_time_for(lease + candidate.timing.retry_period() * 2)
                });
                let ended = state.session_end_bound(lease, since);
                ended.max(given_up) + rate.true_time_for(first_claim(candidate, lag))
            }
        } + state.latency * 16;
        (waited > bound).then(|| {
            format!(
                "nobody has led for {waited:?}, and {} is well: {bound:?} is allowed",
                name(number)
            )
        })
    })
}

/// Who is in the record without a claim need not wait for himself: two retry periods and a call, and he leads again.
pub(super) fn no_wait_on_own_record<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    _: &TraceEvent<'_, E>,
) -> Option<String> {
    if state.has_leader(context.now) {
        return None;
    }
    // In an ensemble he who lost stands in line anew.
    let holder = state.holder.as_ref().filter(|_| state.tick.is_zero())?;
    let number = state
        .candidates
        .iter()
        .position(|candidate| candidate.identity.as_ref() == Some(holder))?;
    // Of what came back with its store he need not have heard, and waits as any other until he writes again.
    let candidate = Some(&state.candidates[number])
        .filter(|candidate| !candidate.rests_on(state.restored_at))?;
    let since = state.fault_free_since(number)?.max(state.held_since).max(state.last_led_at);
    let waited = on_clock(context, number, since);
    let bound = candidate.timing.retry_period() * 2 + candidate.call_budget() + state.latency * 16;
    (waited > bound)
        .then(|| format!("{} is in the record and has not led for {waited:?}", name(number)))
}

/// A withdrawn candidate holds no record without a claim: no candidate leads until it is gone, and
/// its stop may come much later. It has three calls' time to find out and to release.
pub(super) fn withdrawn_releases_record<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    _: &TraceEvent<'_, E>,
) -> Option<String> {
    let holder = state.holder.as_ref().filter(|_| state.tick.is_zero())?;
    let number = state
        .candidates
        .iter()
        .position(|candidate| candidate.identity.as_ref() == Some(holder))?;
    let candidate = &state.candidates[number];
    let (_, withdrew) =
        candidate.withdrawal.filter(|_| !candidate.claims(context.local_time(number)))?;
    let is_fault_free =
        candidate.faults + state.store_faults == 0 && !candidate.rests_on(state.restored_at);
    let fault_free_since = candidate
        .fault_free_since
        .max(state.store_fault_free_since)
        .max(state.held_since)
        .max(state.last_led_at);
    let since =
        fault_free_since.max(context.clocks[number].when(withdrew.max(candidate.paused_at)));
    let waited = on_clock(context, number, since);
    let bound =
        candidate.timing.retry_period() * 2 + candidate.call_budget() * 3 + state.latency * 16;
    (is_fault_free && waited > bound).then(|| {
        format!(
            "{} has withdrawn, leads no more, and has been in the record for {waited:?}",
            name(number)
        )
    })
}

/// Within 100 ms of a release, if some other candidate has been well for long enough to hear of it. In an ensemble whose tick
/// leaves little of a session, the first claim takes two answers, a lag and a retry period apart.
pub(super) fn takeover_after_release<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    _: &TraceEvent<'_, E>,
) -> Option<String> {
    let released = state.released?;
    let waited = context.now.since(released);
    if waited <= MAX_HANDOVER {
        return None;
    }
    let takes = |number: usize| {
        let (candidate, rate) = (&state.candidates[number], context.clocks[number].rate());
        match state.lag() {
            // News of a store that was set back look like old ones to who knows of larger numbers, and whoever had those is waited out.
            None if state.may_know_larger_numbers(number, released) => {
                let lease = candidate.timing.lease_duration().max(state.longest_lease);
                MAX_HANDOVER
                    + state.latency * 16
                    + rate.true_time_for(lease + candidate.timing.retry_period() * 2)
            }
            None => MAX_HANDOVER,
            Some(lag) => {
                MAX_HANDOVER + state.latency * 16 + rate.true_time_for(first_claim(candidate, lag))
            }
        }
    };
    let has_long_been_well = |number: &usize| {
        let candidate = &state.candidates[*number];
        let retry_period = candidate.timing.retry_period();
        // Its answers since then must also be old enough for a claim to rest on.
        let settling_time = state.lag().map_or(Duration::ZERO, |lag| lag + retry_period * 3);
        let long = settling_time.max(retry_period * 6);
        let fault_free_since =
            state.fault_free_since(*number).filter(|_| candidate.watch_faults == 0);
        // In an ensemble none but the next in the line may, and not by a session that it was cut off from for so long that it
        // had to take it for over.
        let is_next = state.tick.is_zero()
            || state.holder == candidate.identity && state.session_forgotten_at.is_none();
        is_next
            && fault_free_since.is_some_and(|since| {
                released.since(since.max(candidate.watch_reliable_since)) > long
            })
            && waited > takes(*number)
    };
    (0..state.candidates.len()).find(has_long_been_well).map(|number| {
        format!(
            "it was given up {waited:?} ago, and {}, which is well, does not lead",
            name(number)
        )
    })
}

/// Who stops cleanly, and was well meanwhile, leaves nobody waiting for his lease. FaultKind he had in an ensemble by a session that
/// he could not reach for its whole length is not his to give back: he has forgotten it, as he must, since servers that were set
/// back would refuse to take it up for ever. Nor is a record that came back with a store, where nobody has shown it to him since.
pub(super) fn clean_stop_releases<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::ProcessExited(number, ExitCause::Stopped) = event else { return None };
    let candidate = &state.candidates[*number];
    let (_, since) = candidate.withdrawal?;
    let fault_free_since = candidate.fault_free_since.max(state.store_fault_free_since);
    let was_well = candidate.faults + state.store_faults == 0
        && context.clocks[*number].read(fault_free_since) < since;
    let cut_off = context.local_time(*number).since(candidate.answered_at);
    let is_refused =
        candidate.rests_on(state.restored_at) || cut_off > candidate.timing.lease_duration();
    let has_forgotten = state.session_forgotten_at.is_some() || !state.tick.is_zero() && is_refused;
    let is_back = state.tick.is_zero()
        && candidate.rests_on(state.restored_at)
        && candidate.believed_holder != candidate.identity;
    (was_well && state.holder == candidate.identity && !has_forgotten && !is_back)
        .then(|| format!("{} stopped cleanly, and its record is still there", name(*number)))
}

/// Who was told to give leadership up, and does not know what became of its last write, reads: at once, and before it writes. FaultKind
/// it released unread might be another's, and others wait for what it leaves.
pub(super) fn reads_after_unknown_write<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let writes_now = |number: usize| {
        let TraceEvent::RequestSent(whose, request, _) = event else { return false };
        *whose == number && request.verb() != Verb::Read
    };
    (0..state.candidates.len()).filter(|_| state.tick.is_zero()).find_map(|number| {
        let candidate = &state.candidates[number];
        let (how, ordered) = candidate.withdrawal.filter(|_| candidate.is_in_doubt())?;
        let leaves_at = candidate.promised.map_or(ordered, |(until, _)| until.max(ordered));
        let may_rest = context.clocks[number].when(
            leaves_at
                .max(candidate.backoff_until)
                .max(candidate.last_input_at)
                .max(candidate.paused_at),
        );
        let writes = writes_now(number) && leaves_at <= context.local_time(number);
        let waits = candidate.pauses == 0 && context.now.since(may_rest) > state.latency * 4;
        (how == Withdrawal::Releasing && (writes || waits))
            .then(|| format!("{} leaves, and does not look what became of its write", name(number)))
    })
}

/// Who stops cleanly, and was last shown less than it was told of or may have written, has looked once more: that nothing is its own
/// may be what the past looked like, and others wait for what it leaves.
pub(super) fn no_stop_on_stale_read<E: Election>(
    state: &CheckerState,
    _: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::ProcessExited(number, ExitCause::Stopped) = event else { return None };
    let candidate = &state.candidates[*number];
    let (_, ordered) = candidate.withdrawal.filter(|_| state.tick.is_zero())?;
    let stood_still = candidate.pauses > 0 || ordered <= candidate.paused_at;
    (candidate.trusts_stale_read(ordered) && !stood_still)
        .then(|| format!("{} stops, and believes the past", name(*number)))
}

/// Who was told that it will be stopped holds the election until it is.
pub(super) fn leads_until_stop<E: Election>(
    state: &CheckerState,
    _: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::ClaimPublished(number, None) = event else { return None };
    let candidate = &state.candidates[*number];
    let leaves = candidate.withdrawal.is_some_and(|(how, _)| how == Withdrawal::Renewing);
    let is_excused = state.is_undone_from_outside(candidate) || candidate.disturbance.is_some();
    (leaves && !is_excused)
        .then(|| format!("{} gives up before it was told to stop", name(*number)))
}

/// Nobody asks without pause. In one retry period it goes the longest way no more than once for itself and for each candidate that
/// comes or goes, and once for each action of a stranger and each order to go or to come back. A connection is opened no more than
/// four times a call, and may break at the next request. In calm a renewal or a look is enough, and one thing more: a look that
/// news overtook, again, or over an ensemble who leads.
pub(super) fn requests_are_paced<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::RequestSent(number, _, sent) = event else { return None };
    let candidate = &state.candidates[*number];
    let (since, count) = candidate.request_window;
    if sent.since(since) >= candidate.timing.retry_period() || count < MAX_CALM_REQUESTS {
        return None;
    }
    let way = if state.tick.is_zero() { MAX_STEPS_OVER_RECORD } else { MAX_STEPS_OVER_ENSEMBLE };
    let candidates = u32::try_from(state.candidates.len()).expect("a world has few candidates");
    let breaks = state.lag().map_or(0, |lag| {
        let calls = candidate.timing.retry_period().as_nanos()
            / candidate.call_budget_with_lag(Some(lag)).as_nanos().max(1)
            + 1;
        u32::try_from(calls).unwrap_or(u32::MAX).saturating_mul(8)
    });
    // A leader whose record is edited again and again looks and writes once for each conflict, if
    // not too often.
    let contested = candidate.overtaken_writes.min(max_contested_writes(candidate)) * 2;
    let in_storm =
        ((1 + candidates + candidate.extra_requests) * way + contested).saturating_add(breaks);
    let most = if state.is_calm(context.now) { MAX_CALM_REQUESTS } else { in_storm };
    (count >= most)
        .then(|| format!("{} asks more than {most} times in one retry period", name(*number)))
}

/// How often a leader attempts in one retry period while its record is edited again and again: sixteen
/// times in the pace of failures.
fn max_contested_writes(candidate: &CandidateView) -> u32 {
    let (retry, call) =
        (candidate.timing.retry_period().as_nanos(), candidate.call_budget().as_nanos().max(1));
    u32::try_from(retry.div_ceil(call)).unwrap_or(u32::MAX).saturating_mul(16)
}

/// Who loses a race leaves it to the watch to say who won, and asks no sooner than a retry period later: a thousand losers would.
pub(super) fn loser_waits_for_watch<E: Election>(
    state: &CheckerState,
    _: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::RequestSent(number, _, sent) = event else { return None };
    let candidate = &state.candidates[*number];
    let Race::Lost(lost) = candidate.race else { return None };
    let rests = sent.since(lost);
    (state.tick.is_zero() && rests < candidate.timing.retry_period())
        .then(|| format!("{} lost a race, and asks {rests:?} later who won", name(*number)))
}

/// How long the first claim of whoever has become the first of the line takes: nothing, or where lags leave little of a session
/// two answers, a lag and a retry period apart.
fn first_claim(candidate: &CandidateView, lag: Duration) -> Duration {
    let timing = &candidate.timing;
    let least = timing.drift().least_of_ours(timing.lease_duration());
    let is_tight = least < timing.retry_period() * 3 + lag + candidate.call_budget();
    if is_tight { lag + timing.retry_period() } else { Duration::ZERO }
}

/// The time since `since` as the clock of `number` counts it.
fn on_clock(context: &TraceContext<'_>, number: usize, since: Moment) -> Duration {
    context.local_time(number).since(context.clocks[number].read(since))
}
