//! A program that floods the API server with lists, under the very account of the candidates: of all neighbours the worst, since
//! the server gives each account its share, and here both have one.

mod queue;

use super::recover;
use crate::rig::{CHART, Case, NOISE, Outage, Release, SHOP, TIMING, throughout};
use queue::Queue;
use serde_json::json;
use std::thread;
use std::time::Duration;

/// How long it goes on: whoever cannot renew loses leadership meanwhile, and another leads.
const SPAN: Duration = TIMING.lease_duration.saturating_add(NOISE);
/// How many `ConfigMap`s a list is of. The more, the fewer lists at once: the server allots its seats so.
const LISTED: usize = 30;
/// How many lists are to be waiting at the server at any moment, on average: were there fewer, nobody would wait behind them.
const MANY: f64 = 20.0;

#[test]
fn a_flood_costs_nobody_leadership_where_renewals_have_a_queue_of_their_own() {
    let case = Case::new("flooded");
    // The rights come from the platform's chart, as the queue does.
    let values = |queue: bool| {
        let elections = json!({ case.election.as_str(): { "serviceAccountName": "shop" } });
        json!({ "elections": elections, "flowSchema": { "enabled": queue } })
    };
    let release = Release::install(&case, &case.namespace, CHART, &values(true));
    let leader = case.install(json!({ "rights": false }));
    make_lists_heavy(&case);

    let [lists, renewals] = [Queue::of_accounts(&case), Queue::of_release(&case)];
    let flood = flood(&case);
    throughout(SPAN, "nobody else leads", || case.terms() == 1);
    assert_eq!(case.leader().identity, leader.identity);
    let [waiting, waiting_here] = [lists.waiting(), renewals.waiting()];
    drop(flood);
    case.note(&format!(
        "it is over: {waiting:.0} of its lists were waiting, and {waiting_here:.2} renewals"
    ));
    assert!(waiting >= MANY, "that was no flood");
    assert!(renewals.served() > 0.0, "renewals had no queue of their own");
    case.assert_books_are_clean();

    // What happens then is the server's to decide: it is told, and judged by nothing but that no two lead.
    release.upgrade(&values(false));
    let lists = Queue::of_accounts(&case);
    let flood = self::flood(&case);
    thread::sleep(SPAN);
    let waiting = lists.waiting();
    drop(flood);
    let ends: u64 = case.pods(SHOP).iter().map(|pod| pod.restarts("baton")).sum();
    case.note(&format!(
        "without a queue of their own sidecars ended {ends} times, while {waiting:.0} lists were waiting"
    ));
    assert!(waiting >= MANY, "that was no flood");
    release.uninstall();
    recover(&case);
}

/// Gives the namespace what is long to list, and the shop's account the right to.
fn make_lists_heavy(case: &Case) {
    let text = "x".repeat(20_000);
    let object = |number: usize| {
        let metadata = json!({ "name": format!("ballast-{number}") });
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { "text": text } })
    };
    let items: Vec<_> = (0..LISTED).map(object).collect();
    case.apply(&json!({ "apiVersion": "v1", "kind": "List", "items": items }));
    case.kubectl(&["create", "role", "lister", "--verb=list", "--resource=configmaps"]);
    let account = format!("--serviceaccount={}:shop", case.namespace);
    case.kubectl(&["create", "rolebinding", "lister", "--role=lister", &account]);
}

/// Six hundred lists at any time, until this is dropped. Few connections carry them: it is the server's queues that are to
/// be full, and not its processors.
fn flood(case: &Case) -> Outage {
    let token = case.kubectl(&["create", "token", "shop"]);
    let (token, namespace) = (token.trim(), &case.namespace);
    let curl = format!(
        "curl --silent --insecure --http2 --parallel --parallel-max 100 --oauth2-bearer {token} --output /dev/null \
         'https://127.0.0.1:6443/api/v1/namespaces/{namespace}/configmaps?number=[1-1000000]'"
    );
    let pids = format!("/run/{namespace}.pids");
    case.note("the flood begins");
    case.cluster.control_plane().outage(
        &format!(
            "for n in 1 2 3 4 5 6; do setsid {curl} > /dev/null 2>&1 & echo $! >> {pids}; done"
        ),
        &format!("kill $(cat {pids}); rm {pids}"),
    )
}
