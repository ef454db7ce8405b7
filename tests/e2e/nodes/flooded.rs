//! A flood of list requests at the API server, from the candidates' own service account. This is
//! the worst source, since the server isolates accounts from each other but not requests of one
//! account.

mod queue;

use super::recover;
use crate::rig::{CHART, Case, NOISE, Outage, Release, SHOP, TIMING, throughout};
use queue::Queue;
use serde_json::json;
use std::thread;
use std::time::Duration;

/// The length of a flood: long enough for a leader that cannot renew to be succeeded.
const FLOOD_SPAN: Duration = TIMING.lease_duration.saturating_add(NOISE);
/// `ConfigMap`s per list. The server runs fewer large lists at once than small ones.
const CONFIG_MAPS: usize = 30;
/// The least average number of waiting lists. With fewer, renewals would not wait behind them.
const MIN_WAITING_LISTS: f64 = 20.0;

#[test]
fn renewals_with_their_own_queue_survive_a_flood() {
    let case = Case::new("flooded");
    // The platform's chart provides the rights and the queue.
    let values = |queue: bool| {
        let elections = json!({ case.election.as_str(): { "serviceAccountName": "shop" } });
        json!({ "elections": elections, "flowSchema": { "enabled": queue } })
    };
    let release = Release::install(&case, &case.namespace, CHART, &values(true));
    let leader = case.install(json!({ "rights": false }));
    make_lists_heavy(&case);

    let [lists, renewals] = [Queue::of_accounts(&case), Queue::of_release(&case)];
    let flood = flood(&case);
    throughout(FLOOD_SPAN, "the leader stays the same", || case.terms() == 1);
    assert_eq!(case.leader().identity, leader.identity);
    let [waiting_lists, waiting_renewals] = [lists.waiting(), renewals.waiting()];
    drop(flood);
    case.note(&format!(
        "the flood ended: {waiting_lists:.0} lists and {waiting_renewals:.2} renewals were waiting"
    ));
    assert!(waiting_lists >= MIN_WAITING_LISTS, "too few lists were waiting");
    assert!(renewals.served() > 0.0, "renewals did not use their own queue");
    case.assert_ledger_is_clean();

    // Without the queue the outcome depends on the server. The case reports it, and checks only
    // mutual exclusion.
    release.upgrade(&values(false));
    let lists = Queue::of_accounts(&case);
    let flood = self::flood(&case);
    thread::sleep(FLOOD_SPAN);
    let waiting_lists = lists.waiting();
    drop(flood);
    let restarts: u64 = case.pods(SHOP).iter().map(|pod| pod.restarts("baton")).sum();
    case.note(&format!(
        "without their own queue sidecars restarted {restarts} times; {waiting_lists:.0} lists were waiting"
    ));
    assert!(waiting_lists >= MIN_WAITING_LISTS, "too few lists were waiting");
    release.uninstall();
    recover(&case);
}

/// Creates large `ConfigMap`s, and allows the shop's account to list them.
fn make_lists_heavy(case: &Case) {
    let text = "x".repeat(20_000);
    let object = |number: usize| {
        let metadata = json!({ "name": format!("ballast-{number}") });
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { "text": text } })
    };
    let items: Vec<_> = (0..CONFIG_MAPS).map(object).collect();
    case.apply(&json!({ "apiVersion": "v1", "kind": "List", "items": items }));
    case.kubectl(&["create", "role", "lister", "--verb=list", "--resource=configmaps"]);
    let account = format!("--serviceaccount={}:shop", case.namespace);
    case.kubectl(&["create", "rolebinding", "lister", "--role=lister", &account]);
}

/// Keeps six hundred lists in flight until the result is dropped. They share a few connections, to
/// fill the server's queues and not its CPUs.
fn flood(case: &Case) -> Outage {
    let token = case.kubectl(&["create", "token", "shop"]);
    let (token, namespace) = (token.trim(), &case.namespace);
    let curl = format!(
        "curl --silent --insecure --http2 --parallel --parallel-max 100 --oauth2-bearer {token} --output /dev/null \
         'https://127.0.0.1:6443/api/v1/namespaces/{namespace}/configmaps?number=[1-1000000]'"
    );
    let pids = format!("/run/{namespace}.pids");
    case.note("starting the flood");
    case.cluster.control_plane().outage(
        &format!(
            "for n in 1 2 3 4 5 6; do setsid {curl} > /dev/null 2>&1 & echo $! >> {pids}; done"
        ),
        &format!("kill $(cat {pids}); rm {pids}"),
    )
}
