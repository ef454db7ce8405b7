//! The release on behalf of an ended run: never while anything may act for it, and soon after.
//!
//! Pure. [`EndedRun`] is the checkers' own view of the previous run of a candidate. Start with
//! [`ended_run_release_waits`]. Each function is one property.

use super::answers::Answers;
use super::candidate_view::CandidateView;
use super::exclusion::name;
use super::state::CheckerState;
use crate::clock::Moment;
use crate::scenario::CandidateConfig;
use crate::trace::{ExitCause, TraceContext, TraceEvent};
use baton_election::identity::Identity;
use baton_election::machine::Election;

/// The previous run of a candidate.
#[derive(Clone, Debug)]
pub(super) struct EndedRun {
    identity: Identity,
    /// Whether the next run may release its record or session: there is a state directory, and the
    /// application acts only on promises or as a command.
    may_be_released: bool,
    /// Whether it has sent a release itself, which may be applied late.
    has_sent_release: bool,
}

/// The facts about the current run of a candidate.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct CurrentRun {
    /// Whether the next run may release its record or session when it ends.
    is_releasable: bool,
    /// When it started, if it runs.
    pub(super) started_at: Option<Moment>,
    /// Whether it may have had something to release.
    has_entered: bool,
    /// Whether it has sent a release of that.
    pub(super) has_sent_release: bool,
    /// The answers that its workers have got.
    pub(super) answers: Answers,
}

impl EndedRun {
    /// The identity of the run.
    pub(super) const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The run of `candidate` that ends because of `cause`.
    pub(super) fn of(candidate: &CandidateView, cause: ExitCause) -> Option<Self> {
        Some(Self {
            identity: candidate.identity.clone()?,
            may_be_released: candidate.run.is_releasable && cause != ExitCause::Stopped,
            has_sent_release: candidate.run.has_sent_release,
        })
    }
}

impl CurrentRun {
    /// The run of a candidate that has not started.
    pub(super) fn of(config: &CandidateConfig) -> Self {
        let is_releasable = config.keeps_state && (config.asks || config.command.is_some());
        Self { is_releasable, answers: Answers::of(config.push), ..Self::default() }
    }

    /// The run sends a request. A release before any entry is for the previous run.
    pub(super) const fn sends(&mut self, is_entry: bool, is_release: bool) {
        self.has_entered |= is_entry;
        self.has_sent_release |= self.has_entered && is_release;
    }

    /// The next run of the same candidate.
    pub(super) fn restarted(self) -> Self {
        let (is_releasable, answers) = (self.is_releasable, self.answers.restarted());
        Self { is_releasable, answers, ..Self::default() }
    }
}

/// Nothing acts for an ended run any more when its record or session is released.
pub(super) fn ended_run_release_waits<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::HolderChanged(..) = event else { return None };
    let is_release = state.is_release && !state.is_external_change(context.now);
    let (number, run) = state.holding_ended_run().filter(|_| is_release)?;
    let candidate = &state.candidates[number];
    let acts = candidate.promises(context.local_time(number)) || candidate.commands.any_runs();
    let is_wrong = acts || !run.may_be_released;
    (is_wrong && !run.has_sent_release).then(|| {
        format!(
            "the record of {} is released too early or without proof: {run:?}, acts: {acts}",
            name(number)
        )
    })
}

/// The next run releases the record or session of the previous one, unless it has seen another
/// holder. An ensemble without a fault of its servers resumes the session.
pub(super) fn ended_run_record_is_released<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    _: &TraceEvent<'_, E>,
) -> Option<String> {
    let (number, run) = state.holding_ended_run().filter(|(_, run)| run.may_be_released)?;
    let candidate = &state.candidates[number];
    let may_see_another_holder = state.external_change.is_some()
        || state.stale_reads_until.is_some()
        || state.server_fault_at.is_some()
        || candidate.run.started_at.is_none_or(|started| started < state.held_since);
    let is_impaired = candidate.faults + candidate.watch_faults + state.store_faults > 0;
    if may_see_another_holder || is_impaired {
        return None;
    }
    let disturbed_at = Some(candidate.fault_free_since)
        .filter(|since| *since != candidate.campaigns_since)
        .unwrap_or(Moment::START);
    let started_at = candidate.run.started_at.unwrap_or(Moment::START);
    // A session that it could not reach for the whole timeout is presumed to have expired.
    if !state.tick.is_zero() && disturbed_at > started_at {
        return None;
    }
    let since = disturbed_at
        .max(started_at)
        .max(state.store_fault_free_since)
        .max(candidate.watch_reliable_since);
    let clock = &context.clocks[number];
    let since = clock.read(since).max(candidate.paused_at);
    let waited = context.local_time(number).since(since);
    let timing = &candidate.timing;
    let bound = timing.longest_promise()
        + timing.retry_period() * 2
        + candidate.call_budget_with_lag(state.lag) * 3
        + state.latency * 16;
    (waited > bound)
        .then(|| format!("{} has not released the record of {run:?} for {waited:?}", name(number)))
}
