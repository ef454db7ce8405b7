//! Watches that the API server ends: each is reopened, at most once a retry period.

use crate::rig::{
    ApiServer, ELECTION, Gateway, Leases, Page, Rig, Store as _, eventually, throughout,
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ObjectMeta;
use serde_json::json;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// Makes another holder take the Lease for ten minutes without renewals.
fn hold(rig: &Rig<Leases>) {
    let lease = Lease {
        metadata: ObjectMeta { name: Some(ELECTION.to_owned()), ..ObjectMeta::default() },
        spec: None,
    };
    let held = json!({ "spec": { "holderIdentity": "other", "leaseDurationSeconds": 600 } });
    let admin = &rig.store.namespace.admin;
    admin.put(&lease).and_then(|_| admin.patch(ELECTION, &held)).expect("the administrator may");
}

fn release(rig: &Rig<Leases>) {
    let free = json!({ "spec": { "holderIdentity": "" } });
    rig.store.namespace.admin.patch(ELECTION, &free).expect("the administrator may");
}

/// A restarted server keeps no history, so it refuses a watch from the version of a Lease that was
/// not written since.
#[test]
fn restart_over_an_idle_lease_costs_few_requests() {
    let mut server = ApiServer::start();
    let rig = Rig::over(Leases::on(&server), Leases::CALM);
    hold(&rig);
    let follower = rig.start("follower");
    eventually(PATIENCE, "it follows", || rig.has_standing(&follower, "following"));
    // The store's version advances, and the Lease's does not.
    for name in ["one", "two", "three"] {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        rig.store
            .namespace
            .admin
            .put(&Lease { metadata, spec: None })
            .expect("the administrator may");
    }
    server.restart();
    let count =
        || ["GET", "WATCH"].map(|verb| server.requests("leases").get(verb).copied().unwrap_or(0));
    eventually(PATIENCE, "it reads again", || count()[0] > 0);
    let before = count();
    throughout(Duration::from_secs(9), "it follows", || rig.has_standing(&follower, "following"));
    let after = count();
    let [reads, watches] = [0, 1].map(|verb| after[verb] - before[verb]);
    println!("{reads} reads and {watches} watches in 9 s");
    let figures = format!("{reads} reads and {watches} watches in 9 s: {}", follower.output());
    // A read after every two retry periods of silence, one after the watch, and one refused watch.
    assert!(reads <= 9 && watches <= 3, "{figures}");
    assert_eq!(follower.events("watch_failed").len(), 1, "{figures}");

    release(&rig);
    assert_eq!(rig.leader().identity, follower.identity);
    rig.wait_for_answers();
}

const GONE: &str = r#"{"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410, "message": "too old\nforged"}"#;

const ERROR: &str = concat!(
    r#"{"type": "ERROR", "object": {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410, "#,
    r#""message": "too old\nforged"}}"#,
    "\n"
);

#[test]
fn failing_watch_is_paced_and_logged_once() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    hold(&rig);
    let gateway = Gateway::before(&rig.store.namespace.admin);
    let by_gateway = rig.store.account.access.at("behind", &gateway.url());
    for (name, page) in [("error", Page::new(200, ERROR)), ("gone", Page::new(410, GONE))] {
        gateway.answer_watches(page);
        let follower = rig.candidate(name).by(&by_gateway).start();
        eventually(PATIENCE, "it follows", || rig.has_standing(&follower, "following"));
        eventually(PATIENCE, "it watches", || gateway.answered() > 0);
        let reads = || {
            let series = format!(
                "baton_store_requests_total{{election=\"{ELECTION}\",outcome=\"applied\",verb=\"read\"}}"
            );
            follower.metric(&series).expect("every series exists from the start")
        };
        let (answered, read) = (gateway.answered(), reads());
        throughout(6 * rig.timing.retry_period, "it follows", || {
            rig.has_standing(&follower, "following")
        });
        let (watches, reads) = (gateway.answered() - answered, reads() - read);
        // One watch in each retry period, and a read after it.
        assert!(
            (4..=8).contains(&watches) && reads <= 8.0,
            "{name}: {watches} watches and {reads} reads"
        );
        let failures = follower.events("watch_failed");
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert!(failures[0]["message"].to_string().contains("too old?forged"), "{failures:?}");
        follower.terminate();
        assert_eq!(follower.exit_code(), 0);
    }
    gateway.pass();
    let candidate = rig.candidate("watching").by(&by_gateway).start();
    eventually(PATIENCE, "it follows", || rig.has_standing(&candidate, "following"));
    release(&rig);
    assert_eq!(rig.leader().identity, candidate.identity);
    rig.wait_for_answers();
}
