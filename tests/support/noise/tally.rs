//! Counts the repeated cases, and fails the run when there are too many for a verdict.
//!
//! Pure, except that it asks once for the number of all cases. Start with [`Tally::count`].

use super::locked;
use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock};

/// More than one repeated case in this many fails the run. One is always allowed.
const ONE_IN: usize = 20;

pub(crate) struct Tally {
    count_cases: fn() -> usize,
    cases: OnceLock<usize>,
    again: Mutex<BTreeSet<&'static str>>,
}

impl Tally {
    /// A tally that learns the number of all cases from `count_cases`.
    pub(crate) const fn new(count_cases: fn() -> usize) -> Self {
        Self { count_cases, cases: OnceLock::new(), again: Mutex::new(BTreeSet::new()) }
    }

    /// How many cases this run has.
    pub(crate) fn cases(&self) -> usize {
        *self.cases.get_or_init(self.count_cases)
    }

    /// Counts a case before it runs again, each only once. Returns how many such cases there are,
    /// or an error if they are too many.
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
