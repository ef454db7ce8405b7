//! A member that is cut off from the others, with a candidate that reaches only this member.

use super::PATIENCE;
use crate::rig::{
    Candidate, ELECTION, Etcd, EtcdKeys, EtcdSettings, Rig, Store as _, Timing, eventually,
};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The lease outlasts a stop of the members' leader for eight seconds.
const LONG: Timing = Timing::of_ms(10_000, 7000, 500, 500);

/// The leader reaches only the member `isolated`, and the follower only the others.
struct Scene {
    rig: Rig<EtcdKeys>,
    etcd: Etcd,
    isolated: usize,
    leader: Arc<Candidate>,
    follower: Arc<Candidate>,
}

impl Scene {
    /// `choose` selects the member to isolate.
    fn start(timing: Timing, choose: impl FnOnce(&Etcd) -> usize) -> Self {
        let etcd = Etcd::start(EtcdSettings::cluster());
        let isolated = choose(&etcd);
        let rig = Rig::over(EtcdKeys::at(&etcd, &etcd.url(isolated)), timing);
        let leader = rig.start_leader("beside");
        let others = (0..3).filter(|at| *at != isolated).map(|at| etcd.url(at));
        let others = others.collect::<Vec<_>>().join(",");
        let follower = rig.candidate("elsewhere").flag("--etcd-endpoints", others).start();
        eventually(PATIENCE, "it follows", || rig.has_standing(&follower, "following"));
        Self { rig, etcd, isolated, leader, follower }
    }

    /// Waits for the successor, and for the leader's exit, which must have been silent by then.
    fn assert_succession(&self, since: crate::rig::Moment, within: Duration) {
        let Self { rig, leader, follower, .. } = self;
        rig.must_not_lead(leader, since + rig.timing.renew_deadline, "nothing was renewed since");
        let (new, _) = rig.successor(leader, since, within);
        assert_eq!(new.identity, follower.identity);
        assert_eq!(leader.exit_code(), 75);
        assert_eq!(rig.tokens(ELECTION).len(), 2);
    }
}

#[test]
fn leader_beside_an_isolated_follower_stops_in_time() {
    let scene = Scene::start(EtcdKeys::FAST, |etcd| etcd.followers()[0]);
    let cut = scene.rig.now();
    scene.etcd.cut_off(scene.isolated);
    scene.assert_succession(cut, scene.rig.store.takeover(scene.rig.timing));
    // The member catches up, and a candidate beside it takes part again.
    scene.etcd.heal(scene.isolated);
    let again = scene.rig.start("again");
    eventually(PATIENCE, "it follows", || scene.rig.has_standing(&again, "following"));
}

#[test]
fn leader_beside_the_isolated_leader_stops_in_time() {
    let scene = Scene::start(LONG, Etcd::leader);
    let cut = scene.rig.now();
    scene.etcd.cut_off(scene.isolated);
    // The others elect a leader within the lease duration.
    scene.assert_succession(cut, scene.rig.store.takeover(scene.rig.timing));
}

/// The members' leader is cut off and stopped. An etcd lease would be renewed when it resumes: it
/// answers keepalives from memory (docs/guides/etcd.md).
#[test]
fn stopped_and_isolated_leader_renews_nothing() {
    let mut scene = Scene::start(LONG, Etcd::leader);
    let isolated = scene.isolated;
    let since = scene.rig.now();
    scene.etcd.cut_off(isolated);
    scene.etcd.member(isolated).server.pause();
    thread::sleep(Duration::from_secs(8));
    scene.etcd.member(isolated).server.resume();
    scene.assert_succession(since, scene.rig.store.takeover(scene.rig.timing));
}

/// The watch of a follower beside an isolated member is silent. etcd ends it for want of a leader, or
/// a read through another member shows that it is behind.
#[test]
fn follower_beside_an_isolated_member_hears_of_the_release() {
    let etcd = Etcd::start(EtcdSettings::cluster());
    let isolated = etcd.followers()[0];
    let rig = Rig::over(EtcdKeys::on(&etcd), EtcdKeys::CALM);
    let others = (0..3).filter(|at| *at != isolated).map(|at| etcd.url(at));
    let others = others.collect::<Vec<_>>().join(",");
    let leader = rig.candidate("leader").flag("--etcd-endpoints", &others).start();
    assert_eq!(rig.leader().identity, leader.identity);
    let first = [etcd.url(isolated), others].join(",");
    let follower = rig.candidate("follower").flag("--etcd-endpoints", first).start();
    eventually(PATIENCE, "it follows", || rig.has_standing(&follower, "following"));
    etcd.cut_off(isolated);
    // Longer than two retry periods, after which a follower reads, and than three election timeouts,
    // after which etcd ends the watch.
    thread::sleep(2 * rig.timing.lease_duration / 3);
    leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    let released = rig.now();
    let (new, led) = rig.successor(&leader, released, 2 * rig.timing.lease_duration);
    assert_eq!(new.identity, follower.identity);
    assert!(led.since(released) <= EtcdKeys::NOISE, "it took {:?}", led.since(released));
}

/// The watch of a follower beside an isolated member is silent. etcd ends it for want of a leader
/// (`hasleader`), long before the follower would read.
#[test]
fn silent_watch_beside_an_isolated_member_ends() {
    let etcd = Etcd::start(EtcdSettings::cluster());
    let isolated = etcd.followers()[0];
    // It reads after 20 seconds without a watch event.
    let patient = Timing::of_ms(60_000, 45_000, 10_000, 1000);
    let rig = Rig::over(EtcdKeys::on(&etcd), patient);
    let others = (0..3).filter(|at| *at != isolated).map(|at| etcd.url(at));
    let others = others.collect::<Vec<_>>().join(",");
    let leader = rig.candidate("leader").flag("--etcd-endpoints", &others).start();
    assert_eq!(rig.leader().identity, leader.identity);
    let first = [etcd.url(isolated), others].join(",");
    let follower = rig.candidate("follower").flag("--etcd-endpoints", first).start();
    eventually(PATIENCE, "it follows", || rig.has_standing(&follower, "following"));
    let before = rig.store.written(ELECTION);
    eventually(PATIENCE, "the leader has just renewed", || rig.store.written(ELECTION) > before);
    etcd.cut_off(isolated);
    // Longer than three election timeouts of a second, shorter than two retry periods.
    thread::sleep(Duration::from_secs(6));
    assert!(etcd.admin_at(isolated).try_read("/").is_err(), "the member is cut off");
    leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    let (new, _) = rig.successor(&leader, rig.now(), EtcdKeys::NOISE);
    assert_eq!(new.identity, follower.identity);
}
