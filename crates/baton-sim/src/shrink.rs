//! Shrinks a failing scenario to the smallest one that violates the same property.
//!
//! Pure. Start with [`shrink`], which removes or simplifies one thing at a time until every further
//! change would make the violation disappear.

use crate::clock::Rate;
use crate::run::run_checked;
use crate::scenario::Scenario;
use std::time::Duration;

/// Removes from `scenario` whatever the violation of `property` does not need.
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
                smaller.faults[index].duration /= 2;
            });
        }
        for index in 0..scenario.candidates.len() {
            keep_if_still_failing(&mut scenario, property, |smaller| {
                smaller.candidates[index].clock_rate = Rate::TRUE;
            });
            keep_if_still_failing(&mut scenario, property, |smaller| {
                smaller.candidates[index].command = None;
            });
            keep_if_still_failing(&mut scenario, property, |smaller| {
                // Small readings are easier to read.
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
    let all_have_targets =
        smaller.faults.iter().all(|fault| fault.affects_any_of(smaller.candidates.len()));
    if all_have_targets
        && run_checked(smaller.clone())
            .violation
            .is_some_and(|violation| violation.property == property)
    {
        *scenario = smaller;
    }
}
