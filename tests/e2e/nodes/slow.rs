//! An API server that answers late, but in time: nobody loses leadership, and a person hears of it.

use super::recover;
use crate::rig::{Case, PATIENCE, Prometheus, SHOP, eventually};
use serde_json::{Value, json};
use std::thread;
use std::time::Duration;

/// How long the API server stands still: longer than the alert allows a renewal, and shorter than a try may take.
const STILL: Duration = Duration::from_millis(1500);

#[test]
fn renewals_that_take_longer_than_a_second_are_told_and_nobody_loses_leadership() {
    let case = Case::new("slow-server");
    let leader = case.install(json!({}));
    let prometheus = Prometheus::begin(&case, hurried());
    prometheus.wait_for_leader(&leader.pod, "");
    let control_plane = case.cluster.control_plane();
    case.note("the API server stands still again and again");
    // How often is the renewals' to say: one of them has to meet it.
    eventually(PATIENCE, "renewals are told to be slow", || {
        let outage =
            control_plane.outage("pkill -STOP kube-apiserver", "pkill -CONT kube-apiserver");
        thread::sleep(STILL);
        drop(outage);
        // So long a renewal comes by.
        thread::sleep(STILL);
        prometheus.fires("BatonRenewalsSlow")
    });
    case.note("it does not any more");
    prometheus.wait_for_alert("BatonRenewalsSlow", false);
    assert_eq!(case.leader().identity, leader.identity);
    assert!(case.pods(SHOP).iter().all(|pod| pod.restarts("baton") == 0));
    case.assert_books_are_clean();
    recover(&case);
}

/// The chart's values for a case that cannot wait for minutes.
fn hurried() -> Value {
    let rule =
        json!({ "for": { "BatonRenewalsSlow": "1s" }, "window": { "BatonRenewalsSlow": "20s" } });
    json!({ "podMonitor": { "interval": "1s" }, "prometheusRule": rule })
}
