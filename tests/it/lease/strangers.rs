//! What people and their tools do to a Lease by hand.

use super::ground::{Ground, PATIENCE, TIMING};
use crate::rig::{ELECTION, NOISE, throughout, wait_for};
use serde_json::json;
use std::time::Duration;

#[test]
fn a_label_edited_again_and_again_ends_nothing() {
    let ground = Ground::new();
    let (leader, [follower]) = ground.leader_and_followers(["b"]);
    let mut edits = 0;
    throughout(2 * TIMING.lease_duration, "the leader leads on", || {
        edits += 1;
        let patch = json!({ "metadata": { "labels": { "edit": edits.to_string() } } });
        ground.namespace.admin.patch(ELECTION, &patch).expect("the administrator may");
        leader.is_alive() && follower.is_alive()
    });
    assert!(edits > 10, "{edits} edits show nothing");
    assert!(ground.holds(&leader));
    assert_eq!(ground.rig.tokens(ELECTION).len(), 1);
    let labels = ground.lease().metadata.labels.unwrap_or_default();
    assert!(labels.contains_key("edit"), "our writes leave the label alone");
}

#[test]
fn another_holder_by_hand_ends_the_term_at_once_and_is_waited_out() {
    let ground = Ground::new();
    let (leader, [follower]) = ground.leader_and_followers(["b"]);
    let edited = ground.rig.now();
    let patch = json!({ "spec": { "holderIdentity": "somebody", "leaseDurationSeconds": 3 } });
    ground.namespace.admin.patch(ELECTION, &patch).expect("the administrator may");
    leader.loses(TIMING.retry_period + NOISE, "conflict");
    assert_eq!(leader.exit_code(), 75);
    let (new, led) =
        ground.rig.successor(&leader, edited, Duration::from_secs(3) + 2 * TIMING.retry_period + 2 * NOISE);
    assert_eq!(new.identity, follower.identity);
    assert!(led.since(edited) >= Duration::from_secs(3), "the duration in the record was waited out");
}

#[test]
fn a_deleted_lease_ends_the_term_at_once_and_is_waited_out() {
    let ground = Ground::new();
    let (leader, [follower]) = ground.leader_and_followers(["b"]);
    let deleted = ground.rig.now();
    ground.namespace.admin.delete(ELECTION).expect("the administrator may");
    leader.loses(NOISE, "deleted");
    assert_eq!(leader.exit_code(), 75);
    let (new, led) = ground.rig.successor(&leader, deleted, ground.takeover());
    assert_eq!(new.identity, follower.identity);
    let waited = led.since(deleted);
    assert!(waited + TIMING.retry_period + NOISE >= TIMING.lease_duration, "it waited {waited:?} only");
}

#[test]
fn nonsense_that_the_api_server_lets_through_ends_nothing() {
    let ground = Ground::new();
    let (leader, [follower]) = ground.leader_and_followers(["b"]);
    for spec in [
        json!({ "renewTime": "9999-12-30T00:00:00.000000Z" }),
        json!({ "acquireTime": null, "renewTime": null }),
        json!({ "leaseTransitions": i32::MAX }),
        json!({ "leaseDurationSeconds": null }),
    ] {
        ground.namespace.admin.patch(ELECTION, &json!({ "spec": spec })).expect("the administrator may");
        let mended = wait_for(PATIENCE, "the next renewal mends it", || {
            let spec = ground.lease().spec?;
            (spec.lease_duration_seconds == Some(9) && spec.renew_time.is_some()).then_some(spec)
        });
        assert_eq!(mended.holder_identity.as_deref(), Some(&*leader.identity));
    }
    let refused = ground.namespace.admin.patch(ELECTION, &json!({ "spec": { "leaseDurationSeconds": -5 } }));
    assert!(refused.is_err(), "the API server itself refuses a negative duration");
    throughout(TIMING.lease_duration, "it leads on", || leader.is_alive() && follower.is_healthy());
    assert_eq!(ground.rig.tokens(ELECTION).len(), 1);
}
