//! A store that is set back to an earlier state, as an operator does after a disaster.

use super::PATIENCE;
use crate::rig::{
    Candidate, ELECTION, Etcd, EtcdKeys, EtcdSettings, Rig, Store as _, Timing, eventually,
    throughout,
};

/// Durations with slack for a restart on a busy machine. A follower without a watch reads only every
/// twenty seconds.
const PATIENT: Timing = Timing::of_ms(60_000, 45_000, 10_000, 1000);

/// How many revisions the restore loses.
const REVISIONS: u32 = 200;

#[test]
fn restored_store_ends_a_newer_term_with_an_error() {
    let mut etcd = Etcd::start(EtcdSettings::default());
    let rig = Rig::over(EtcdKeys::on(&etcd), PATIENT);
    let first = rig.start_leader("first");
    rig.wait_for_answers();
    first.terminate();
    assert_eq!(first.exit_code(), 0);
    etcd.back_up();
    let second = rig.start_leader("second");
    etcd.restore(&[]);
    eventually(PATIENCE, "it loses its term", || !second.events("lost").is_empty());
    assert_eq!(second.exit_code(), 75);
    let events = second.events("store_went_back");
    assert_eq!(events.last().map(|event| event["level"] == "ERROR"), Some(true), "it logs why");
}

/// With a bump of the revision, tokens go on growing. The restored store knows nothing of the second
/// term, so the third begins only after the last promise of the second.
#[test]
fn tokens_grow_over_a_restore_with_a_bump() {
    let mut etcd = Etcd::start(EtcdSettings::default());
    let rig = Rig::over(EtcdKeys::on(&etcd), PATIENT);
    let first = rig.start_leader("first");
    rig.wait_for_answers();
    first.terminate();
    assert_eq!(first.exit_code(), 0);
    etcd.back_up();
    let second = rig.start_leader("second");
    let before = token(&second);
    etcd.restore(&["--bump-revision=1000000", "--mark-compacted"]);
    eventually(PATIENCE, "it loses its term", || !second.events("lost").is_empty());
    assert_eq!(second.exit_code(), 75);
    let end = rig.last_promise(&second);
    eventually(PATIENCE, "the last promise expires", || rig.now() > end);
    let third = rig.start_leader("third");
    assert!(token(&third) > before, "{} after {before}", token(&third));
}

/// A restore with another token gives the cluster another id. The leader ends at its deadline, and
/// the follower follows the endpoint to the restored cluster.
#[test]
fn restored_cluster_with_another_id_is_followed() {
    let mut etcd = Etcd::start(EtcdSettings::default());
    let rig = Rig::over(EtcdKeys::on(&etcd), EtcdKeys::CALM);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    etcd.back_up();
    let before = etcd.cluster_id();
    etcd.restore(&["--initial-cluster-token=restored"]);
    assert_ne!(etcd.cluster_id(), before);
    let restored = rig.now();
    rig.must_not_lead(&leader, restored + rig.timing.renew_deadline, "nothing was renewed since");
    leader.loses(rig.timing.renew_deadline + EtcdKeys::NOISE, "deadline");
    assert_eq!(leader.exit_code(), 75);
    assert!(leader.output().contains("belongs to another cluster"), "{}", leader.output());
    // It waits out the lease in the restored cluster, from its first read there.
    let within = rig.timing.lease_duration + rig.store.takeover(rig.timing);
    let (new, _) = rig.successor(&leader, restored, within);
    assert_eq!(new.identity, follower.identity);
    assert_eq!(follower.events("cluster_replaced").len(), 1);
}

fn token(candidate: &Candidate) -> u64 {
    candidate.ask().fencing_token.expect("it leads").parse().unwrap()
}

#[test]
fn followers_watch_again_after_the_store_was_set_back() {
    let mut etcd = Etcd::start(EtcdSettings::default());
    let rig = Rig::over(EtcdKeys::on(&etcd), PATIENT);
    // Its term began before the copy, so it continues.
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    etcd.back_up();
    for edit in 0..REVISIONS {
        rig.store.admin.put("/other", &edit.to_string());
    }
    let before = rig.store.written(ELECTION);
    eventually(PATIENCE, "the follower sees a revision that will be lost", || {
        rig.store.written(ELECTION) > before
    });
    let lost = rig.store.admin.revision();
    etcd.restore(&[]);
    let back = rig.store.written(ELECTION);
    eventually(PATIENCE, "the leader renews", || rig.store.written(ELECTION) > back);
    throughout(rig.timing.retry_period / 2, "both are healthy", || {
        leader.is_healthy() && follower.is_healthy()
    });
    assert!(rig.store.admin.revision() < lost, "the revisions have not caught up");
    assert_eq!(rig.tokens(ELECTION).len(), 1);
    // A watch that starts at the lost revision would be deaf.
    leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    let (new, _) = rig.successor(&leader, rig.now(), EtcdKeys::NOISE);
    assert_eq!(new.identity, follower.identity);
}
