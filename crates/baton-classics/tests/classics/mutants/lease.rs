//! A lease whose holder does not count, and one whose clocks drift too much. Pure.

use super::{DRAWN, runs};
use baton_classics::draw::{self, Condition};
use baton_classics::lease::Lease;
use baton_classics::scenario::Scenario;
use std::time::Duration;

fn partitions(seed: u64) -> Scenario {
    draw::draw(Condition::Partition, 3, 1, seed, Lease::DRIFTING_CLOCKS.term)
}

fn drift(seed: u64) -> Scenario {
    draw::draw(Condition::Drift, 3, 1, seed, Lease::DRIFTING_CLOCKS.term)
}

#[test]
fn lease_has_one_holder_when_the_network_splits() {
    assert_eq!(runs(Lease::EQUAL_CLOCKS, DRAWN, partitions).overlaps, 0);
}

#[test]
fn lease_without_a_deadline_has_two_holders() {
    let endless = Lease { hold: Duration::from_hours(1), ..Lease::EQUAL_CLOCKS };
    assert!(runs(endless, DRAWN, partitions).overlaps > 0);
}

#[test]
fn lease_that_allows_for_drift_has_one_holder() {
    assert_eq!(runs(Lease::DRIFTING_CLOCKS, DRAWN, drift).overlaps, 0);
}

#[test]
fn lease_that_ignores_drift_has_two_holders() {
    assert!(runs(Lease::EQUAL_CLOCKS, DRAWN, drift).overlaps > 0);
}
