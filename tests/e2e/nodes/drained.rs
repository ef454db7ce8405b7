//! A node that is emptied for its upgrade.

use super::recover;
use crate::rig::{Case, NOISE, PATIENCE, SHOP, TIMING};
use serde_json::json;

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
