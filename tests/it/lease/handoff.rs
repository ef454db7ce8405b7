//! A handoff over a Lease: the record that it leaves, its latency, and its tokens.

use super::contender::Program;
use super::meter::Meter;
use crate::rig::{Contender, ELECTION, Leases, Rig, Store as _};

/// How many releases the median is taken from.
const RELEASES: usize = 5;

#[test]
fn stopping_leader_writes_the_same_record_as_client_go() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let old = rig.start_leader("old");
    rig.wait_for_answers();
    let spec = rig.store.spec();
    assert_eq!(spec.holder_identity.as_deref(), Some(&*old.identity));
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(9), Some(0)));
    assert!(spec.acquire_time.is_some() && spec.acquire_time <= spec.renew_time, "{spec:?}");

    old.terminate();
    assert_eq!(old.exit_code(), 0);
    let spec = rig.store.spec();
    assert_eq!(spec.holder_identity.as_deref(), Some(""), "released");
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(1), Some(0)));

    let next = rig.start("next");
    assert_eq!(rig.leader().identity, next.identity);
    let spec = rig.store.spec();
    assert_eq!(
        (spec.lease_duration_seconds, spec.lease_transitions),
        (Some(9), Some(1)),
        "the holder changed"
    );
}

#[test]
fn watch_event_of_the_release_wakes_the_successor() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let access = &rig.store.account.access;
    let mut leader = Contender::start(&rig, Program::Baton, "0", access);
    leader.must_lead();
    Meter::during(access, |meter| {
        let gaps = (1..=RELEASES).map(|number| {
            let next = Contender::start(&rig, Program::Baton, &number.to_string(), access);
            next.must_follow();
            leader.terminate();
            leader.must_have_stopped_cleanly();
            let gap = next.must_lead().since(leader.must_stop());
            leader = next;
            gap
        });
        let mut gaps: Vec<_> = gaps.collect();
        gaps.sort();
        let (gap, bound) = (gaps[RELEASES / 2], meter.release());
        assert!(gap <= bound, "no leader for {gap:?} in the median, more than {bound:?}: {gaps:?}");
    });
}

#[test]
fn tokens_grow_although_the_lease_was_deleted() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let old = rig.start_leader("old");
    rig.wait_for_answers();
    old.terminate();
    assert_eq!(old.exit_code(), 0);
    rig.store.remove(ELECTION);
    let new = rig.start("new");
    assert_eq!(rig.leader().identity, new.identity);
    // The checker compares the two tokens when the rig is dropped.
    assert_eq!(rig.tokens(ELECTION).len(), 2);
}
