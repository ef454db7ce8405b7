//! What a person on call hears of: the chart's alerts in a real Prometheus, which scrapes the sidecars
//! and kube-state-metrics.
//!
//! An alert that needs slow renewals is among the cases of nodes.

use crate::rig::{Case, PATIENCE, Prometheus, SHOP, eventually, variable};
use serde_json::{Value, json};
use std::time::Duration;

/// How far back `BatonFlapping` looks for five changes. Each took 4.5 s on an idle machine, half of it until its Pod was
/// replaced; a busy one has five times as long.
const FLAPPING: Duration = Duration::from_mins(2);

#[test]
fn alerts_fire_for_what_they_say_and_clear_and_every_panel_shows_something() {
    let case = Case::new("watched");
    let mut leader = case.install(json!({}));
    let prometheus = Prometheus::begin(&case, hurried());
    prometheus.wait_for_leader(&leader.pod, "");
    assert_eq!(prometheus.firing(), [""; 0], "nothing is wrong");

    // Who comes next is anybody's luck. That Prometheus knows all who may come next is not: it counts each change.
    eventually(FLAPPING + PATIENCE, "BatonFlapping fires", || {
        let deleted = case.note("the leader is deleted");
        case.kubectl(&["delete", "pod", &leader.pod, "--wait=false"]);
        let new = case.successor(&leader, deleted, PATIENCE);
        prometheus.wait_for_leader(&new.pod, &leader.pod);
        leader = new;
        prometheus.fires("BatonFlapping")
    });

    case.note("the sidecars lose their rights");
    case.kubectl(&["delete", "rolebinding", &case.election]);
    prometheus.wait_for_alert("BatonNoLeader", true);
    let account = format!("--serviceaccount={}:shop", case.namespace);
    let role = format!("--role={}", case.election);
    let given_back = case.note("they get them back");
    case.kubectl(&["create", "rolebinding", &case.election, &role, &account]);
    prometheus.wait_for_alert("BatonNoLeader", false);
    case.successor(&leader, given_back, PATIENCE);

    case.note("somebody leads an election of the same name, over another store");
    case.apply(&stranger(&case.election));
    prometheus.wait_for_alert("BatonSeveralLeaders", true);
    case.kubectl(&["delete", "pod", "stranger", "--grace-period=1"]);
    prometheus.wait_for_alert("BatonSeveralLeaders", false);

    case.note("all copies are gone, and their Lease is held by one that has been dead for long");
    case.kubectl(&["scale", "deployment/shop", "--replicas=0"]);
    case.settle(SHOP, 0);
    let spec = json!({ "holderIdentity": "nobody", "renewTime": "2000-01-01T00:00:00.000000Z" });
    case.kubectl(&[
        "patch",
        "lease",
        &case.election,
        "--type=merge",
        &format!("--patch={}", json!({ "spec": spec })),
    ]);
    prometheus.wait_for_alert("BatonLeaseStale", true);
    case.kubectl(&["scale", "deployment/shop", "--replicas=3"]);
    prometheus.wait_for_alert("BatonLeaseStale", false);
    eventually(FLAPPING + PATIENCE, "BatonFlapping has cleared", || {
        !prometheus.fires("BatonFlapping")
    });
    assert_eq!(prometheus.blind_panels(), [""; 0], "these have never shown anything");
}

/// The chart's values for a case that cannot wait for minutes.
fn hurried() -> Value {
    json!({
        "podMonitor": { "interval": "1s" },
        "prometheusRule": {
            "for": { "BatonLeaseStale": "5s", "BatonNoLeader": "5s", "BatonSeveralLeaders": "5s" },
            "window": { "BatonFlapping": format!("{FLAPPING:?}") },
        },
    })
}

/// A Pod whose sidecar leads by itself. It answers at another port, for its answers are no part of the case.
fn stranger(election: &str) -> Value {
    let environment = json!([
        { "name": "BATON_ELECTION", "value": election },
        { "name": "BATON_BACKEND", "value": "file" },
        { "name": "BATON_DIRECTORY", "value": "/store" },
        { "name": "BATON_LISTEN", "value": "localhost:4050" },
    ]);
    let container = json!({
        "name": "baton",
        "image": variable("BATON_IMAGE"),
        "env": environment,
        "ports": [{ "name": "baton-metrics", "containerPort": 4041 }],
        "volumeMounts": [{ "name": "store", "mountPath": "/store" }],
    });
    let spec = json!({
        "containers": [container],
        "securityContext": { "fsGroup": 65532 },
        "volumes": [{ "name": "store", "emptyDir": {} }],
    });
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "stranger" }, "spec": spec })
}
