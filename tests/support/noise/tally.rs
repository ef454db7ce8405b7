//! Counts the cases that run again, and says when they are too many for a verdict.
//!
//! Pure but for the count of all cases, which it asks for once. Start at [`Tally::count`].

use super::locked;
use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock};

/// More than one case in this many fails the run. One case may always run again.
const ONE_IN: usize = 20;

pub(crate) struct Tally {
    count_cases: fn() -> usize,
    cases: OnceLock<usize>,
    again: Mutex<BTreeSet<&'static str>>,
}

impl Tally {
    /// The tally of a run whose cases `count_cases` counts.
    pub(crate) const fn new(count_cases: fn() -> usize) -> Self {
        Self { count_cases, cases: OnceLock::new(), again: Mutex::new(BTreeSet::new()) }
    }

    /// How many cases this run has.
    pub(crate) fn cases(&self) -> usize {
        *self.cases.get_or_init(self.count_cases)
    }

    /// Counts a case that is about to run again, once however often it does. Returns how many such
    /// cases there are now, or an error if they are too many.
    pub(crate) fn count(&self, name: &'static str) -> Result<usize, String> {
        let cases = self.cases();
        let mut again = locked(&self.again);
        again.insert(name);
        if again.len() * ONE_IN <= cases.max(ONE_IN) {
            return Ok(again.len());
        }
        Err(format!(
            "the machine is too noisy for a verdict: {} of {cases} cases ran again, more than one in {ONE_IN}; \
             free the machine, or run fewer cases at once (TEST_THREADS)",
            again.len()
        ))
    }
}
