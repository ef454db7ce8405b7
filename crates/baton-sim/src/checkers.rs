//! The checkers: every property that must be true, evaluated at each event of a run.
//!
//! Pure. Start with [`first_violation`]. Each property is a function of the event and of the
//! [`CheckerState`] before it. The state is updated after all properties have been evaluated.

mod candidate_view;
mod commands;
mod coverage;
mod ended_runs;
pub(crate) mod exclusion;
mod fault_effects;
mod inspect;
mod lifetime;
mod preference;
mod progress;
mod session_bounds;
mod stability;
mod state;
mod terms;
mod withdrawals;

use crate::clock::Moment;
use crate::scenario::Scenario;
use crate::trace::{Observer, TraceContext, TraceEvent};
pub(crate) use coverage::Coverage;
pub(crate) use inspect::Inspect;
use state::CheckerState;
use std::fmt;

/// A violated property.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Violation {
    /// Its name, as in [`first_violation`].
    pub(crate) property: &'static str,
    /// When it was violated.
    pub(crate) at: Moment,
    /// The observation that violates it.
    pub(crate) detail: String,
}

impl Violation {
    /// Whether two candidates led at once, or could have.
    pub(crate) fn breaks_exclusion(&self) -> bool {
        EXCLUSION.contains(&self.property)
    }
}

/// If one of these is violated, two candidates may lead at once.
const EXCLUSION: [&str; 3] = [
    "at most one candidate holds a claim",
    "at most one candidate promises",
    "the record names the claim holder",
];

/// Returns the first violated property, and what was observed. Calls by name, unlike a table of
/// functions, let the compiler see that most properties concern one variant of [`TraceEvent`].
fn first_violation<E: Inspect>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<(&'static str, String)> {
    macro_rules! first_of {
        ($($name:expr, $property:path;)*) => {
            None$(.or_else(|| $property(state, context, event).map(|detail| ($name, detail))))*
        };
    }
    first_of! {
        EXCLUSION[0], exclusion::at_most_one_claim;
        EXCLUSION[1], exclusion::at_most_one_promise;
        EXCLUSION[2], exclusion::record_names_claim_holder;
        "promises are backed by claims", exclusion::promises_are_backed;
        "a leader answers that it leads", exclusion::leader_answers_leading;
        "claims are backed by writes", exclusion::claims_are_backed;
        "at most one command runs", commands::at_most_one_command;
        "a command ends before its claim", commands::command_ends_before_its_claim;
        "a command starts only for a leader", commands::command_starts_for_a_leader;
        "a release waits for the command", commands::release_waits_for_the_command;
        "the claim of a command is renewed", commands::claim_is_renewed_for_the_command;
        "a command is stopped for a reason", commands::command_is_stopped_for_a_reason;
        "a command ends for a reason", commands::command_ends_for_a_reason;
        "a leader runs its command", commands::leader_runs_its_command;
        "tokens increase from term to term", terms::tokens_increase;
        "a term keeps its token", terms::token_is_constant;
        "a restored store ends newer terms", terms::restored_store_ends_term;
        "only a campaigning candidate begins a term", terms::begins_when_eligible;
        "a leader is elected in time", progress::leader_in_time;
        "a candidate never waits out its own record", progress::no_wait_on_own_record;
        "a withdrawn candidate releases its record", progress::withdrawn_releases_record;
        "a release for an ended run waits", ended_runs::ended_run_release_waits;
        "the record of an ended run is released", ended_runs::ended_run_record_is_released;
        "a released election is acquired at once", progress::takeover_after_release;
        "a free record is left to preferred candidates", preference::no_early_acquisition;
        "a preference adds to no other wait", preference::waits_overlap;
        "no order cancels another withdrawal", withdrawals::no_campaign_while_a_cause_applies;
        "a release waits for the last promise", withdrawals::release_waits_for_promises;
        "a release is ordered", withdrawals::release_is_ordered;
        "an unfit exit waits for the stop", withdrawals::unfit_exit_waits_for_the_stop;
        "a superseded order ends", withdrawals::superseded_order_ends;
        "a candidate campaigns when no cause is left", withdrawals::campaigns_without_a_cause;
        "a clean stop releases", progress::clean_stop_releases;
        "a leaving candidate reads after an unknown write", progress::reads_after_unknown_write;
        "a stopping candidate trusts no stale read", progress::no_stop_on_stale_read;
        "a leader in its preStop hook keeps its term", progress::leads_until_stop;
        "requests are paced", progress::requests_are_paced;
        "the loser of a race waits for the watch", progress::loser_waits_for_watch;
        "knowledge never regresses", terms::knowledge_never_regresses;
        "no transition without a fault", stability::no_transition_without_fault;
        "a short fault ends no term", stability::short_fault_keeps_term;
        "a claim allows three attempts to renew", stability::three_renewal_attempts;
        "a deletion ends the term at once", stability::deletion_ends_term;
    }
}

/// Checks one run.
pub(crate) struct Checker {
    state: CheckerState,
    violation: Option<Violation>,
}

impl Checker {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self { state: CheckerState::new(scenario), violation: None }
    }

    /// The first violation of the run.
    pub(crate) fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// How much the run gave the checkers to check.
    pub(crate) fn coverage(&self) -> Coverage {
        self.state.coverage()
    }
}

impl<E: Inspect> Observer<E> for Checker {
    fn observe(&mut self, context: &TraceContext<'_>, event: &TraceEvent<'_, E>) {
        if self.violation.is_some() {
            return;
        }
        self.state.follow_clocks(context);
        if let Some((property, detail)) = first_violation(&self.state, context, event) {
            self.violation = Some(Violation { property, at: context.now, detail });
            return;
        }
        self.state.update(context, event);
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:?}: violated \"{}\": {}", self.at, self.property, self.detail)
    }
}
