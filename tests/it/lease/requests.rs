//! How many requests an election costs, as the API server counts them.

use crate::rig::{
    ApiServer, Direction, ELECTION, Flow, Leases, Proxy, Rig, Store as _, eventually, throughout,
    wait_for,
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ObjectMeta;
use serde_json::json;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// How long a watch lasts, plus the time to notice that it has ended.
const WATCH: Duration = Duration::from_secs(62);

/// Reads, writes, and ended watches.
fn count(server: &ApiServer) -> [u64; 3] {
    let requests = server.requests("leases");
    ["GET", "PUT", "WATCH"].map(|verb| requests.get(verb).copied().unwrap_or(0))
}

#[test]
fn leader_writes_once_a_retry_period_and_followers_watch() {
    let server = ApiServer::start();
    let rig = Rig::over(Leases::on(&server), Leases::CALM);
    let retry_period = rig.timing.retry_period;
    let proxy = Proxy::to(server.address());
    rig.start_leader("leader");
    let followers = ["b", "c"].map(|name| {
        rig.candidate(name).by(&rig.store.account.access.through(proxy.address())).start()
    });
    let follow = || followers.iter().all(|follower| rig.has_standing(follower, "following"));
    eventually(PATIENCE, "they follow", follow);
    // The requests of a start are over when nothing has changed for a while.
    throughout(2 * retry_period, "they follow", follow);

    let count = || count(&server);
    let [read, written, watched] = count();
    let begun = rig.now();
    wait_for(PATIENCE, "ten renewals", || (count()[1] >= written + 10).then_some(()));
    let took = rig.now().since(begun);
    let expected = took.as_secs_f64() / retry_period.as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a handful of requests")]
    let writes = (count()[1] - written) as f64;
    assert!((writes - expected).abs() <= 2.0, "{writes} writes in {took:?}");

    // Each follower must reopen its watch ten times: from the same version, without a read.
    for times in 1..=10 {
        proxy.cut();
        // A watch is counted when it has ended.
        eventually(PATIENCE, "the watches are opened again", || count()[2] >= watched + 2 * times);
        throughout(retry_period, "they follow", follow);
    }
    assert_eq!(count()[0] - read, 0, "no follower reads while watches work");
}

#[test]
fn first_watch_after_an_outage_is_kept() {
    let server = ApiServer::start();
    let rig = Rig::over(Leases::on(&server), Leases::CALM);
    let retry_period = rig.timing.retry_period;
    let proxy = Proxy::to(server.address());
    let leader = rig.start_leader("leader");
    let follower =
        rig.candidate("follower").by(&rig.store.account.access.through(proxy.address())).start();
    eventually(PATIENCE, "it follows", || rig.has_standing(&follower, "following"));
    // Repeated, since the follower may be anywhere in its pause between two attempts.
    for outage in 1..=3 {
        proxy.set(Direction::Requests, Flow::Close);
        let is_logged = || follower.events("store_unreachable").len() == outage;
        eventually(PATIENCE, "it cannot reach the API server", is_logged);
        throughout(2 * retry_period, "it waits", || follower.is_healthy());
        let [.., ended] = count(&server);
        proxy.set(Direction::Requests, Flow::Pass);
        eventually(PATIENCE, "it is back", || follower.events("store_back").len() == outage);
        throughout(4 * retry_period, "it keeps following", || {
            rig.has_standing(&follower, "following")
        });
        assert_eq!(count(&server)[2], ended, "a working watch was closed");
    }
    assert!(leader.is_healthy());
}

#[test]
fn watch_on_a_dead_connection_is_reopened_in_time() {
    let server = ApiServer::start();
    let rig = Rig::over(Leases::on(&server), Leases::CALM);
    let proxy = Proxy::to(server.address());
    // Another holder never renews a long lease, so reads reveal nothing that the watch would.
    let held = json!({ "spec": { "holderIdentity": "other", "leaseDurationSeconds": 600 } });
    let lease = Lease {
        metadata: ObjectMeta { name: Some(ELECTION.to_owned()), ..ObjectMeta::default() },
        spec: None,
    };
    let admin = &rig.store.namespace.admin;
    admin.put(&lease).and_then(|_| admin.patch(ELECTION, &held)).expect("the administrator may");
    let follower =
        rig.candidate("follower").by(&rig.store.account.access.through(proxy.address())).start();
    eventually(PATIENCE, "it follows", || rig.has_standing(&follower, "following"));
    throughout(2 * rig.timing.retry_period, "it watches", || follower.is_healthy());
    let [.., ended] = count(&server);
    proxy.blackhole();
    // Our watch ends after a minute and one call; the server ends it after a minute, unnoticed.
    throughout(WATCH + 2 * rig.timing.retry_period, "it follows", || {
        rig.has_standing(&follower, "following")
    });
    assert_eq!(count(&server)[2], ended + 1, "the server has ended the watch");
    proxy.cut();
    eventually(PATIENCE, "there was another watch", || count(&server)[2] == ended + 2);
    // The checker needs a leader.
    admin
        .patch(ELECTION, &json!({ "spec": { "holderIdentity": "" } }))
        .expect("the administrator may");
    assert_eq!(rig.leader().identity, follower.identity);
    rig.wait_for_answers();
}
