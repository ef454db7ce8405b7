//! The demo and the handoffs with a ZooKeeper ensemble in the cluster as the store.

use super::handoff::{delete_the_leader, restart_the_deployment, scale};
use super::install::{install_the_demo, try_the_demo_and_remove_it};
use crate::rig::{Case, Ensemble, Prometheus, SHOP, unique};
use serde_json::json;

/// The longest durations that servers grant with their defaults. On two busy cores the servers
/// needed ten seconds to elect a new leader, which is as long as a claim at the default durations.
/// A handoff takes no longer.
const LONG_DURATIONS: [(&str, &str); 3] =
    [("leaseDuration", "40s"), ("renewDeadline", "30s"), ("retryPeriod", "2s")];

#[test]
fn demo_elects_over_secured_zookeeper_servers() {
    let release = unique("baton-zk");
    let case = Case::with_election(release.clone(), format!("{release}-demo"));
    let ensemble = Ensemble::secured(&case);
    let notes = install_the_demo(&case, &release, ensemble.values());
    ensemble.assert_refuses_a_stranger();
    try_the_demo_and_remove_it(&case, &release, &notes);
    ensemble.remove();
    case.assert_namespace_is_empty();
}

#[test]
fn leadership_survives_a_restart_of_all_zookeeper_servers() {
    let case = Case::new("zookeeper");
    let ensemble = Ensemble::open(&case);
    let mut sidecar = ensemble.values();
    sidecar["config"] = LONG_DURATIONS.into_iter().collect();
    let first = case.install(json!({ "automountServiceAccountToken": false, "baton": sidecar }));
    ensemble.restart();
    assert_eq!((case.leader().identity, case.terms()), (first.identity, 1), "the leader changed");
    delete_the_leader(&case);
    restart_the_deployment(&case);
    scale(&case);
    assert_outage_fires_an_alert(&case);
}

/// A leader without a server loses leadership, and `BatonNoLeader` fires as with Leases.
fn assert_outage_fires_an_alert(case: &Case) {
    case.kubectl(&["scale", "deployment/shop", "--replicas=3"]);
    case.wait_for_pods(SHOP, 3);
    let short_intervals = json!({ "podMonitor": { "interval": "1s" }, "prometheusRule": { "for": { "BatonNoLeader": "5s" } } });
    let prometheus = Prometheus::begin(case, short_intervals);
    prometheus.wait_for_leader(&case.leader().pod, "");
    case.note("blocking the servers' port");
    // The servers are on this node, and no other case uses this port.
    let refuse = |change| {
        format!("iptables {change} FORWARD --protocol tcp --destination-port 2181 --jump DROP")
    };
    let outage = case.cluster.control_plane().outage(&refuse("--insert"), &refuse("--delete"));
    prometheus.wait_for_alert("BatonNoLeader", true);
    case.note("opening the port again");
    drop(outage);
    prometheus.wait_for_alert("BatonNoLeader", false);
    case.assert_ledger_is_clean();
}
