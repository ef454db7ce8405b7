//! Containers that end one by one, in a Pod that lives on.

use crate::rig::{Case, PATIENCE, SHOP, variable};
use serde_json::json;

#[test]
fn a_killed_sidecar_that_led_has_its_application_restarted_and_another_leads() {
    let case = Case::new("sidecar-killed");
    let old = case.install(json!({}));
    let killed = case.note("the leader's sidecar is killed");
    case.node(&old.pod).signal("kill", &old.pod, "baton");
    case.takeover(&old, killed);
    case.wait_for_run(&old.pod, "application", 1);
    case.settle(SHOP, 3);
    case.assert_books_are_clean();
}

#[test]
fn a_killed_application_is_restarted_and_leadership_stays() {
    let case = Case::new("application-killed");
    let leader = case.install(json!({}));
    case.note("the leader's application is killed");
    case.node(&leader.pod).signal("kill", &leader.pod, "ledger");
    case.wait_for_log(&leader.pod, "application", 1, r#""state":"working""#);
    assert_eq!(case.leader().identity, leader.identity);
    assert_eq!(case.terms(), 1);
    assert_eq!(case.pod(&leader.pod).restarts("baton"), 0);
    case.assert_books_are_clean();
}

/// kubelet then replaces the sidecar's container alone: it stops cleanly, and its application, which relies on being
/// restarted when leadership goes, would go on.
#[test]
fn a_sidecar_whose_image_is_patched_has_its_application_restarted() {
    let case = Case::new("patched");
    let old = case.install(json!({ "args": ["--ask-once"] }));
    let patched = "localhost/baton:patched";
    case.node(&old.pod).exec(&[
        "ctr",
        "--namespace",
        "k8s.io",
        "images",
        "tag",
        "--force",
        &variable("BATON_IMAGE"),
        patched,
    ]);
    let at = case.note("the image of the leader's sidecar is patched");
    let patch = json!({ "spec": { "initContainers": [{ "name": "baton", "image": patched }] } });
    case.kubectl(&["patch", "pod", &old.pod, "--patch", &patch.to_string()]);
    case.successor(&old, at, PATIENCE);
    case.wait_for_run(&old.pod, "application", 1);
    case.wait_for_log(
        &old.pod,
        "baton",
        1,
        "its application is still running: exiting once to restart it",
    );
    case.settle(SHOP, 3);
    assert_eq!(case.ledger("ledger").conflicts, 0);
}
