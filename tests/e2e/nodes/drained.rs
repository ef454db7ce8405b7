//! Drains of a node.

use super::recover;
use crate::rig::{Case, NOISE, PATIENCE, SHOP, TIMING};
use serde_json::json;
use std::thread;

#[test]
fn drained_node_hands_leadership_over() {
    let case = Case::new("drained");
    let old = case.install(json!({}));
    let node = case.node(&old.pod);
    let start = case.note("draining the leader's node");
    let drained = case.drain(node);
    let new = case.successor(&old, start, PATIENCE);
    case.assert_gaps_within(TIMING.answer_validity + NOISE);
    case.wait_for_pods(SHOP, 3);
    assert!(case.pods(SHOP).iter().all(|pod| pod.node() != node.name));
    drop(drained);
    assert_ne!(case.node(&new.pod).name, node.name);
    case.assert_ledger_is_clean();
    recover(&case);
}

/// All three candidates are on one node. Without the budget the drain would evict them at once.
#[test]
fn budget_drains_one_candidate_at_a_time() {
    let case = Case::new("budget");
    let election = json!({ "serviceAccountName": "shop", "podLabels": { SHOP.0: SHOP.1 } });
    let values = json!({ "elections": { case.election.as_str(): election }, "podDisruptionBudget": { "enabled": true } });
    case.helm_with(&["install", &case.namespace, "charts/baton"], &values);
    let elsewhere = case.drain(case.cluster.workers().last().expect("the cluster has two workers"));
    let old = case.install(json!({ "rights": false }));
    drop(elsewhere);

    let node = case.node(&old.pod);
    let start = case.note("draining their node");
    let (drained, fewest) = thread::scope(|scope| {
        let drain = scope.spawn(|| case.drain(node));
        let mut fewest = usize::MAX;
        while !drain.is_finished() {
            let pods = case.pods(SHOP);
            let ready = pods.iter().filter(|pod| pod.is_ready() && !pod.is_terminating());
            fewest = fewest.min(ready.count());
        }
        (drain.join().expect("the drain does not panic"), fewest)
    });
    assert!(fewest >= 2, "only {fewest} of three candidates were ready during the drain");
    case.successor(&old, start, PATIENCE);
    case.wait_for_pods(SHOP, 3);
    assert!(case.pods(SHOP).iter().all(|pod| pod.node() != node.name));
    drop(drained);
    case.assert_gaps_within(TIMING.answer_validity + NOISE);
    case.assert_ledger_is_clean();
    recover(&case);
}
