//! A record that is damaged, replaced, or removed by others.

use crate::rig::{ELECTION, NOISE, Rig, Store, Timing, over_every_record, throughout};
use std::fs;

over_every_record! {
    follower_waits_out_a_deleted_record,
}

#[test]
fn unreadable_record_is_named_and_not_overwritten() {
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
        fs::create_dir(record.parent().expect("it has a folder")).expect("the store is empty");
        fs::write(&record, content).expect("the store is ours");
        (rig.candidate(election).election(election).start(), record, content)
    });

    throughout(rig.timing.takeover() + NOISE, "no record changes, and all are healthy", || {
        candidates.iter().all(|(candidate, record, content)| {
            candidate.is_healthy() && fs::read(record).is_ok_and(|now| now == *content)
        })
    });
    for (candidate, record, _) in &candidates {
        let path = record.to_str().expect("the paths of the rig are UTF-8");
        let output = candidate.output();
        let events = candidate.events("store_refuses");
        let is_named = events.iter().any(|event| event["message"].to_string().contains(path));
        assert!(is_named, "{path} is not named: {output}");
        assert_eq!(candidate.probe("/readyz"), 503, "{path}");
    }

    // After an operator has removed it, the election continues.
    for (candidate, record, _) in &candidates {
        fs::remove_file(record).expect("it still exists");
        rig.leader_of(&candidate.election);
        assert_eq!(candidate.probe("/readyz"), 200);
    }
}

#[test]
fn corrupted_record_ends_the_term_and_is_not_overwritten() {
    let rig = Rig::new(Timing::FAST);
    let old = rig.start_leader("a");
    rig.start_followers(["b"]);

    rig.store.corrupt(ELECTION, b"corrupted");
    let corrupted = rig.now();
    rig.must_not_lead(&old, corrupted + rig.timing.renew_deadline, "its deadline had passed");
    old.loses(rig.timing.renew_deadline + NOISE, "deadline");
    assert_eq!(old.exit_code(), 75);
    let record = rig.store.record_path(ELECTION);
    throughout(rig.timing.takeover(), "the record does not change, and none leads", || {
        fs::read(&record).is_ok_and(|now| now == b"corrupted")
            && !rig.has_successor(&old, corrupted)
    });

    fs::remove_file(&record).expect("it still exists");
    rig.successor(
        &old,
        corrupted,
        2 * rig.timing.takeover() + rig.timing.renew_deadline + 2 * NOISE,
    );
}

#[test]
fn leader_whose_record_is_deleted_stops_at_once() {
    let rig = Rig::new(Timing::CALM);
    let old = rig.start_leader("a");
    rig.start_followers(["b"]);

    let deleted = rig.now();
    rig.store.remove(ELECTION);
    old.loses(rig.timing.retry_period + NOISE, "deleted");
    assert_eq!(old.exit_code(), 75);
    rig.successor(&old, deleted, rig.timing.takeover() + NOISE);
}

fn follower_waits_out_a_deleted_record<S: Store>() {
    let rig = Rig::over(S::fresh(), S::FAST);
    let old = rig.start_leader("a");
    rig.start_followers(["b"]);

    // The paused leader neither withdraws nor renews: its promises are still valid.
    let paused = old.pause();
    let written = rig.written(ELECTION);
    rig.store.remove(ELECTION);
    rig.must_not_lead(&old, paused + rig.timing.renew_deadline, "its deadline had passed");
    let (_, succeeded) = rig.successor(&old, paused, rig.store.takeover(rig.timing));
    let waited = succeeded.since(written);
    assert!(waited >= rig.timing.lease_duration, "it waited {waited:?} after the last renewal");

    old.resume();
    assert_eq!(old.exit_code(), 75);
}
