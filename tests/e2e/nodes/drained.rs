//! A node that is emptied for its upgrade.

use super::recover;
use crate::rig::{Case, NOISE, PATIENCE, SHOP, TIMING};
use serde_json::json;
use std::thread;

#[test]
fn a_drained_node_hands_leadership_over() {
    let case = Case::new("drained");
    let old = case.install(json!({}));
    let node = case.node(&old.pod);
    let begun = case.note("the leader's node is drained");
    let drained = case.drain(node);
    let new = case.successor(&old, begun, PATIENCE);
    case.assert_gaps_within(TIMING.answer_validity + NOISE);
    case.settle(SHOP, 3);
    assert!(case.pods(SHOP).iter().all(|pod| pod.node() != node.name));
    drop(drained);
    assert_ne!(case.node(&new.pod).name, node.name);
    case.assert_books_are_clean();
    recover(&case);
}

/// All three are on one node, which would lose them at once.
#[test]
fn a_drain_takes_one_candidate_after_another_where_the_chart_has_a_budget_for_it() {
    let case = Case::new("budget");
    let election = json!({ "serviceAccountName": "shop", "podLabels": { SHOP.0: SHOP.1 } });
    let values = json!({ "elections": { case.election.as_str(): election }, "podDisruptionBudget": { "enabled": true } });
    case.helm_with(&["install", &case.namespace, "charts/baton"], &values);
    let elsewhere = case.drain(case.cluster.workers().last().expect("there are two"));
    let old = case.install(json!({ "rights": false }));
    drop(elsewhere);

    let node = case.node(&old.pod);
    let begun = case.note("their node is drained");
    let (drained, fewest) = thread::scope(|scope| {
        let drain = scope.spawn(|| case.drain(node));
        let mut fewest = usize::MAX;
        while !drain.is_finished() {
            let pods = case.pods(SHOP);
            fewest = fewest
                .min(pods.iter().filter(|pod| pod.is_ready() && !pod.is_terminating()).count());
        }
        (drain.join().expect("the node is drained"), fewest)
    });
    assert!(fewest >= 2, "while it was drained only {fewest} of three stood ready");
    case.successor(&old, begun, PATIENCE);
    case.settle(SHOP, 3);
    assert!(case.pods(SHOP).iter().all(|pod| pod.node() != node.name));
    drop(drained);
    case.assert_gaps_within(TIMING.answer_validity + NOISE);
    case.assert_books_are_clean();
    recover(&case);
}
