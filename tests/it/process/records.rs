//! A record that others have damaged, replaced or removed.

use crate::rig::{ELECTION, NOISE, Rig, Store, Timing, over_every_record, throughout};
use std::fs;

over_every_record! {
    a_follower_waits_out_a_deleted_record,
}

#[test]
fn a_record_that_cannot_be_read_is_named_and_left_as_it_is() {
    let torn = br#"{"format":"baton/1","holderIdentity":"x_1","leaseDura"#.as_slice();
    let damages = [
        ("torn", torn),
        ("empty", b""),
        ("foreign", br#"{"kind":"Lease","spec":{"holderIdentity":"x_1"}}"#),
        ("binary", b"\x00\xff\xfe\x7fELF"),
    ];
    let rig = Rig::new(Timing::FAST);
    let candidates = damages.map(|(election, content)| {
        let record = rig.store.record_path(election);
        fs::create_dir(record.parent().expect("it lies in a folder")).expect("the store is empty");
        fs::write(&record, content).expect("the store is ours");
        (rig.candidate(election).election(election).start(), record, content)
    });

    throughout(rig.timing.takeover() + NOISE, "nothing is overwritten, and all are well", || {
        candidates.iter().all(|(candidate, record, content)| {
            candidate.is_healthy() && fs::read(record).is_ok_and(|now| now == *content)
        })
    });
    for (candidate, record, _) in &candidates {
        let path = record.to_str().expect("it is UTF-8");
        let output = candidate.output();
        let told = candidate.events("store_refuses");
        let is_named = told.iter().any(|trouble| trouble["message"].to_string().contains(path));
        assert!(is_named, "{path} is not named: {output}");
        assert_eq!(candidate.probe("/readyz"), 503, "{path}: such a store was not heard");
    }

    // Once somebody has looked at it and cleared it away, the election goes its way.
    for (candidate, record, _) in &candidates {
        fs::remove_file(record).expect("it is still there");
        rig.leader_of(&candidate.election);
        assert_eq!(candidate.probe("/readyz"), 200);
    }
}

#[test]
fn a_record_that_is_spoilt_under_its_leader_costs_the_term_and_is_left_as_it_is() {
    let rig = Rig::new(Timing::FAST);
    let old = rig.start_leader("a");
    rig.start_followers(["b"]);

    rig.store.spoil(ELECTION, b"spoilt");
    let spoilt = rig.now();
    rig.must_be_silent(&old, spoilt + rig.timing.renew_deadline, "its deadline had passed");
    old.loses(rig.timing.renew_deadline + NOISE, "deadline");
    assert_eq!(old.exit_code(), 75);
    let record = rig.store.record_path(ELECTION);
    throughout(rig.timing.takeover(), "nobody overwrites it, and nobody leads", || {
        fs::read(&record).is_ok_and(|now| now == b"spoilt") && !rig.succeeded(&old, spoilt)
    });

    fs::remove_file(&record).expect("it is still there");
    rig.successor(&old, spoilt, 2 * rig.timing.takeover() + rig.timing.renew_deadline + 2 * NOISE);
}

#[test]
fn a_leader_whose_record_is_deleted_withdraws_at_once() {
    let rig = Rig::new(Timing::CALM);
    let old = rig.start_leader("a");
    rig.start_followers(["b"]);

    let deleted = rig.now();
    rig.store.remove(ELECTION);
    old.loses(rig.timing.retry_period + NOISE, "deleted");
    assert_eq!(old.exit_code(), 75);
    rig.successor(&old, deleted, rig.timing.takeover() + NOISE);
}

fn a_follower_waits_out_a_deleted_record<S: Store>() {
    let rig = Rig::over(S::fresh(), S::FAST);
    let old = rig.start_leader("a");
    rig.start_followers(["b"]);

    // The leader is paused, so that it neither withdraws nor renews: its promises still stand.
    let paused = old.pause();
    let written = rig.written(ELECTION);
    rig.store.remove(ELECTION);
    rig.must_be_silent(&old, paused + rig.timing.renew_deadline, "its deadline had passed");
    let (_, succeeded) = rig.successor(&old, paused, rig.store.takeover(rig.timing));
    let waited = succeeded.since(written);
    assert!(waited >= rig.timing.lease_duration, "it waited {waited:?} after the last renewal");

    old.resume();
    assert_eq!(old.exit_code(), 75);
}
