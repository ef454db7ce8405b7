//! The keys of an election: what others find there, and what they may do to them.

use super::PATIENCE;
use crate::rig::{ELECTION, Etcd, EtcdKeys, EtcdSettings, Rig, Store as _, eventually, throughout};
use std::process::Command;

/// The token is the revision of the term's key, so a transaction on the same etcd can compare it.
#[test]
fn term_key_fences_a_transaction() {
    let rig = Rig::over(EtcdKeys::fresh(), EtcdKeys::FAST);
    let old = rig.start_leader("old");
    rig.start_followers(["new"]);
    let token = |candidate: &crate::rig::Candidate| {
        candidate.ask().fencing_token.expect("it leads").parse::<u64>().unwrap()
    };
    let term = rig.store.term_key(ELECTION);
    let first = token(&old);
    let found = rig.store.admin.read(&term).expect("there is a term");
    assert_eq!((found.revision, &found.value), (first, &old.identity));
    let state = format!("{}/state", rig.store.prefix());
    // As docs/guides/etcd.md shows.
    let write = |token: u64, value: &str| {
        let transaction =
            format!("mod(\"{term}\") = \"{token}\"\n\nput {state} {value}\n\nget {state}\n\n");
        etcdctl_txn(&transaction).starts_with("SUCCESS")
    };
    assert!(write(first, "a"));
    eventually(PATIENCE, "it renews, which leaves the term alone", || {
        rig.store.admin.read(&rig.store.record_key(ELECTION)).unwrap().revision > first + 2
    });
    assert!(write(first, "b"));
    let since = rig.now();
    old.terminate();
    assert_eq!(old.exit_code(), 0);
    assert!(!write(first, "late"), "the release ends the term");
    let (new, _) = rig.successor(&old, since, PATIENCE);
    let second = token(&new);
    assert!(second > first);
    assert!(!write(first, "late"));
    assert!(write(second, "c"));
    assert_eq!(rig.store.admin.read(&state).unwrap().value, "c");
}

fn etcdctl_txn(transaction: &str) -> String {
    Etcd::shared().etcdctl_with_input(&["txn"], transaction)
}

#[test]
fn foreign_value_is_named_and_not_overwritten() {
    let rig = Rig::over(EtcdKeys::fresh(), EtcdKeys::FAST);
    let key = rig.store.record_key(ELECTION);
    rig.store.admin.put(&key, "me");
    let candidate = rig.start("a");
    throughout(rig.timing.takeover(), "it does not touch the key", || {
        candidate.is_healthy() && rig.store.admin.read(&key).unwrap().value == "me"
    });
    let events = candidate.events("store_refuses");
    assert!(
        events.iter().any(|event| event["message"].to_string().contains(&key)),
        "{}",
        candidate.output()
    );
    rig.store.admin.delete(&key);
    assert_eq!(rig.leader().identity, candidate.identity);
    rig.wait_for_answers();
}

#[test]
fn value_too_large_to_read_is_named() {
    let rig = Rig::over(EtcdKeys::fresh(), EtcdKeys::FAST);
    let key = rig.store.record_key(ELECTION);
    rig.store.admin.put(&key, &"x".repeat(200_000));
    let candidate = rig.start("a");
    eventually(PATIENCE, "it names the cause", || {
        let events = candidate.events("store_refuses");
        events.iter().any(|event| event["message"].to_string().contains("delete the key"))
    });
    rig.store.admin.delete(&key);
    assert_eq!(rig.leader().identity, candidate.identity);
    rig.wait_for_answers();
}

/// The record was released hours ago, and etcd was not compacted since.
#[test]
fn history_that_is_never_compacted_is_named() {
    // Compaction would disturb no other test, but theirs would disturb this one.
    let etcd = Etcd::start(EtcdSettings::default());
    let rig = Rig::over(EtcdKeys::on(&etcd), EtcdKeys::FAST);
    let old = r#"{"format":"baton.etcd-record/1","holderIdentity":"","leaseDurationMs":1000,
        "acquireTime":"2026-01-01T00:00:00Z","renewTime":"2026-01-01T00:00:00Z",
        "leaseTransitions":1}"#;
    rig.store.admin.put(&rig.store.record_key(ELECTION), old);
    let leader = rig.start_leader("a");
    eventually(PATIENCE, "the candidate warns too", || {
        leader.events("history_uncompacted").len() == 1
    });
    let warnings = || {
        let mut doctor = Command::new(env!("CARGO_BIN_EXE_baton"));
        doctor.env_clear().args(["doctor", "--election", ELECTION]);
        doctor.args(rig.store.flags().iter().flat_map(|(flag, value)| [*flag, value]));
        let output = String::from_utf8(doctor.output().unwrap().stdout).unwrap();
        output.lines().filter(|line| line.contains("--auto-compaction-retention")).count()
    };
    assert_eq!(warnings(), 1);
    rig.store.admin.compact();
    assert_eq!(warnings(), 0);
    let [follower] = rig.start_followers(["b"]);
    throughout(2 * rig.timing.retry_period, "the history is compacted", || {
        follower.events("history_uncompacted").is_empty()
    });
    rig.wait_for_answers();
}

#[test]
fn leader_whose_record_is_deleted_stops_at_once() {
    let rig = Rig::over(EtcdKeys::fresh(), EtcdKeys::CALM);
    let old = rig.start_leader("a");
    rig.start_followers(["b"]);
    let deleted = rig.now();
    rig.store.remove(ELECTION);
    old.loses(EtcdKeys::NOISE, "deleted");
    assert_eq!(old.exit_code(), 75);
    rig.successor(&old, deleted, rig.timing.takeover() + EtcdKeys::NOISE);
}
