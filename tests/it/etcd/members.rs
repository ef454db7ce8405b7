//! Three members, of which one is killed, stopped, or deposed: no term ends.

use super::PATIENCE;
use crate::rig::{
    ELECTION, Etcd, EtcdKeys, EtcdSettings, Rig, Store as _, Timing, eventually, throughout,
};
use std::thread;
use std::time::Duration;

/// Durations with slack for an election among the members (1 to 3 s), twice.
const PATIENT: Timing = Timing::of_ms(15_000, 10_000, 1000, 1000);

/// Waits until the leader has written the record again.
fn await_renewal(rig: &Rig<EtcdKeys>, what: &str) {
    let before = rig.store.record(ELECTION);
    eventually(PATIENCE, &format!("{what}, and the leader renews"), || {
        let now = rig.store.record(ELECTION);
        !now.is_null() && now != before
    });
}

#[test]
fn lost_member_costs_no_term() {
    let mut etcd = Etcd::start(EtcdSettings::cluster());
    let rig = Rig::over(EtcdKeys::on(&etcd), PATIENT);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    // The first endpoint is the one that both candidates use.
    let at = etcd.leader();
    for at in [at, 0] {
        etcd.member(at).server.kill();
        await_renewal(&rig, "a member is killed");
        etcd.member(at).server.restart();
        etcd.await_serving();
    }
    let at = etcd.leader();
    for at in [at, 0] {
        etcd.member(at).server.pause();
        await_renewal(&rig, "a member is stopped");
        thread::sleep(Duration::from_secs(2));
        etcd.member(at).server.resume();
        etcd.await_serving();
    }
    assert!(leader.is_healthy() && follower.is_healthy());
    assert_eq!(rig.tokens(ELECTION).len(), 1);
    assert_eq!(leader.events("lost").len(), 0);
    leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    rig.successor(&leader, rig.now(), EtcdKeys::NOISE);
}

/// The members' leader is stopped for eight seconds. The others elect another, within the slack.
#[test]
fn stopped_leader_of_the_members_costs_no_term() {
    let mut etcd = Etcd::start(EtcdSettings::cluster());
    let rig = Rig::over(EtcdKeys::on(&etcd), PATIENT);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    let stopped = etcd.leader();
    etcd.member(stopped).server.pause();
    throughout(Duration::from_secs(8), "both are healthy", || {
        leader.is_healthy() && follower.is_healthy()
    });
    let others = (0..3).filter(|at| *at != stopped);
    let elected = others.map(|at| etcd.admin_at(at)).any(|admin| admin.try_read("/").is_ok());
    assert!(elected, "the others serve without it");
    etcd.member(stopped).server.resume();
    etcd.await_serving();
    assert_ne!(etcd.leader(), stopped, "it was deposed");
    await_renewal(&rig, "the member is back");
    assert_eq!(rig.tokens(ELECTION).len(), 1);
    assert_eq!(leader.events("lost").len(), 0);
}

/// Each member in turn, with its data.
#[test]
fn replaced_members_cost_no_term() {
    let mut etcd = Etcd::start(EtcdSettings::cluster());
    let rig = Rig::over(EtcdKeys::on(&etcd), PATIENT);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    for at in 0..3 {
        etcd.replace(at);
        await_renewal(&rig, "a member is replaced");
        assert!(leader.is_healthy() && follower.is_healthy());
    }
    assert_eq!(rig.tokens(ELECTION).len(), 1);
    leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    let (new, _) = rig.successor(&leader, rig.now(), EtcdKeys::NOISE);
    assert_eq!(new.identity, follower.identity);
}

#[test]
fn moving_leader_costs_no_term() {
    let etcd = Etcd::start(EtcdSettings::cluster());
    let rig = Rig::over(EtcdKeys::on(&etcd), PATIENT);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    let mut moves = 0;
    for _ in 0..6 {
        let before = etcd.leader();
        etcd.move_leader();
        throughout(Duration::from_secs(2), "both are healthy", || {
            leader.is_healthy() && follower.is_healthy()
        });
        moves += usize::from(etcd.leader() != before);
    }
    assert!(moves > 2, "the members' leader moved {moves} times");
    assert_eq!(rig.tokens(ELECTION).len(), 1);
}

#[test]
fn lost_quorum_ends_the_term_in_time() {
    let mut etcd = Etcd::start(EtcdSettings::cluster());
    let rig = Rig::over(EtcdKeys::on(&etcd), EtcdKeys::FAST);
    let mut old = rig.start_leader("leader");
    for (name, is_killed) in [("killed", true), ("stopped", false)] {
        let [follower] = rig.start_followers([name]);
        for at in [1, 2] {
            let server = &mut etcd.member(at).server;
            if is_killed {
                server.kill();
            } else {
                server.pause();
            }
        }
        let since = rig.now();
        rig.must_not_lead(&old, since + rig.timing.renew_deadline, "nothing was renewed since");
        old.loses(rig.timing.renew_deadline + EtcdKeys::NOISE, "deadline");
        assert_eq!(old.exit_code(), 75, "{name}");
        throughout(rig.timing.lease_duration, "the follower is healthy and does not lead", || {
            follower.is_healthy() && !rig.has_successor(&old, since)
        });
        for at in [1, 2] {
            let server = &mut etcd.member(at).server;
            if is_killed {
                server.restart();
            } else {
                server.resume();
            }
        }
        etcd.await_serving();
        let back = rig.now();
        // A renewal that waited in a stopped member restarts the followers' wait.
        (old, _) = rig.successor(&old, back, rig.timing.takeover() + 2 * EtcdKeys::NOISE);
        assert_eq!(old.identity, follower.identity);
    }
    assert_eq!(rig.tokens(ELECTION).len(), 3);
}
