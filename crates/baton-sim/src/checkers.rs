//! The checkers: every property that must be true, evaluated at each event of a run.
//!
//! Pure. Start with [`first_violation`]. Each property is a function of the event and of the
//! [`CheckerState`] before it. The state is updated after all properties have been evaluated.

mod answers;
mod candidate_view;
mod commands;
mod coverage;
mod ended_runs;
pub(crate) mod exclusion;
mod fault_effects;
mod holder;
mod inspect;
mod lifetime;
mod preference;
mod progress;
mod properties;
mod session_bounds;
mod stability;
mod state;
mod summary;
mod terms;
mod withdrawals;

use crate::clock::Moment;
use crate::scenario::Scenario;
use crate::trace::{Observer, TraceContext, TraceEvent};
pub(crate) use coverage::Coverage;
pub(crate) use inspect::Inspect;
use properties::{EXCLUSION, first_violation};
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

/// Checks one run.
#[derive(Clone)]
pub(crate) struct Checker {
    state: CheckerState,
    violation: Option<Violation>,
    /// Whether properties other than exclusion are ignored.
    is_lenient: bool,
}

impl Checker {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self { state: CheckerState::new(scenario), violation: None, is_lenient: false }
    }

    /// A checker of exclusion alone. The other properties have bounds that hold for the faults that
    /// a seed draws, and not for all that a person may do.
    pub(crate) fn of_exclusion(scenario: &Scenario) -> Self {
        Self { is_lenient: true, ..Self::new(scenario) }
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
        if let Some((property, detail)) = first_violation(&self.state, context, event)
            && (!self.is_lenient || EXCLUSION.contains(&property))
        {
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
