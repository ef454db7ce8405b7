//! API server and etcd are paused, killed, and moved. An outage shorter than the slack has no
//! effect; a longer one ends the term in time, and the followers wait.

use crate::rig::{
    ApiServer, ELECTION, Leases, Proxy, Rig, Store as _, Timing, eventually, throughout,
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ObjectMeta;
use serde_json::json;
use std::time::Duration;

/// How long an API server may take to restart on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// Durations with enough slack for that.
const PATIENT: Timing = Timing::of_ms(90_000, 65_000, 2000, 2000);

/// How many resource versions the restore of a snapshot loses.
const VERSIONS: u32 = 200;

/// A fault of an API server, or its end.
type Fault = fn(&mut ApiServer);

#[test]
fn outage_within_the_slack_has_no_effect() {
    let mut server = ApiServer::start();
    let rig = Rig::over(Leases::on(&server), PATIENT);
    // A fixed address in front of a server that moves, like a Service's.
    let service = Proxy::to(server.address());
    let access = rig.store.account.access.through(service.address());
    let leader = rig.candidate("leader").by(&access).start();
    assert_eq!(rig.leader().identity, leader.identity);
    let follower = rig.candidate("follower").by(&access).start();
    eventually(PATIENCE, "it follows", || rig.has_standing(&follower, "following"));

    let faults: [(&str, Fault); 3] = [
        ("the API server is killed", ApiServer::restart),
        ("the API server restarts on another port", ApiServer::restart_on_another_port),
        ("etcd is killed", |server| {
            server.etcd.restart();
            server.await_ready();
        }),
    ];
    for (what, inject) in faults {
        let renewed = rig.store.written(ELECTION);
        inject(&mut server);
        service.retarget(server.address());
        eventually(PATIENCE, &format!("{what}, and the leader renews again"), || {
            rig.store.written(ELECTION) > renewed
        });
        assert!(leader.is_healthy() && follower.is_healthy(), "{what}");
    }
    assert_eq!(rig.tokens(ELECTION).len(), 1);
    assert_eq!(leader.events("lost").len(), 0);
}

#[test]
fn paused_api_server_within_the_slack_has_no_effect() {
    let mut server = ApiServer::start();
    let rig = Rig::over(Leases::on(&server), Leases::CALM);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    server.server.pause();
    throughout(rig.timing.call_timeout() * 3 / 2, "both are healthy", || {
        leader.is_healthy() && follower.is_healthy()
    });
    server.server.resume();
    throughout(rig.timing.renew_deadline, "the leader keeps leading", || {
        leader.is_healthy() && rig.holds(&leader)
    });
    assert_eq!(rig.tokens(ELECTION).len(), 1);
}

#[test]
fn long_outage_ends_the_term_and_no_follower() {
    let mut server = ApiServer::start();
    let rig = Rig::over(Leases::on(&server), Leases::CALM);
    let mut leader = rig.start_leader("first");

    let outages: [(&str, Fault, Fault); 3] = [
        ("stopped", |server| server.server.pause(), |server| server.server.resume()),
        ("killed", |server| server.server.kill(), ApiServer::restart),
        ("without-etcd", |server| server.etcd.kill(), |server| server.etcd.restart()),
    ];
    for (name, begin, end) in outages {
        let [follower] = rig.start_followers([name]);
        begin(&mut server);
        let since = rig.now();
        rig.must_not_lead(&leader, since + rig.timing.renew_deadline, "nothing was renewed since");
        leader.loses(rig.timing.renew_deadline + Leases::NOISE, "deadline");
        assert_eq!(leader.exit_code(), 75, "{name}");
        throughout(rig.timing.lease_duration, "the follower is healthy and does not lead", || {
            follower.is_healthy()
                && follower.probe("/readyz") == 200
                && !rig.has_successor(&leader, since)
        });
        let warnings = follower.events("store_unreachable").len();
        assert!((1..=3).contains(&warnings), "{name}: it logs the outage {warnings} times");
        end(&mut server);
        server.await_ready();
        let back = rig.now();
        // A renewal that waited in the paused server is applied now, and restarts the followers'
        // wait.
        (leader, _) = rig.successor(&leader, back, rig.timing.takeover() + Leases::NOISE);
        assert_eq!(leader.identity, follower.identity);
        eventually(PATIENCE, "it logs that the store is back", || {
            !follower.events("store_back").is_empty()
        });
        let foreign = follower
            .output()
            .lines()
            .find(|line| !line.contains(r#""event":""#))
            .map(str::to_owned);
        assert_eq!(foreign, None, "kube's own messages are not logged");
    }
    assert_eq!(rig.tokens(ELECTION).len(), 4);
}

#[test]
fn restored_snapshot_ends_a_newer_term_with_an_error() {
    let mut server = ApiServer::start();
    let rig = Rig::over(Leases::on(&server), PATIENT);
    let first = rig.start_leader("first");
    rig.wait_for_answers();
    first.terminate();
    assert_eq!(first.exit_code(), 0);
    server.save_snapshot();
    let second = rig.start_leader("second");
    server.restore_snapshot();
    eventually(PATIENCE, "it loses its term", || !second.events("lost").is_empty());
    assert_eq!(second.exit_code(), 75);
    let events = second.events("store_went_back");
    assert_eq!(events.last().map(|event| event["level"] == "ERROR"), Some(true), "it logs why");
}

#[test]
fn followers_watch_again_after_a_snapshot_is_restored() {
    let mut server = ApiServer::start();
    let rig = Rig::over(Leases::on(&server), PATIENT);
    // Its term began before the snapshot, so it continues.
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    server.save_snapshot();
    let elsewhere = server.namespace().admin;
    let other = ObjectMeta { name: Some("other".to_owned()), ..ObjectMeta::default() };
    elsewhere.put(&Lease { metadata: other, spec: None }).expect("the administrator may");
    for edit in 1..=VERSIONS {
        let edit = json!({ "metadata": { "labels": { "edit": edit.to_string() } } });
        elsewhere.patch("other", &edit).expect("the administrator may");
    }
    let before = rig.store.written(ELECTION);
    eventually(PATIENCE, "the follower sees a version that will be lost", || {
        rig.store.written(ELECTION) > before
    });
    server.restore_snapshot();
    let back = rig.store.written(ELECTION);
    eventually(PATIENCE, "the leader renews", || rig.store.written(ELECTION) > back);
    throughout(4 * rig.timing.retry_period, "every pending read is done", || {
        leader.is_healthy() && follower.is_healthy()
    });
    let reads = || server.requests("leases").get("GET").copied().unwrap_or(0);
    let before = reads();
    throughout(8 * rig.timing.retry_period, "it follows", || {
        rig.has_standing(&follower, "following")
    });
    assert_eq!(reads(), before, "a follower whose watch works does not read");
    assert_eq!(rig.tokens(ELECTION).len(), 1, "there was one term");
}
