//! API server and etcd stopped, killed, moved: within the slack nothing happens; beyond it the leader stops in time, and
//! the followers wait.

use crate::rig::{
    ApiServer, ELECTION, Leases, Proxy, Rig, Store as _, Timing, eventually, throughout,
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ObjectMeta;
use serde_json::json;
use std::time::Duration;

/// How long an API server may take to come back on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// Enough slack for that.
const PATIENT: Timing = Timing::of_ms(90_000, 65_000, 2000, 2000);

/// How many versions are lost with a restore.
const VERSIONS: u32 = 200;

/// Something that happens to an API server.
type Fate = fn(&mut ApiServer);

#[test]
fn whatever_comes_back_within_the_slack_costs_nobody_anything() {
    let mut server = ApiServer::start();
    let rig = Rig::over(Leases::on(&server), PATIENT);
    // An address that stays while what is behind it moves, as a Service's does.
    let service = Proxy::to(server.address());
    let access = rig.store.account.access.through(service.address());
    let leader = rig.candidate("leader").by(&access).start();
    assert_eq!(rig.leader().identity, leader.identity);
    let follower = rig.candidate("follower").by(&access).start();
    eventually(PATIENCE, "it follows", || rig.stands(&follower, "following"));

    let fates: [(&str, Fate); 3] = [
        ("the API server is killed", ApiServer::restart),
        ("the API server is killed, and comes back elsewhere", ApiServer::restart_elsewhere),
        ("etcd is killed", |server| {
            server.etcd.start_again();
            server.await_ready();
        }),
    ];
    for (what, befalls) in fates {
        let renewed = rig.store.written(ELECTION);
        befalls(&mut server);
        service.aim(server.address());
        eventually(PATIENCE, &format!("{what}, and the leader renews again"), || {
            rig.store.written(ELECTION) > renewed
        });
        assert!(leader.is_healthy() && follower.is_healthy(), "{what}");
    }
    assert_eq!(rig.tokens(ELECTION).len(), 1);
    assert_eq!(leader.events("lost").len(), 0);
}

#[test]
fn an_api_server_that_stands_still_for_longer_than_a_call_changes_nothing() {
    let mut server = ApiServer::start();
    let rig = Rig::over(Leases::on(&server), Leases::CALM);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    server.server.pause();
    throughout(rig.timing.call_timeout() * 3 / 2, "both are well", || {
        leader.is_healthy() && follower.is_healthy()
    });
    server.server.resume();
    throughout(rig.timing.renew_deadline, "the leader leads on", || {
        leader.is_healthy() && rig.holds(&leader)
    });
    assert_eq!(rig.tokens(ELECTION).len(), 1);
}

#[test]
fn whatever_stays_away_costs_the_leader_its_term_and_the_followers_nothing() {
    let mut server = ApiServer::start();
    let rig = Rig::over(Leases::on(&server), Leases::CALM);
    let mut leader = rig.start_leader("first");

    let outages: [(&str, Fate, Fate); 3] = [
        ("stopped", |server| server.server.pause(), |server| server.server.resume()),
        ("killed", |server| server.server.kill(), ApiServer::restart),
        ("without-etcd", |server| server.etcd.kill(), |server| server.etcd.start_again()),
    ];
    for (name, begins, ends) in outages {
        let [follower] = rig.start_followers([name]);
        begins(&mut server);
        let since = rig.now();
        rig.must_be_silent(&leader, since + rig.timing.renew_deadline, "nothing was renewed since");
        leader.loses(rig.timing.renew_deadline + Leases::NOISE, "deadline");
        assert_eq!(leader.exit_code(), 75, "{name}");
        throughout(rig.timing.lease_duration, "the follower is well, and does not lead", || {
            follower.is_healthy()
                && follower.probe("/readyz") == 200
                && !rig.succeeded(&leader, since)
        });
        let told = follower.events("store_unreachable").len();
        assert!((1..=3).contains(&told), "{name}: it says what it misses, and not {told} times");
        ends(&mut server);
        server.await_ready();
        let back = rig.now();
        // A renewal that waited in a server that stood still is applied now, and counts anew for those who follow.
        (leader, _) = rig.successor(&leader, back, rig.timing.takeover() + Leases::NOISE);
        assert_eq!(leader.identity, follower.identity);
        eventually(PATIENCE, "it says that the store is back", || {
            !follower.events("store_back").is_empty()
        });
        let foreign = follower
            .output()
            .lines()
            .find(|line| !line.contains(r#""event":""#))
            .map(str::to_owned);
        assert_eq!(foreign, None, "what kube has to say is not for people");
    }
    assert_eq!(rig.tokens(ELECTION).len(), 4);
}

#[test]
fn a_store_that_was_set_back_ends_the_term_loudly() {
    let mut server = ApiServer::start();
    let rig = Rig::over(Leases::on(&server), PATIENT);
    let first = rig.start_leader("first");
    rig.hear_enough();
    first.terminate();
    assert_eq!(first.exit_code(), 0);
    server.keep();
    let reigning = rig.start_leader("reigning");
    server.go_back();
    eventually(PATIENCE, "it has lost", || !reigning.events("lost").is_empty());
    assert_eq!(reigning.exit_code(), 75);
    let told = reigning.events("store_went_back");
    assert_eq!(told.last().map(|line| line["level"] == "ERROR"), Some(true), "it says why, loudly");
}

#[test]
fn followers_hear_again_after_the_store_was_set_back() {
    let mut server = ApiServer::start();
    let rig = Rig::over(Leases::on(&server), PATIENT);
    // Its term is older than what is kept, so that it goes on.
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    server.keep();
    let elsewhere = server.namespace().admin;
    let other = ObjectMeta { name: Some("other".to_owned()), ..ObjectMeta::default() };
    elsewhere.put(&Lease { metadata: other, spec: None }).expect("the administrator may");
    for edit in 1..=VERSIONS {
        let edit = json!({ "metadata": { "labels": { "edit": edit.to_string() } } });
        elsewhere.patch("other", &edit).expect("the administrator may");
    }
    let before = rig.store.written(ELECTION);
    eventually(PATIENCE, "the follower hears of a version that will be lost", || {
        rig.store.written(ELECTION) > before
    });
    server.go_back();
    let back = rig.store.written(ELECTION);
    eventually(PATIENCE, "the leader renews", || rig.store.written(ELECTION) > back);
    throughout(4 * rig.timing.retry_period, "whoever has to read has read", || {
        leader.is_healthy() && follower.is_healthy()
    });
    let reads = || server.requests("leases").get("GET").copied().unwrap_or(0);
    let before = reads();
    throughout(8 * rig.timing.retry_period, "it follows", || rig.stands(&follower, "following"));
    assert_eq!(reads(), before, "who hears every renewal does not read");
    assert_eq!(rig.tokens(ELECTION).len(), 1, "one term all along");
}
