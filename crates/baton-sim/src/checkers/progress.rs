//! Liveness: while a candidate and the store are free of faults, there is a leader within bounds.
//!
//! Pure. Each function is one property. Start with [`leader_in_time`].

use super::candidate_view::{CandidateView, Race};
use super::exclusion::name;
use super::state::CheckerState;
use crate::clock::Moment;
use crate::trace::{ExitCause, TraceContext, TraceEvent};
use baton_election::machine::{Election, Request as _, Verb, Withdrawal};
use std::time::Duration;

/// The longest delay by which candidates spread after a lease expires.
const MAX_SPREAD: Duration = Duration::from_millis(100);
/// The longest time without a leader after a release.
const MAX_HANDOVER: Duration = Duration::from_millis(100);
/// The longest sequence of requests over a record: a refused write, a read, and the next write.
const MAX_STEPS_OVER_RECORD: u32 = 3;
/// The longest sequence over an ensemble: connect, create the path, join, list, watch, check, read
/// the announcement, and replace it.
const MAX_STEPS_OVER_ENSEMBLE: u32 = 8;
/// The most requests per retry period in calm.
const MAX_CALM_REQUESTS: u32 = 2;

/// A candidate sees a leader within `L + 2·retry`, its preference, and the spread, by its own
/// clock, plus the time of the calls. The time counts from when it and the store are free of faults
/// and no claim is current.
///
/// In an ensemble it waits for the end of unused sessions, `T + 3/2·tick` by the slowest server's
/// clock. The next candidate learns of that at once and begins to lead.
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
        // A late watch event may show a record that another client has deleted since, which the
        // candidate then waits for. After a stale read it may see an even older state until it
        // reads again.
        let may_be_stale = state.external_change.is_some() || state.stale_reads_until.is_some();
        let watch_since = if may_be_stale { candidate.watch_reliable_since } else { Moment::START };
        if state.external_change.is_some() && candidate.watch_faults > 0 {
            return None;
        }
        let lease = candidate.timing.lease_duration().max(state.longest_lease);
        let calm_since = state
            .fault_free_since(number)?
            .max(state.last_led_at)
            .max(state.queue_moves_since()?)
            .max(watch_since);
        // A session that its owner had to abandon lasts as long as any other from its last
        // heartbeat. Once all earlier sessions have ended, no candidate may abandon another one.
        let since = calm_since.max(
            state
                .last_session_forgotten
                .min(calm_since + state.session_end_bound(lease, calm_since)),
        );
        let waited = context.now.since(since);
        let rate = context.clocks[number].rate();
        let bound = match state.lag {
            None => rate.true_time_for(
                lease
                    + candidate.timing.retry_period() * 2
                    + MAX_SPREAD
                    + candidate.preference.stand_after(),
            ),
            Some(lag) => {
                let restored = state.restored_at.map_or(Duration::ZERO, |_| {
                    rate.true_time_for(lease + candidate.timing.retry_period() * 2)
                });
                let ended = state.session_end_bound(lease, since);
                ended.max(restored) + rate.true_time_for(first_claim(candidate, lag))
            }
        } + state.latency * 16;
        (waited > bound).then(|| {
            format!(
                "no leader for {waited:?}, although {} has no fault and {bound:?} is allowed",
                name(number)
            )
        })
    })
}

/// A candidate that is in the record without a claim leads again after two retry periods and a
/// call, without waiting for its own lease.
pub(super) fn no_wait_on_own_record<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    _: &TraceEvent<'_, E>,
) -> Option<String> {
    if state.has_leader(context.now) {
        return None;
    }
    // In an ensemble a candidate that lost joins the queue again.
    let number = state.holding_candidate().filter(|_| state.tick.is_zero())?;
    // It may not know of a record that was restored with the store, and waits like any other
    // candidate until it writes again.
    let candidate = Some(&state.candidates[number])
        .filter(|candidate| !candidate.rests_on(state.restored_at))?;
    let since = state.fault_free_since(number)?.max(state.held_since).max(state.last_led_at);
    let waited = on_clock(context, number, since);
    let bound = candidate.timing.retry_period() * 2 + candidate.call_budget() + state.latency * 16;
    (waited > bound)
        .then(|| format!("{} has been in the record without leading for {waited:?}", name(number)))
}

/// A withdrawn candidate without a claim does not stay in the record, because no other candidate
/// leads until the record is released, and its stop may come much later. It has three calls to find
/// out and to release.
pub(super) fn withdrawn_releases_record<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    _: &TraceEvent<'_, E>,
) -> Option<String> {
    let number = state.holding_candidate().filter(|_| state.tick.is_zero())?;
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
            "{} has been in the record without a claim for {waited:?} since it withdrew",
            name(number)
        )
    })
}

/// Another candidate leads within 100 ms of a release if it has been free of faults for long enough
/// to learn of it. In an ensemble whose tick leaves little of a session, the first claim takes two
/// answers that are a lag and a retry period apart.
pub(super) fn takeover_after_release<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    _: &TraceEvent<'_, E>,
) -> Option<String> {
    let released_at = state.released_at?;
    let waited = context.now.since(released_at);
    if waited <= MAX_HANDOVER {
        return None;
    }
    let allowed = |number: usize| {
        let (candidate, rate) = (&state.candidates[number], context.clocks[number].rate());
        let preference = rate.true_time_for(candidate.preference.stand_after());
        // A candidate that knows newer versions ignores watch events of a restored store as old, so
        // it waits for the lease of the holder that it knows. Restored servers do not resume its
        // session.
        let lease_wait = if state.may_know_newer_versions(number, released_at) {
            let lease = candidate.timing.lease_duration().max(state.longest_lease);
            state.latency * 16 + rate.true_time_for(lease + candidate.timing.retry_period() * 2)
        } else {
            Duration::ZERO
        };
        let handover = MAX_HANDOVER + lease_wait;
        match state.lag {
            None => handover + preference,
            Some(lag) => {
                handover + state.latency * 16 + rate.true_time_for(first_claim(candidate, lag))
            }
        }
    };
    let has_long_been_fault_free = |number: &usize| {
        let candidate = &state.candidates[*number];
        let retry_period = candidate.timing.retry_period();
        // Its answers since then must be old enough for a claim to rest on them.
        let settling_time = state.lag.map_or(Duration::ZERO, |lag| lag + retry_period * 3);
        let long = settling_time.max(retry_period * 6);
        let fault_free_since =
            state.fault_free_since(*number).filter(|_| candidate.watch_faults == 0);
        // In an ensemble only the first candidate in the queue may lead, and only in a session that
        // it has not abandoned after a long partition.
        let is_next = state.tick.is_zero()
            || state.holder == candidate.identity && state.session_forgotten_at.is_none();
        // After a fault of a server, a candidate's server may still follow a former leader, show old
        // state, and fire no watches.
        let has_settled = |since: Moment| {
            released_at.since(since.max(candidate.watch_reliable_since))
                > long.max(state.election_time_after(since))
        };
        is_next && fault_free_since.is_some_and(has_settled) && waited > allowed(*number)
    };
    (0..state.candidates.len()).find(has_long_been_fault_free).map(|number| {
        format!("released {waited:?} ago, but {}, which has no fault, does not lead", name(number))
    })
}

/// A candidate that stops cleanly without a fault leaves no lease behind.
///
/// Three cases are excused. A release waits for the call in progress, and the claim may end before
/// that call times out. In an ensemble a candidate must forget a session that it could not reach
/// for the whole timeout, because restored servers might refuse to resume it forever. Over a record
/// it need not release one that was restored with the store and that it has not seen since.
pub(super) fn clean_stop_releases<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::ProcessExited(number, ExitCause::Stopped) = event else { return None };
    let candidate = &state.candidates[*number];
    let (_, since) = candidate.withdrawal?;
    let fault_free_since = candidate.fault_free_since.max(state.store_fault_free_since);
    let fault_free_since = context.clocks[*number].read(fault_free_since);
    let was_fault_free = candidate.faults + state.store_faults == 0
        && fault_free_since < since
        && !candidate.awaits_lost_reply(fault_free_since);
    let unreachable_for = context.local_time(*number).since(candidate.answered_at);
    let is_refused = candidate.rests_on(state.restored_at)
        || unreachable_for > candidate.timing.lease_duration();
    let has_forgotten = state.session_forgotten_at.is_some() || !state.tick.is_zero() && is_refused;
    let is_restored = state.tick.is_zero()
        && candidate.rests_on(state.restored_at)
        && candidate.believed_holder != candidate.identity;
    (was_fault_free && state.holder == candidate.identity && !has_forgotten && !is_restored)
        .then(|| format!("{} stopped cleanly but left its record behind", name(*number)))
}

/// A withdrawn candidate that does not know the outcome of its last write reads at once, before it
/// writes. A release without a read might remove another holder, and others wait for what it leaves
/// behind.
pub(super) fn reads_after_unknown_write<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let writes_now = |number: usize| {
        let TraceEvent::RequestSent(sender, request, _) = event else { return false };
        *sender == number && request.verb() != Verb::Read
    };
    if !state.summary.is_any_withdrawn || !state.tick.is_zero() {
        return None;
    }
    (0..state.candidates.len()).find_map(|number| {
        let candidate = &state.candidates[number];
        let (how, ordered) = candidate.withdrawal.filter(|_| candidate.is_in_doubt())?;
        let leaves_at = candidate
            .promised()
            .map_or(ordered, |(until, _)| until.max(ordered))
            .max(candidate.work_finished_at().unwrap_or(ordered));
        let must_read_from = context.clocks[number].when(
            leaves_at
                .max(candidate.backoff_until)
                .max(candidate.last_input_at)
                .max(candidate.paused_at),
        );
        let writes = writes_now(number) && leaves_at <= context.local_time(number);
        let waits = candidate.pauses == 0 && context.now.since(must_read_from) > state.latency * 4;
        (how == Withdrawal::Releasing && (writes || waits)).then(|| {
            format!("{} withdrew but does not read after a write of unknown outcome", name(number))
        })
    })
}

/// A candidate that may have written the record reads once more before it stops if its last read
/// was older than what it knows. A stale read may hide its own record, which others would wait for.
pub(super) fn no_stop_on_stale_read<E: Election>(
    state: &CheckerState,
    _: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::ProcessExited(number, ExitCause::Stopped) = event else { return None };
    let candidate = &state.candidates[*number];
    let (_, ordered) = candidate.withdrawal.filter(|_| state.tick.is_zero())?;
    let was_paused = candidate.pauses > 0 || ordered <= candidate.paused_at;
    (candidate.trusts_stale_read(ordered) && !was_paused)
        .then(|| format!("{} stops on a stale read", name(*number)))
}

/// A candidate in its preStop hook keeps leading until SIGTERM.
pub(super) fn leads_until_stop<E: Election>(
    state: &CheckerState,
    _: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::ClaimPublished(number, None) = event else { return None };
    let candidate = &state.candidates[*number];
    let leaves = candidate.withdrawal.is_some_and(|(how, _)| how == Withdrawal::Renewing);
    let is_excused = state.is_loss_excused(candidate) || candidate.disturbance.is_some();
    (leaves && !is_excused).then(|| format!("{} ends its term in its preStop hook", name(*number)))
}

/// Requests are paced. Per retry period, a candidate goes through the longest sequence at most once
/// for itself, and once for its ended run. It does so once per candidate that comes or goes, and
/// once per external action or order. It opens a connection at most four times per call, and each
/// may break at the next request. In calm, a renewal or a read is enough, plus one request: a
/// repeated read, or over an ensemble a read of the announcement.
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
    let sequence =
        if state.tick.is_zero() { MAX_STEPS_OVER_RECORD } else { MAX_STEPS_OVER_ENSEMBLE };
    let candidates = u32::try_from(state.candidates.len()).expect("fewer than 26 candidates");
    let breaks = state.lag.map_or(0, |lag| {
        let calls = candidate.timing.retry_period().as_nanos()
            / candidate.call_budget_with_lag(Some(lag)).as_nanos().max(1)
            + 1;
        u32::try_from(calls).unwrap_or(u32::MAX).saturating_mul(8)
    });
    // While its record is edited repeatedly, a leader reads and writes once per conflict, within
    // limits.
    let contested = candidate.overtaken_writes.min(max_contested_writes(candidate)) * 2;
    let ended_run = u32::from(candidate.ended_run.is_some());
    let under_faults = ((1 + ended_run + candidates + candidate.extra_requests) * sequence
        + contested)
        .saturating_add(breaks);
    let limit = if state.is_calm(context.now) { MAX_CALM_REQUESTS } else { under_faults };
    (count >= limit)
        .then(|| format!("{} sends more than {limit} requests in one retry period", name(*number)))
}

/// The most writes of a leader per retry period while its record is edited repeatedly: 16 times the
/// pace after failures.
fn max_contested_writes(candidate: &CandidateView) -> u32 {
    let (retry, call) =
        (candidate.timing.retry_period().as_nanos(), candidate.call_budget().as_nanos().max(1));
    u32::try_from(retry.div_ceil(call)).unwrap_or(u32::MAX).saturating_mul(16)
}

/// A candidate that loses a race waits for the watch to show the winner, and reads no sooner than a
/// retry period later. A thousand losers would otherwise read at once.
pub(super) fn loser_waits_for_watch<E: Election>(
    state: &CheckerState,
    _: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::RequestSent(number, _, sent) = event else { return None };
    let candidate = &state.candidates[*number];
    let Race::Lost(lost) = candidate.race else { return None };
    let waited = sent.since(lost);
    (state.tick.is_zero() && waited < candidate.timing.retry_period())
        .then(|| format!("{} sends a request {waited:?} after it lost a race", name(*number)))
}

/// How long the first claim at the head of the queue takes: nothing, or two answers a lag and a
/// retry period apart if lags leave little of a session.
fn first_claim(candidate: &CandidateView, lag: Duration) -> Duration {
    let timing = &candidate.timing;
    let least = timing.drift().min_elapsed(timing.lease_duration());
    let is_tight = least < timing.retry_period() * 3 + lag + candidate.call_budget();
    if is_tight { lag + timing.retry_period() } else { Duration::ZERO }
}

/// The time since `since`, by the clock of candidate `number`.
fn on_clock(context: &TraceContext<'_>, number: usize, since: Moment) -> Duration {
    context.local_time(number).since(context.clocks[number].read(since))
}
