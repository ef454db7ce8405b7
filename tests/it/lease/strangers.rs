//! What people and their tools do to a Lease by hand.

use crate::rig::{ELECTION, Leases, Rig, Store as _, throughout, wait_for};
use serde_json::{Value, json};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// A merge patch without conditions.
fn edit(rig: &Rig<Leases>, patch: &Value) {
    rig.store.namespace.admin.patch(ELECTION, patch).expect("the administrator may");
}

#[test]
fn a_label_edited_again_and_again_ends_nothing() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    let mut edits = 0;
    throughout(2 * rig.timing.lease_duration, "the leader leads on", || {
        edits += 1;
        edit(&rig, &json!({ "metadata": { "labels": { "edit": edits.to_string() } } }));
        leader.is_alive() && follower.is_alive()
    });
    assert!(edits > 10, "{edits} edits show nothing");
    assert!(rig.holds(&leader));
    assert_eq!(rig.tokens(ELECTION).len(), 1);
    let labels =
        rig.store.lease(ELECTION).and_then(|lease| lease.metadata.labels).unwrap_or_default();
    assert_eq!(labels.get("edit"), Some(&edits.to_string()), "our writes leave the label alone");
}

#[test]
fn another_holder_by_hand_ends_the_term_at_once_and_is_waited_out() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    let edited = rig.now();
    edit(&rig, &json!({ "spec": { "holderIdentity": "somebody", "leaseDurationSeconds": 3 } }));
    leader.loses(Leases::NOISE, "conflict");
    assert_eq!(leader.exit_code(), 75);
    let told = Duration::from_secs(3);
    let (new, led) =
        rig.successor(&leader, edited, told + 2 * rig.timing.retry_period + Leases::NOISE);
    assert_eq!(new.identity, follower.identity);
    assert!(led.since(edited) >= told, "the duration in the record was waited out");
}

#[test]
fn a_deleted_lease_ends_the_term_at_once_and_is_waited_out() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    let written = rig.written(ELECTION);
    let deleted = rig.now();
    rig.store.remove(ELECTION);
    leader.loses(Leases::NOISE, "deleted");
    assert_eq!(leader.exit_code(), 75);
    let (new, led) = rig.successor(&leader, deleted, rig.timing.takeover() + Leases::NOISE);
    assert_eq!(new.identity, follower.identity);
    let waited = led.since(written);
    assert!(waited >= rig.timing.lease_duration, "it waited {waited:?} after the last renewal");
}

#[test]
fn nonsense_that_the_api_server_lets_through_ends_nothing() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    for spec in [
        json!({ "renewTime": "9999-12-30T00:00:00.000000Z" }),
        json!({ "acquireTime": null, "renewTime": null }),
        json!({ "leaseTransitions": i32::MAX }),
        json!({ "leaseDurationSeconds": null }),
        json!({ "leaseDurationSeconds": i32::MAX }),
    ] {
        edit(&rig, &json!({ "spec": spec }));
        let version =
            || rig.store.lease(ELECTION).and_then(|lease| lease.metadata.resource_version);
        let edited = version();
        let mended = wait_for(PATIENCE, "the next renewal mends it", || {
            let spec = rig.store.spec();
            let is_recent =
                spec.renew_time.as_ref().is_some_and(|time| time.0.to_string().starts_with("20"));
            (spec.lease_duration_seconds == Some(9) && is_recent && version() != edited)
                .then_some(spec)
        });
        assert_eq!(mended.holder_identity.as_deref(), Some(&*leader.identity));
    }
    let refused = rig
        .store
        .namespace
        .admin
        .patch(ELECTION, &json!({ "spec": { "leaseDurationSeconds": -5 } }));
    assert!(refused.is_err(), "the API server itself refuses a negative duration");
    throughout(rig.timing.lease_duration, "it leads on", || {
        leader.is_healthy() && follower.is_healthy()
    });
    assert_eq!(rig.tokens(ELECTION).len(), 1);
    assert_eq!(leader.events("lost").len(), 0);
}

#[test]
fn nonsense_that_a_follower_finds_is_waited_out() {
    // Without a duration, a candidate's own one counts; with a year as the time, none.
    let rig = Rig::over(Leases::fresh(), Leases::FAST);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    leader.kill();
    let edited = rig.now();
    edit(
        &rig,
        &json!({ "spec": {
        "holderIdentity": " \u{e9}\u{1F980}\n_", "leaseDurationSeconds": null, "renewTime": "9999-12-30T00:00:00.000000Z",
        "acquireTime": "0001-01-01T00:00:00.000000Z", "leaseTransitions": i32::MAX,
    } }),
    );
    let (new, led) = rig.successor(&leader, edited, rig.timing.takeover() + Leases::NOISE);
    assert_eq!(new.identity, follower.identity);
    let waited = led.since(edited);
    assert!(waited >= rig.timing.lease_duration, "it waited {waited:?}");
    let spec = rig.store.spec();
    assert_eq!(
        spec.lease_transitions,
        Some(i32::MAX),
        "the count stops where the API server's does"
    );
}
