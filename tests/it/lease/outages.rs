//! API server and etcd stopped, killed, cut off: within the slack nothing happens, beyond it the leader stops in time.

use super::ground::{Ground, PATIENCE, TIMING};
use crate::rig::{ApiServer, ELECTION, Flow, NOISE, Proxy, Way, eventually, throughout};
use std::time::Duration;

/// Shorter than what is left of a claim, at the worst, before one more renewal has to get through.
const WITHIN_THE_SLACK: Duration = Duration::from_millis(1200);

#[test]
fn an_api_server_that_stands_still_for_a_moment_changes_nothing() {
    let mut server = ApiServer::start();
    let ground = Ground::on(&server);
    let (leader, [follower]) = ground.leader_and_followers(["b"]);
    server.server.pause();
    throughout(WITHIN_THE_SLACK, "both live", || leader.is_alive() && follower.is_healthy());
    server.server.resume();
    throughout(TIMING.lease_duration, "the leader leads on", || leader.is_alive() && ground.holds(&leader));
    assert_eq!(ground.rig.tokens(ELECTION).len(), 1);
}

#[test]
fn an_api_server_that_stays_away_costs_the_leader_its_term_and_the_followers_nothing() {
    let mut server = ApiServer::start();
    let ground = Ground::on(&server);
    let (leader, [follower]) = ground.leader_and_followers(["b"]);
    server.server.pause();
    let since = ground.rig.now();
    ground.rig.must_be_silent(&leader, since + TIMING.renew_deadline, "nothing was renewed since");
    leader.loses(TIMING.renew_deadline + NOISE, "deadline");
    assert_eq!(leader.exit_code(), 75);
    throughout(TIMING.lease_duration, "the follower is well", || {
        follower.is_healthy() && follower.probe("/readyz") == 200
    });
    assert!(!follower.events("store_unreachable").is_empty(), "and says what it misses");
    server.server.resume();
    assert_eq!(ground.rig.leader().identity, follower.identity);
    eventually(PATIENCE, "it says that the store is back", || !follower.events("store_back").is_empty());
}

#[test]
fn a_store_that_was_set_back_ends_the_term_loudly() {
    let mut server = ApiServer::start();
    let ground = Ground::on(&server);
    let (leader, _) = ground.leader_and_followers([]);
    leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    server.keep();
    // A long slack: the restore takes a while.
    let leader = ground
        .candidate("reigning")
        .flag("--lease-duration", "60s")
        .flag("--renew-deadline", "45s")
        .flag("--retry-period", "1s")
        .start();
    let reigning = ground.rig.leader();
    assert_eq!(reigning.identity, leader.identity);
    server.go_back();
    eventually(PATIENCE, "it has lost", || !leader.events("lost").is_empty());
    assert_eq!(leader.exit_code(), 75);
    let told = leader.events("store_went_back");
    assert_eq!(told.last().map(|line| line["level"] == "ERROR"), Some(true), "it says why, loudly");
}

#[test]
fn replies_that_are_lost_after_the_write_was_applied_end_nothing() {
    let server = ApiServer::shared();
    let ground = Ground::on(server);
    let proxy = Proxy::to(server.address());
    let leader = ground.candidate_by(&ground.account.access.through(proxy.address()), "leader").start();
    assert_eq!(ground.rig.leader().identity, leader.identity);
    for _ in 0..3 {
        proxy.set(Way::Replies, Flow::Lose);
        throughout(WITHIN_THE_SLACK, "it lives", || leader.is_alive());
        proxy.set(Way::Replies, Flow::Pass);
        throughout(2 * TIMING.retry_period, "it leads on", || leader.is_alive() && ground.holds(&leader));
    }
    assert_eq!(ground.rig.tokens(ELECTION).len(), 1, "one term all along");
}

#[test]
fn a_renewal_that_arrives_late_brings_back_no_leader() {
    let server = ApiServer::shared();
    let ground = Ground::on(server);
    let proxy = Proxy::to(server.address());
    let old = ground.candidate_by(&ground.account.access.through(proxy.address()), "old").start();
    assert_eq!(ground.rig.leader().identity, old.identity);
    let new = ground.candidate("new").start();
    eventually(PATIENCE, "it follows", || ground.rig.stands(&new, "following"));

    proxy.set(Way::Requests, Flow::Hold);
    let cut = ground.rig.now();
    eventually(PATIENCE, "a renewal waits", || proxy.held(Way::Requests) > 0);
    ground.rig.must_be_silent(&old, cut + TIMING.renew_deadline, "nothing was renewed since");
    ground.rig.successor(&old, cut, ground.takeover());
    assert_eq!(old.exit_code(), 75);
    proxy.set(Way::Requests, Flow::Pass);
    throughout(TIMING.lease_duration, "the late write changes nothing", || ground.holds(&new) && new.is_alive());
    assert_eq!(ground.rig.tokens(ELECTION).len(), 2);
}
