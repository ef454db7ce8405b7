//! The judge: sees all that occurs in a world, and says when a property does not hold.
//!
//! Start with [`first_violation`]. Each property is one function of what is candidate so far and of what occurs now, on true time. They share
//! [`CheckerState`], which are noted after all of them have looked.

mod candidate_view;
mod coverage;
pub(crate) mod exclusion;
mod fault_effects;
mod inspect;
mod progress;
mod session_bounds;
mod stability;
mod state;
mod terms;

use crate::clock::Moment;
use crate::scenario::Scenario;
use crate::trace::{Observer, TraceContext, TraceEvent};
pub(crate) use coverage::Coverage;
pub(crate) use inspect::Inspect;
use state::CheckerState;
use std::fmt;

/// A property that did not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Violation {
    /// Its name, as in [`first_violation`].
    pub(crate) property: &'static str,
    /// When.
    pub(crate) at: Moment,
    /// FaultKind was seen.
    pub(crate) detail: String,
}

impl Violation {
    /// Whether two lead at once, or could.
    pub(crate) fn breaks_exclusion(&self) -> bool {
        EXCLUSION.contains(&self.property)
    }
}

/// Where one of these does not hold, two may lead at once.
const EXCLUSION: [&str; 3] =
    ["exclusion of claims", "exclusion of promises", "the record names whoever holds a claim"];

/// FaultKind must hold, by name: the first that does not, and what was seen. Most look at one config of event, which is plain to the
/// compiler where they are called by name, and not where a table is gone through.
fn first_violation<E: Inspect>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<(&'static str, String)> {
    macro_rules! first_of {
        ($($name:expr, $property:path;)*) => {
            None$(.or_else(|| $property(state, context, event).map(|what| ($name, what))))*
        };
    }
    first_of! {
        EXCLUSION[0], exclusion::at_most_one_claim;
        EXCLUSION[1], exclusion::at_most_one_promise;
        EXCLUSION[2], exclusion::record_names_claim_holder;
        "promises are backed by claims", exclusion::promises_are_backed;
        "leaders say so", exclusion::leader_answers_leading;
        "claims are backed by writes", exclusion::claims_are_backed;
        "tokens grow from term to term", terms::tokens_increase;
        "a term keeps its token", terms::token_is_constant;
        "terms end where the store goes back", terms::restored_store_ends_term;
        "terms begin when they may", terms::begins_when_eligible;
        "there is a leader in time", progress::leader_in_time;
        "nobody waits for himself", progress::no_wait_on_own_record;
        "a withdrawn candidate holds nothing back", progress::withdrawn_releases_record;
        "a release is taken up at once", progress::takeover_after_release;
        "a clean stop releases", progress::clean_stop_releases;
        "who leaves looks what became of its write", progress::reads_after_unknown_write;
        "who leaves believes no past", progress::no_stop_on_stale_read;
        "who leaves holds on until told to stop", progress::leads_until_stop;
        "nobody asks without pause", progress::requests_are_paced;
        "losers wait for the watch", progress::loser_waits_for_watch;
        "nobody unhears what it was told", terms::knowledge_never_regresses;
        "nothing changes without a fault", stability::no_transition_without_fault;
        "a short outage costs nobody leadership", stability::short_fault_keeps_term;
        "a claim is renewed in three attempts", stability::three_renewal_attempts;
        "a deletion is noticed at once", stability::deletion_ends_term;
    }
}

/// Looks at one world.
pub(crate) struct Checker {
    state: CheckerState,
    violation: Option<Violation>,
}

impl Checker {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self { state: CheckerState::new(scenario), violation: None }
    }

    /// The first property that did not hold.
    pub(crate) fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// How much there was to judge.
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
        self.state.note(context, event);
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:?}: {} does not hold: {}", self.at, self.property, self.detail)
    }
}
