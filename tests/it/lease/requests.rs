//! How little an election takes of the API server, by its own count.

use crate::rig::{
    ApiServer, ELECTION, Flow, Leases, Proxy, Rig, Store as _, Way, eventually, throughout,
    wait_for,
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ObjectMeta;
use serde_json::json;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// How long a watch lasts, and how long it takes to find that it is over.
const WATCH: Duration = Duration::from_secs(62);

/// Reads, writes, and watches that have ended.
fn count(server: &ApiServer) -> [u64; 3] {
    let requests = server.requests("leases");
    ["GET", "PUT", "WATCH"].map(|verb| requests.get(verb).copied().unwrap_or(0))
}

#[test]
fn a_leader_writes_once_a_retry_period_and_a_follower_only_watches() {
    let server = ApiServer::start();
    let rig = Rig::over(Leases::on(&server), Leases::CALM);
    let retry_period = rig.timing.retry_period;
    let proxy = Proxy::to(server.address());
    rig.start_leader("leader");
    let followers = ["b", "c"].map(|name| {
        rig.candidate(name).by(&rig.store.account.access.through(proxy.address())).start()
    });
    let follow = || followers.iter().all(|follower| rig.stands(follower, "following"));
    eventually(PATIENCE, "they follow", follow);
    // Whatever a start asks for is over when the watches have been quiet for a while.
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

    // Ten times each follower has to open its watch again: where it was, without a read.
    for times in 1..=10 {
        proxy.cut();
        // A watch is counted when it has ended.
        eventually(PATIENCE, "the watches are opened again", || count()[2] >= watched + 2 * times);
        throughout(retry_period, "they follow", follow);
    }
    assert_eq!(count()[0] - read, 0, "nobody has to read while the watches live");
}

#[test]
fn the_first_watch_after_an_outage_is_kept() {
    let server = ApiServer::start();
    let rig = Rig::over(Leases::on(&server), Leases::CALM);
    let retry_period = rig.timing.retry_period;
    let proxy = Proxy::to(server.address());
    let leader = rig.start_leader("leader");
    let follower =
        rig.candidate("follower").by(&rig.store.account.access.through(proxy.address())).start();
    eventually(PATIENCE, "it follows", || rig.stands(&follower, "following"));
    // It does not depend on where in its pause between two attempts the follower is.
    for outage in 1..=3 {
        proxy.set(Way::Requests, Flow::Close);
        let is_told = || follower.events("store_unreachable").len() == outage;
        eventually(PATIENCE, "it misses the API server", is_told);
        throughout(2 * retry_period, "it waits", || follower.is_healthy());
        let [.., ended] = count(&server);
        proxy.set(Way::Requests, Flow::Pass);
        eventually(PATIENCE, "it is back", || follower.events("store_back").len() == outage);
        throughout(4 * retry_period, "it hears what happens", || {
            rig.stands(&follower, "following")
        });
        assert_eq!(count(&server)[2], ended, "a watch that was good has been closed");
    }
    assert!(leader.is_healthy());
}

#[test]
fn a_watch_whose_connection_was_forgotten_is_opened_anew_though_nothing_happens() {
    let server = ApiServer::start();
    let rig = Rig::over(Leases::on(&server), Leases::CALM);
    let proxy = Proxy::to(server.address());
    // Somebody holds the Lease for long, and never renews: what is read shows nothing that the watch did not.
    let held = json!({ "spec": { "holderIdentity": "somebody", "leaseDurationSeconds": 600 } });
    let lease = Lease {
        metadata: ObjectMeta { name: Some(ELECTION.to_owned()), ..ObjectMeta::default() },
        spec: None,
    };
    let admin = &rig.store.namespace.admin;
    admin.put(&lease).and_then(|_| admin.patch(ELECTION, &held)).expect("the administrator may");
    let follower =
        rig.candidate("follower").by(&rig.store.account.access.through(proxy.address())).start();
    eventually(PATIENCE, "it follows", || rig.stands(&follower, "following"));
    throughout(2 * rig.timing.retry_period, "it watches", || follower.is_healthy());
    let [.., ended] = count(&server);
    proxy.forget();
    // Our own bound is a minute and one call; the server's, which is not heard of, a minute.
    throughout(WATCH + 2 * rig.timing.retry_period, "it follows", || {
        rig.stands(&follower, "following")
    });
    assert_eq!(count(&server)[2], ended + 1, "the server has ended the one that was forgotten");
    proxy.cut();
    eventually(PATIENCE, "there was another", || count(&server)[2] == ended + 2);
    // Whom the judge can hear.
    admin
        .patch(ELECTION, &json!({ "spec": { "holderIdentity": "" } }))
        .expect("the administrator may");
    assert_eq!(rig.leader().identity, follower.identity);
    rig.hear_enough();
}
