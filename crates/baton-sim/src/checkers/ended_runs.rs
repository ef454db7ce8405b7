//! The release for an ended run: never while anything may act for that run, and soon after.
//!
//! Pure. [`EndedRun`] is a second account of the previous run of a candidate. Start with
//! [`ended_run_acts_no_more`]. Each function is one property.

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
    /// Whether the next run may release what it held: there is a state directory, and the
    /// application acts only on promises or as a command.
    may_be_released: bool,
    /// Whether it has sent a release itself, which may be applied late.
    has_sent_release: bool,
}

/// The present run of a candidate, as the next one will know it.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct PresentRun {
    /// Whether the next run may release what this one holds when it ends.
    leaves_trace: bool,
    /// When it started, if it runs.
    pub(super) started_at: Option<Moment>,
    pub(super) has_sent_release: bool,
}

impl EndedRun {
    /// The run of `candidate` that ends because of `cause`.
    pub(super) fn of(candidate: &CandidateView, cause: ExitCause) -> Option<Self> {
        Some(Self {
            identity: candidate.identity.clone()?,
            may_be_released: candidate.run.leaves_trace && cause != ExitCause::Stopped,
            has_sent_release: candidate.run.has_sent_release,
        })
    }
}

impl PresentRun {
    /// The runs of this candidate.
    pub(super) fn of(config: &CandidateConfig) -> Self {
        let leaves_trace = config.keeps_state && (config.asks || config.command.is_some());
        Self { leaves_trace, ..Self::default() }
    }

    /// The next run of the same candidate.
    pub(super) fn restarted(self) -> Self {
        Self { leaves_trace: self.leaves_trace, ..Self::default() }
    }
}

/// Nothing acts for an ended run any more when its record or session is released.
pub(super) fn ended_run_acts_no_more<E: Election>(
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
    (is_wrong && !run.has_sent_release)
        .then(|| format!("what {} held as {run:?} is released; acts: {acts}", name(number)))
}

/// The next run releases what its ended run held, unless it has seen another holder. An ensemble
/// without a fault of its servers resumes the session.
pub(super) fn ended_run_is_released<E: Election>(
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
    let since = disturbed_at
        .max(candidate.run.started_at.unwrap_or(Moment::START))
        .max(state.store_fault_free_since)
        .max(candidate.watch_reliable_since);
    let clock = &context.clocks[number];
    let since = clock.read(since).max(candidate.paused_at);
    let waited = context.local_time(number).since(since);
    let timing = &candidate.timing;
    let bound = timing.longest_promise()
        + timing.retry_period() * 2
        + candidate.call_budget_with_lag(state.lag()) * 3
        + state.latency * 16;
    (waited > bound).then(|| {
        format!("{} has not released what it held as {run:?} for {waited:?}", name(number))
    })
}

impl CheckerState {
    /// The candidate whose ended run is the holder.
    fn holding_ended_run(&self) -> Option<(usize, &EndedRun)> {
        let holder = self.holder.as_ref()?;
        let mut runs = self.candidates.iter().enumerate();
        runs.find_map(|(number, candidate)| {
            let run = candidate.ended_run.as_ref().filter(|run| run.identity == *holder)?;
            Some((number, run))
        })
    }
}
