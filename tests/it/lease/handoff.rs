//! How leadership changes hands over a Lease, what is written there, and how little it takes.

use super::ground::{Ground, PATIENCE, TIMING};
use crate::rig::{ApiServer, ELECTION, NOISE, throughout, wait_for};
use std::time::Duration;

/// A release is heard of at once: README, "What is promised".
const AFTER_A_RELEASE: Duration = Duration::from_millis(100);

#[test]
fn a_killed_leader_is_succeeded_within_the_bound() {
    let ground = Ground::new();
    let (old, _) = ground.leader_and_followers(["b", "c"]);
    let killed = old.kill();
    ground.rig.successor(&old, killed, ground.takeover());
    assert_eq!(ground.rig.tokens(ELECTION).len(), 2);
}

#[test]
fn a_leader_that_stops_hands_over_at_once_and_writes_what_client_go_would() {
    let ground = Ground::new();
    let (old, _) = ground.leader_and_followers([]);
    let spec = ground.lease().spec.expect("it has a spec");
    assert_eq!(spec.holder_identity.as_deref(), Some(&*old.identity));
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(9), Some(0)));
    assert!(spec.acquire_time.is_some() && spec.acquire_time <= spec.renew_time, "{spec:?}");

    old.terminate();
    assert_eq!(old.exit_code(), 0);
    let spec = ground.lease().spec.expect("it has a spec");
    assert_eq!(spec.holder_identity.as_deref(), Some(""), "released");
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(1), Some(0)));

    let next = ground.candidate("next").start();
    assert_eq!(ground.rig.leader().identity, next.identity);
    let spec = ground.lease().spec.expect("it has a spec");
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(9), Some(1)), "the holder changed");
}

#[test]
fn a_release_wakes_the_successor_through_the_watch() {
    let ground = Ground::new();
    let (old, _) = ground.leader_and_followers(["b", "c"]);
    let asked = old.terminate();
    let within = ground.rig.timing.answer_validity + AFTER_A_RELEASE + NOISE;
    ground.rig.successor(&old, asked, within);
    assert_eq!(old.exit_code(), 0);
}

#[test]
fn a_leader_that_is_paused_over_its_deadline_is_silent_and_ends_with_75() {
    let ground = Ground::new();
    let (old, _) = ground.leader_and_followers(["b"]);
    let paused = old.pause();
    ground.rig.must_be_silent(&old, paused + ground.rig.timing.renew_deadline, "its deadline had passed");
    ground.rig.successor(&old, paused, ground.takeover());
    old.resume();
    old.loses(NOISE, "deadline");
    assert_eq!(old.exit_code(), 75);
}

#[test]
fn a_leader_writes_once_a_retry_period_and_a_follower_only_watches() {
    let server = ApiServer::start();
    let ground = Ground::on(&server);
    ground.leader_and_followers(["b", "c"]);
    // Whatever a start asks for is over when a whole watch has been quiet for a while.
    throughout(2 * TIMING.retry_period, "the leader leads", || !ground.holder().is_empty());
    let count = |verb: &str| server.requests("leases").get(verb).copied().unwrap_or(0);
    let before = ["GET", "PUT"].map(count);
    let begun = ground.rig.now();
    wait_for(PATIENCE, "ten renewals", || (count("PUT") >= before[1] + 10).then_some(()));
    let took = ground.rig.now().since(begun);
    let [read, written] = ["GET", "PUT"].map(count);
    let expected = took.as_secs_f64() / TIMING.retry_period.as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a handful of requests")]
    let writes = (written - before[1]) as f64;
    assert!((writes - expected).abs() <= 2.0, "{writes} writes in {took:?}");
    assert_eq!(read - before[0], 0, "nobody has to read while the watch lives");
}

#[test]
fn tokens_grow_over_the_deletion_of_the_lease() {
    let ground = Ground::new();
    let (old, _) = ground.leader_and_followers([]);
    old.terminate();
    assert_eq!(old.exit_code(), 0);
    ground.namespace.admin.delete(ELECTION).expect("the administrator may");
    let new = ground.candidate("new").start();
    assert_eq!(ground.rig.leader().identity, new.identity);
    // The judge compares the two tokens when the rig is dropped.
    assert_eq!(ground.rig.tokens(ELECTION).len(), 2);
}
