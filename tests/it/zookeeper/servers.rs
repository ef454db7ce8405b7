//! The servers' own troubles under our candidates: killed, frozen, cut off, without a quorum, restarted one by one.

use crate::rig::{ELECTION, Ensemble, Rig, Settings, Store as _, Znodes, eventually, throughout};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

fn three() -> Ensemble {
    Ensemble::start(Settings { size: 3, ..Settings::default() })
}

/// Candidates that know every server.
fn over_all(ensemble: &Ensemble) -> Rig<Znodes> {
    Rig::over(Znodes::on(ensemble, &ensemble.connect_string()), Znodes::CALM)
}

#[test]
fn the_death_of_the_servers_leader_and_a_rolling_restart_change_no_leader_of_ours() {
    let mut ensemble = three();
    let rig = over_all(&ensemble);
    let leader = rig.start_leader("a");
    let [follower] = rig.start_followers(["b"]);
    let dead = ensemble.leader();
    ensemble.member(dead).server.kill();
    throughout(rig.timing.lease_duration, "both live", || leader.is_alive() && follower.is_healthy());
    ensemble.member(dead).restart();
    for at in 0..3 {
        ensemble.member(at).restart();
        throughout(rig.timing.retry_period, "both live", || leader.is_alive() && follower.is_healthy());
    }
    assert_eq!(rig.leader().identity, leader.identity);
    assert_eq!(rig.tokens(ELECTION).len(), 1, "one term all along");
}

#[test]
fn a_quorum_that_is_lost_costs_the_leader_its_term_in_time_and_the_followers_nothing() {
    let mut ensemble = three();
    let rig = over_all(&ensemble);
    let leader = rig.start_leader("a");
    let [follower] = rig.start_followers(["b"]);
    let lost = rig.now();
    for at in 0..2 {
        ensemble.member(at).server.kill();
    }
    rig.must_be_silent(&leader, lost + rig.timing.renew_deadline + Znodes::NOISE, "no quorum could renew since");
    leader.loses(rig.timing.renew_deadline + Znodes::NOISE, "deadline");
    assert_eq!(leader.exit_code(), 75);
    throughout(rig.timing.lease_duration, "the follower is well", || {
        follower.is_healthy() && follower.probe("/readyz") == 200
    });
    assert!(!follower.events("store_unreachable").is_empty(), "and says what it misses");
    for at in 0..2 {
        ensemble.member(at).restart();
    }
    eventually(PATIENCE, "the follower leads", || rig.stands(&follower, "leading"));
    assert_eq!(rig.tokens(ELECTION).len(), 2);
}

#[test]
fn a_leader_at_a_server_that_is_cut_off_stops_before_another_leads() {
    let ensemble = Ensemble::start(Settings { size: 3, can_be_cut: true, sync_limit: 20, ..Settings::default() });
    let [lonely, other] = ensemble.followers()[..] else { panic!("two of three follow") };
    let rig = Rig::over(Znodes::on(&ensemble, &ensemble.address(lonely).to_string()), Znodes::FAST);
    let old = rig.start_leader("a");
    let chroot = rig.store.flags()["--zookeeper-servers"].split_once('/').expect("it has a chroot").1.to_owned();
    let elsewhere = format!("{}/{chroot}", ensemble.address(other));
    let new = rig.candidate("b").flag("--zookeeper-servers", elsewhere).start();
    eventually(PATIENCE, "it follows", || rig.stands(&new, "following"));

    let cut = rig.now();
    ensemble.cut_off(lonely);
    rig.must_be_silent(&old, cut + rig.timing.renew_deadline, "nothing was acknowledged since");
    let takeover = rig.timing.takeover() + 2 * Znodes::NOISE;
    assert_eq!(rig.successor(&old, cut, takeover).0.identity, new.identity);
    assert!(ensemble.is_serving(lonely), "its server has served it all along");
    assert_eq!(old.exit_code(), 75);
}
