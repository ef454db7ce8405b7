//! The chart's alerts in a real Prometheus, which scrapes the sidecars and kube-state-metrics.
//!
//! The case for `BatonRenewalsSlow` is `nodes::slow`.

use crate::rig::{Case, PATIENCE, Prometheus, SHOP, eventually, variable};
use serde_json::{Value, json};
use std::time::Duration;

/// The window of `BatonFlapping`, which needs five changes. Each took 4.5 s on an idle machine,
/// half of it for the new Pod. The window allows for a machine that is five times slower.
const FLAPPING_WINDOW: Duration = Duration::from_mins(2);

#[test]
fn alerts_fire_and_clear_and_every_panel_shows_data() {
    let case = Case::new("watched");
    let mut leader = case.install(json!({}));
    let prometheus = Prometheus::begin(&case, short_intervals());
    prometheus.wait_for_leader(&leader.pod, "");
    assert_eq!(prometheus.firing(), [""; 0], "alerts fire without a fault");

    // Any candidate may succeed. Prometheus must have scraped all of them, to count each change.
    eventually(FLAPPING_WINDOW + PATIENCE, "BatonFlapping fires", || {
        let deleted = case.note("deleting the leader");
        case.kubectl(&["delete", "pod", &leader.pod, "--wait=false"]);
        let new = case.successor(&leader, deleted, PATIENCE);
        prometheus.wait_for_leader(&new.pod, &leader.pod);
        leader = new;
        prometheus.fires("BatonFlapping")
    });

    case.note("revoking the rights");
    case.kubectl(&["delete", "rolebinding", &case.election]);
    prometheus.wait_for_alert("BatonNoLeader", true);
    let account = format!("--serviceaccount={}:shop", case.namespace);
    let role = format!("--role={}", case.election);
    let granted = case.note("granting the rights again");
    case.kubectl(&["create", "rolebinding", &case.election, &role, &account]);
    prometheus.wait_for_alert("BatonNoLeader", false);
    case.successor(&leader, granted, PATIENCE);

    case.note("starting a leader of the same election in another store");
    case.apply(&stranger(&case.election));
    prometheus.wait_for_alert("BatonSeveralLeaders", true);
    case.kubectl(&["delete", "pod", "stranger", "--grace-period=1"]);
    prometheus.wait_for_alert("BatonSeveralLeaders", false);

    case.note("removing all candidates, with a dead holder in the Lease");
    case.kubectl(&["scale", "deployment/shop", "--replicas=0"]);
    case.wait_for_pods(SHOP, 0);
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
    eventually(FLAPPING_WINDOW + PATIENCE, "BatonFlapping clears", || {
        !prometheus.fires("BatonFlapping")
    });
    assert_eq!(prometheus.empty_panels(), [""; 0], "these panels never showed data");
}

/// Values with shorter intervals than the chart's, which are minutes.
fn short_intervals() -> Value {
    json!({
        "podMonitor": { "interval": "1s" },
        "prometheusRule": {
            "for": { "BatonLeaseStale": "5s", "BatonNoLeader": "5s", "BatonSeveralLeaders": "5s" },
            "window": { "BatonFlapping": format!("{FLAPPING_WINDOW:?}") },
        },
    })
}

/// A Pod whose sidecar leads the election in a store of its own. It answers at another port, so
/// that the witness does not record its answers.
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
        "securityContext": { "fsGroup": 40404 },
        "volumes": [{ "name": "store", "emptyDir": {} }],
    });
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "stranger" }, "spec": spec })
}
