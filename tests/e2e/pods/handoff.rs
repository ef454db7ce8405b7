//! Handoffs: deletion, a rolling update, and scaling.

use crate::rig::{Case, NOISE, PATIENCE, SHOP, TIMING};
use serde_json::json;

#[test]
fn deleted_leader_hands_over_when_its_last_promise_expires() {
    let case = Case::new("deleted");
    case.install(json!({}));
    delete_the_leader(&case);
}

pub(super) fn delete_the_leader(case: &Case) {
    let old = case.leader();
    let deleted = case.note("deleting the leader");
    case.kubectl(&["delete", "pod", &old.pod, "--wait=false"]);
    let new = case.successor(&old, deleted, PATIENCE);
    assert_ne!(new.pod, old.pod);
    case.assert_gaps_within(TIMING.answer_validity + NOISE);
    case.wait_for_pods(SHOP, 3);
    case.assert_ledger_is_clean();
}

#[test]
fn rolling_update_hands_over_from_pod_to_pod() {
    let case = Case::new("rolled");
    case.install(json!({}));
    restart_the_deployment(&case);
}

pub(super) fn restart_the_deployment(case: &Case) {
    let before = case.leader();
    case.note("restarting the Deployment");
    case.kubectl(&["rollout", "restart", "deployment/shop"]);
    case.kubectl(&["rollout", "status", "deployment/shop", "--timeout=120s"]);
    case.wait_for_pods(SHOP, 3);
    let after = case.leader();
    assert_ne!(before.pod, after.pod);
    case.assert_gaps_within(TIMING.answer_validity + NOISE);
    case.assert_ledger_is_clean();
}

#[test]
fn scaling_down_and_up_leaves_one_leader() {
    let case = Case::new("scaled");
    case.install(json!({}));
    scale(&case);
}

/// Scales from three replicas to one, and from one to five.
pub(super) fn scale(case: &Case) {
    let old = case.leader();
    case.note("scaling down, with the leader first");
    case.kubectl(&["annotate", "pod", &old.pod, "controller.kubernetes.io/pod-deletion-cost=-1"]);
    case.kubectl(&["scale", "deployment/shop", "--replicas=1"]);
    case.wait_for_pods(SHOP, 1);
    let only = case.leader();
    assert_ne!(only.pod, old.pod);
    let terms = case.terms();
    case.kubectl(&["scale", "deployment/shop", "--replicas=5"]);
    case.wait_for_pods(SHOP, 5);
    assert_eq!(case.leader().identity, only.identity, "a new candidate took leadership");
    assert_eq!(case.terms(), terms);
    case.assert_gaps_within(TIMING.answer_validity + NOISE);
    case.assert_ledger_is_clean();
}
