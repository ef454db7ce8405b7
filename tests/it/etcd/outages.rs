//! One member that is killed, stopped, slow, full, compacted, and defragmented.

use super::PATIENCE;
use crate::rig::{
    Delay, ELECTION, Etcd, EtcdKeys, EtcdSettings, Rig, Store as _, Timing, eventually, throughout,
};
use serde_json::json;
use std::time::{Duration, Instant};

/// Durations with slack for a restart on a busy machine. A follower without a watch reads only every
/// twenty seconds.
const PATIENT: Timing = Timing::of_ms(60_000, 45_000, 10_000, 1000);

#[test]
fn outage_within_the_slack_has_no_effect() {
    let mut etcd = Etcd::start(EtcdSettings::default());
    let rig = Rig::over(EtcdKeys::on(&etcd), PATIENT);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    let before = rig.store.written(ELECTION);
    etcd.restart();
    eventually(PATIENCE, "the leader renews again", || rig.store.written(ELECTION) > before);
    etcd.member(0).server.pause();
    throughout(rig.timing.retry_period, "both are healthy", || {
        leader.is_healthy() && follower.is_healthy()
    });
    etcd.member(0).server.resume();
    let before = rig.store.written(ELECTION);
    eventually(PATIENCE, "the leader renews again", || rig.store.written(ELECTION) > before);
    assert_eq!(rig.tokens(ELECTION).len(), 1);
    assert_eq!(leader.events("lost").len(), 0);
    // The follower watches again.
    leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    rig.successor(&leader, rig.now(), EtcdKeys::NOISE);
}

#[test]
fn long_outage_ends_the_term_and_no_follower() {
    let mut etcd = Etcd::start(EtcdSettings::default());
    let rig = Rig::over(EtcdKeys::on(&etcd), EtcdKeys::FAST);
    let mut old = rig.start_leader("first");
    for (name, is_killed) in [("killed", true), ("stopped", false)] {
        let [follower] = rig.start_followers([name]);
        let server = &mut etcd.member(0).server;
        if is_killed {
            server.kill();
        } else {
            server.pause();
        }
        let since = rig.now();
        rig.must_not_lead(&old, since + rig.timing.renew_deadline, "nothing was renewed since");
        old.loses(rig.timing.renew_deadline + EtcdKeys::NOISE, "deadline");
        assert_eq!(old.exit_code(), 75, "{name}");
        throughout(rig.timing.lease_duration, "the follower is healthy and does not lead", || {
            follower.is_healthy()
                && follower.probe("/readyz") == 200
                && !rig.has_successor(&old, since)
        });
        let server = &mut etcd.member(0).server;
        if is_killed {
            server.restart();
        } else {
            server.resume();
        }
        etcd.await_serving();
        let back = rig.now();
        // A renewal that waited in the stopped member restarts the follower's wait.
        (old, _) = rig.successor(&old, back, rig.timing.takeover() + EtcdKeys::NOISE);
        assert_eq!(old.identity, follower.identity);
    }
    assert_eq!(rig.tokens(ELECTION).len(), 3);
}

/// Each write waits for the disk. strace delays fdatasync, which needs no root.
#[test]
fn slow_disk_costs_no_term_and_hanging_disk_costs_one() {
    let mut etcd = Etcd::start(EtcdSettings { waits_for_disk: true, ..EtcdSettings::default() });
    let rig = Rig::over(EtcdKeys::on(&etcd), EtcdKeys::CALM);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    let pid = etcd.member(0).server.pid();
    let slow = |by| Delay::of_all_threads(pid, "fdatasync", by);

    let delay = Duration::from_millis(300);
    let disk = slow(delay);
    eventually(PATIENCE, "writes are slow", || {
        let begun = Instant::now();
        rig.store.admin.try_put("/probe", "").is_ok() && begun.elapsed() >= delay
    });
    throughout(2 * rig.timing.renew_deadline, "the leader keeps leading", || {
        leader.is_healthy() && follower.is_healthy()
    });
    drop(disk);
    assert_eq!(rig.tokens(ELECTION).len(), 1);

    let disk = slow(Duration::from_secs(9));
    let since = rig.now();
    rig.must_not_lead(&leader, since + rig.timing.renew_deadline, "nothing was renewed since");
    leader.loses(PATIENCE, "deadline");
    assert_eq!(leader.exit_code(), 75);
    drop(disk);
    let back = rig.now();
    let (new, _) = rig.successor(&leader, back, rig.timing.takeover() + EtcdKeys::NOISE);
    assert_eq!(new.identity, follower.identity);
}

#[test]
fn compaction_and_defragmentation_have_no_effect() {
    let etcd = Etcd::start(EtcdSettings::default());
    let rig = Rig::over(EtcdKeys::on(&etcd), EtcdKeys::CALM);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    let until = Instant::now() + 2 * rig.timing.renew_deadline;
    while Instant::now() < until {
        rig.store.admin.put("/other", "value");
        rig.store.admin.compact();
        rig.store.admin.try_call("/v3/maintenance/defragment", &json!({})).ok();
        assert!(leader.is_healthy() && follower.is_healthy());
    }
    assert_eq!(rig.tokens(ELECTION).len(), 1);
    // The watch still reports the release at once.
    leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    let (new, _) = rig.successor(&leader, rig.now(), EtcdKeys::NOISE);
    assert_eq!(new.identity, follower.identity);
}

/// A follower's watch would start at a revision that was compacted while the follower was stopped.
/// etcd keeps such a stream open, without a word. Without a watch, the follower would read only after
/// two retry periods.
#[test]
fn watch_of_a_compacted_revision_starts_again() {
    let mut etcd = Etcd::start(EtcdSettings::default());
    let rig = Rig::over(EtcdKeys::on(&etcd), PATIENT);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    let before = rig.store.written(ELECTION);
    eventually(PATIENCE, "the leader has just renewed", || rig.store.written(ELECTION) > before);
    follower.pause();
    let seen = rig.store.admin.revision();
    etcd.restart();
    for edit in 0..20 {
        rig.store.admin.put("/other", &edit.to_string());
    }
    rig.store.admin.compact();
    let compacted = rig.store.admin.read_at("/", seen + 1).is_err();
    assert!(compacted, "the revision after the one that the follower knows is gone");
    follower.resume();
    leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    let (new, _) = rig.successor(&leader, rig.now(), EtcdKeys::NOISE);
    assert_eq!(new.identity, follower.identity);
}

#[test]
fn full_database_ends_the_term_and_disarming_starts_one() {
    let etcd = Etcd::start(EtcdSettings::with_flags(&["--quota-backend-bytes=4194304"]));
    let rig = Rig::over(EtcdKeys::on(&etcd), EtcdKeys::FAST);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    let large = "x".repeat(512 << 10);
    eventually(PATIENCE, "the database is full", || {
        rig.store.admin.try_put("/large", &large).is_err()
    });
    let since = rig.now();
    rig.must_not_lead(
        &leader,
        since + rig.timing.renew_deadline + rig.timing.retry_period,
        "etcd refused its renewals",
    );
    leader.loses(rig.timing.renew_deadline + rig.timing.retry_period + EtcdKeys::NOISE, "deadline");
    assert_eq!(leader.exit_code(), 75);
    let named = || leader.output().contains("etcdctl alarm disarm");
    assert!(named(), "the log names no remedy: {}", leader.output());
    throughout(rig.timing.lease_duration, "the follower waits", || {
        follower.is_healthy() && !rig.has_successor(&leader, since)
    });
    rig.store.admin.compact();
    etcd.etcdctl(&["defrag"]);
    etcd.etcdctl(&["alarm", "disarm"]);
    let disarmed = rig.now();
    let (new, _) = rig.successor(&leader, disarmed, rig.timing.takeover() + EtcdKeys::NOISE);
    assert_eq!(new.identity, follower.identity);
}
