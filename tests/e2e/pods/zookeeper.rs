//! The first cases again, where an ensemble of ZooKeeper in the cluster holds the election.

use super::handoff::{delete_the_leader, restart_the_deployment, scale};
use super::install::{install_the_demo, try_the_demo_and_remove_it};
use crate::rig::{Case, Ensemble, Prometheus, SHOP, unique};
use serde_json::json;

/// Servers on two busy cores were seen to need ten seconds until they have a leader again, which is as long as a claim at the
/// default durations lasts. These are the longest that servers grant by theirs, and hand over as soon.
const LONG: [(&str, &str); 3] =
    [("leaseDuration", "40s"), ("renewDeadline", "30s"), ("retryPeriod", "2s")];

#[test]
fn the_demo_elects_over_servers_that_want_certificates_and_users() {
    let release = unique("baton-zk");
    let case = Case::of_election(release.clone(), format!("{release}-demo"));
    let ensemble = Ensemble::secured(&case);
    let notes = install_the_demo(&case, &release, ensemble.values());
    ensemble.assert_refuses_a_stranger();
    try_the_demo_and_remove_it(&case, &release, &notes);
    ensemble.remove();
    case.assert_nothing_is_left();
}

#[test]
fn leadership_is_handed_over_and_outlives_a_restart_of_all_servers() {
    let case = Case::new("zookeeper");
    let ensemble = Ensemble::open(&case);
    let mut sidecar = ensemble.values();
    sidecar["config"] = LONG.into_iter().collect();
    let first = case.install(json!({ "automountServiceAccountToken": false, "baton": sidecar }));
    ensemble.restart();
    assert_eq!((case.leader().identity, case.terms()), (first.identity, 1), "nobody else has led");
    delete_the_leader(&case);
    restart_the_deployment(&case);
    scale(&case);
    hear_of_an_outage(&case);
}

/// Whoever reaches no server leads no more, and of that a person hears as over Leases.
fn hear_of_an_outage(case: &Case) {
    case.kubectl(&["scale", "deployment/shop", "--replicas=3"]);
    case.settle(SHOP, 3);
    let hurried = json!({ "podMonitor": { "interval": "1s" }, "prometheusRule": { "for": { "BatonNoLeader": "5s" } } });
    let prometheus = Prometheus::begin(case, hurried);
    prometheus.wait_for_leader(&case.leader().pod, "");
    case.note("nobody reaches the servers");
    // They are on this node, and no other case has any behind that port.
    let refuse = |change| {
        format!("iptables {change} FORWARD --protocol tcp --destination-port 2181 --jump DROP")
    };
    let outage = case.cluster.control_plane().outage(&refuse("--insert"), &refuse("--delete"));
    prometheus.wait_for_alert("BatonNoLeader", true);
    case.note("they are reached again");
    drop(outage);
    prometheus.wait_for_alert("BatonNoLeader", false);
    case.assert_books_are_clean();
}
