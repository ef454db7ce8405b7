//! The facts about all candidates that properties ask for at each event.
//!
//! Pure. Start with [`Summary::of`]. The facts rarely change, so only the events that may change
//! them recompute the summary. A debug build checks that at each event.

use super::candidate_view::CandidateView;
use super::ended_runs::EndedRun;
use super::inspect::Inspect;
use super::state::CheckerState;
use crate::trace::TraceEvent;

/// Facts about all candidates.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Summary {
    /// The candidate that is the holder.
    holder: Option<usize>,
    /// The candidate whose ended run is the holder.
    ended_holder: Option<usize>,
    /// Whether any candidate has withdrawn.
    pub(super) is_any_withdrawn: bool,
    /// Whether any candidate has a superseded order that has not ended.
    pub(super) is_order_superseded: bool,
    /// Whether any candidate has ordered a command that has not ended.
    pub(super) has_commands: bool,
}

impl Summary {
    pub(super) fn of(state: &CheckerState) -> Self {
        let (candidates, holder) = (&state.candidates, state.holder.as_ref());
        let is_holder = |candidate: &CandidateView| candidate.identity.as_ref() == holder;
        let is_ended_holder = |candidate: &CandidateView| {
            candidate.ended_run.as_ref().is_some_and(|run| Some(run.identity()) == holder)
        };
        Self {
            holder: holder.and_then(|_| candidates.iter().position(is_holder)),
            ended_holder: candidates.iter().position(is_ended_holder),
            is_any_withdrawn: candidates.iter().any(|it| it.withdrawal.is_some()),
            is_order_superseded: candidates.iter().any(|it| it.causes.is_any_superseded()),
            has_commands: candidates.iter().any(|it| it.commands.has_any()),
        }
    }
}

impl CheckerState {
    /// Updates the summary after `event`.
    pub(super) fn summarize<E: Inspect>(&mut self, event: &TraceEvent<'_, E>) {
        if let TraceEvent::ProcessStarted(..)
        | TraceEvent::ProcessExited(..)
        | TraceEvent::Ordered(..)
        | TraceEvent::OrderSettled(..)
        | TraceEvent::WithdrawalEnded(..)
        | TraceEvent::Withdrew(..)
        | TraceEvent::CampaignResumed(..)
        | TraceEvent::HolderChanged(..)
        | TraceEvent::Command(..) = event
        {
            self.summary = Summary::of(self);
        }
        debug_assert_eq!(self.summary, Summary::of(self), "another event changes the summary");
    }

    /// The candidate that is the holder.
    pub(super) const fn holding_candidate(&self) -> Option<usize> {
        self.summary.holder
    }

    /// The candidate whose ended run is the holder.
    pub(super) fn holding_ended_run(&self) -> Option<(usize, &EndedRun)> {
        let number = self.summary.ended_holder?;
        self.candidates[number].ended_run.as_ref().map(|run| (number, run))
    }
}
