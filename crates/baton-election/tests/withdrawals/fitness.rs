//! Stories of an application that is not fit to lead.
//!
//! Start with [`unfit_leader_of_a_declared_application_releases`].

use super::{Candidate, RESIGN, at};
use baton_election::withdrawals::OrderOutcome::{Confirmed, Withdrawn};
use baton_election::withdrawals::WithdrawalEvent::{Settled, StoppingExpired};
use baton_election::withdrawals::{Cause, Order};
use std::time::Duration;

/// An application that asks before it acts is safe once no promise holds.
#[test]
fn unfit_leader_of_a_declared_application_releases() {
    let mut leader = Candidate::leading();
    assert!(leader.ask(None));
    let unfit = leader.order(Order::Unfit { releases: true });
    assert!(!leader.ask(None), "no promise is made");
    assert_eq!(leader.events, []);
    leader.until(2);
    assert_eq!(leader.events, [Settled(unfit, Confirmed)]);
    leader.until(60);
    assert!(!leader.leads(), "it stays away");
    leader.end(Cause::Unfit);
    leader.until(63);
    assert!(leader.leads());
}

/// An application that never asks may still act, so no other candidate may lead before it ends.
#[test]
fn unfit_leader_of_an_undeclared_application_keeps_the_record() {
    let mut leader = Candidate::leading();
    assert!(leader.ask(None));
    let unfit = leader.order(Order::Unfit { releases: false });
    assert!(!leader.ask(None), "no promise is made");
    leader.until(1);
    assert_eq!(leader.events, [], "the promise holds");
    leader.until(2);
    assert_eq!(leader.events, [Settled(unfit, Withdrawn)]);
    leader.until(30);
    assert!(leader.record.as_ref().is_some_and(|seen| seen.record.holder.is_some()));
}

#[test]
fn candidate_that_was_never_fit_does_not_campaign() {
    for releases in [true, false] {
        let mut candidate = Candidate::campaigning_from(at(5));
        candidate.order(Order::Unfit { releases });
        candidate.until(60);
        assert!(candidate.record.is_none(), "it writes nothing");
        candidate.end(Cause::Unfit);
        candidate.until(63);
        assert!(candidate.leads());
    }
}

#[test]
fn fitness_ends_no_other_withdrawal() {
    let mut leader = Candidate::leading();
    leader.order(Order::Unfit { releases: false });
    leader.order(RESIGN);
    leader.end(Cause::Unfit);
    leader.until(25);
    assert!(!leader.leads(), "the hold-off lasts");
    leader.order(Order::Unfit { releases: true });
    leader.order(Order::Unasked);
    leader.end(Cause::Unfit);
    leader.until(90);
    assert!(!leader.leads(), "its application does not ask");
    leader.end(Cause::Unasked);
    leader.until(93);
    assert!(leader.leads());
}

/// An application that drains may fail before SIGTERM comes. Its process must not end for that.
#[test]
fn unfit_leader_that_prepares_to_stop_waits_for_the_stop() {
    let mut leader = Candidate::leading();
    let stopping = leader.order(Order::Stopping { limit: Duration::from_secs(20) });
    leader.until(1);
    assert_eq!(leader.events, [Settled(stopping, Withdrawn)]);
    let unfit = leader.order(Order::Unfit { releases: false });
    leader.until(19);
    assert_eq!(leader.events, [Settled(stopping, Withdrawn)], "the shutdown is still to come");
    leader.until(21);
    let expired = [Settled(stopping, Withdrawn), StoppingExpired, Settled(unfit, Withdrawn)];
    assert_eq!(leader.events, expired, "it never came");
}
