//! The smallest world that still fails in the same way: stories are read by people.
//!
//! Whatever can be left out is, one thing at a time, until nothing more can be.

use crate::clock::Rate;
use crate::hunt::run_checked;
use crate::scenario::Scenario;
use std::time::Duration;

/// Leaves out of `scenario` what the violation of `property` does not need.
pub(crate) fn shrink(mut scenario: Scenario, property: &'static str) -> Scenario {
    loop {
        let before = scenario.clone();
        for index in (0..scenario.faults.len()).rev() {
            keep_if_still_failing(&mut scenario, property, |smaller| {
                smaller.faults.remove(index);
            });
        }
        for index in 0..scenario.faults.len() {
            keep_if_still_failing(&mut scenario, property, |smaller| {
                smaller.faults[index].duration /= 2
            });
        }
        for index in 0..scenario.candidates.len() {
            keep_if_still_failing(&mut scenario, property, |smaller| {
                smaller.candidates[index].clock_rate = Rate::TRUE;
            });
            keep_if_still_failing(&mut scenario, property, |smaller| {
                // Clocks that show little are easier to read.
                let clock_start = u64::try_from(index).unwrap_or(0) * 100;
                smaller.candidates[index].clock_start = Duration::from_secs(clock_start);
            });
        }
        keep_if_still_failing(&mut scenario, property, |smaller| {
            smaller.candidates.pop();
        });
        if scenario == before {
            return scenario;
        }
    }
}

fn keep_if_still_failing(
    scenario: &mut Scenario,
    property: &'static str,
    change: impl FnOnce(&mut Scenario),
) {
    let mut smaller = scenario.clone();
    change(&mut smaller);
    let all_hit = smaller.faults.iter().all(|fault| fault.hits_one_of(smaller.candidates.len()));
    if all_hit
        && run_checked(smaller.clone())
            .violation
            .is_some_and(|violation| violation.property == property)
    {
        *scenario = smaller;
    }
}
