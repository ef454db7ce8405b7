//! The smallest world that still fails in the same way: stories are read by people.
//!
//! Whatever can be left out is, one thing at a time, until nothing more can be.

use crate::clock::Rate;
use crate::hunt::judge;
use crate::scenario::Setup;
use std::time::Duration;

/// Leaves out of `setup` what the violation of `property` does not need.
pub(crate) fn shrink(mut setup: Setup, property: &'static str) -> Setup {
    loop {
        let before = setup.clone();
        for index in (0..setup.faults.len()).rev() {
            keep_if_it_fails(&mut setup, property, |smaller| {
                smaller.faults.remove(index);
            });
        }
        for index in 0..setup.faults.len() {
            keep_if_it_fails(&mut setup, property, |smaller| smaller.faults[index].lasts /= 2);
        }
        for index in 0..setup.candidates.len() {
            keep_if_it_fails(&mut setup, property, |smaller| {
                smaller.candidates[index].clock_rate = Rate::TRUE;
            });
            keep_if_it_fails(&mut setup, property, |smaller| {
                // Clocks that show little are easier to read.
                let shows = u64::try_from(index).unwrap_or(0) * 100;
                smaller.candidates[index].clock_shows = Duration::from_secs(shows);
            });
        }
        keep_if_it_fails(&mut setup, property, |smaller| {
            smaller.candidates.pop();
        });
        if setup == before {
            return setup;
        }
    }
}

fn keep_if_it_fails(setup: &mut Setup, property: &'static str, change: impl FnOnce(&mut Setup)) {
    let mut smaller = setup.clone();
    change(&mut smaller);
    let all_hit = smaller.faults.iter().all(|fault| fault.hits_one_of(smaller.candidates.len()));
    if all_hit
        && judge(smaller.clone()).verdict.is_some_and(|violation| violation.property == property)
    {
        *setup = smaller;
    }
}
