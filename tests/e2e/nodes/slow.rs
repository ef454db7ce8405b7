//! An API server that is slow, but not too slow to renew.

use super::recover;
use crate::rig::{Case, PATIENCE, Prometheus, SHOP, eventually};
use serde_json::{Value, json};
use std::thread;
use std::time::Duration;

/// How long the API server stalls: longer than the alert's threshold, and shorter than the timeout
/// of a try.
const STALL: Duration = Duration::from_millis(1500);

#[test]
fn slow_renewals_fire_an_alert_but_leadership_stays() {
    let case = Case::new("slow-server");
    let leader = case.install(json!({}));
    let prometheus = Prometheus::begin(&case, short_intervals());
    prometheus.wait_for_leader(&leader.pod, "");
    let control_plane = case.cluster.control_plane();
    case.note("stalling the API server repeatedly");
    // Until a renewal falls into a stall.
    eventually(PATIENCE, "BatonRenewalsSlow fires", || {
        let outage =
            control_plane.outage("pkill -STOP kube-apiserver", "pkill -CONT kube-apiserver");
        thread::sleep(STALL);
        drop(outage);
        // Lets the next renewal pass.
        thread::sleep(STALL);
        prometheus.fires("BatonRenewalsSlow")
    });
    case.note("stalling no more");
    prometheus.wait_for_alert("BatonRenewalsSlow", false);
    assert_eq!(case.leader().identity, leader.identity);
    assert!(case.pods(SHOP).iter().all(|pod| pod.restarts("baton") == 0));
    case.assert_ledger_is_clean();
    recover(&case);
}

/// Values with shorter intervals than the chart's, which are minutes.
fn short_intervals() -> Value {
    let rule =
        json!({ "for": { "BatonRenewalsSlow": "1s" }, "window": { "BatonRenewalsSlow": "20s" } });
    json!({ "podMonitor": { "interval": "1s" }, "prometheusRule": rule })
}
