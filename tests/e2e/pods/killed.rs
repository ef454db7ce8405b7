//! Single containers that end while their Pod continues.

use crate::rig::{Case, PATIENCE, SHOP, TIMING, variable};
use serde_json::json;

#[test]
fn killed_leader_sidecar_restarts_its_application() {
    let case = Case::new("sidecar-killed");
    let old = case.install(json!({}));
    let killed = case.note("killing the leader's sidecar");
    case.node(&old.pod).signal("kill", &old.pod, "baton");
    case.takeover(&old, killed);
    case.wait_for_run(&old.pod, "application", 1);
    case.wait_for_pods(SHOP, 3);
    case.assert_ledger_is_clean();
}

/// The next run of the sidecar, in the same Pod, proves that the previous run has ended.
#[test]
fn killed_sidecar_of_an_application_that_asks_releases_at_once() {
    let case = Case::new("sidecar-ended");
    let old = case.install(json!({ "baton": { "config": { "requirePolling": "10s" } } }));
    let killed = case.note("killing the leader's sidecar");
    case.node(&old.pod).signal("kill", &old.pod, "baton");
    case.successor(&old, killed, TIMING.lease_duration);
    case.wait_for_event("released_for_ended_run", &old.pod);
    case.wait_for_pods(SHOP, 3);
    case.assert_ledger_is_clean();
}

#[test]
fn killed_application_restarts_and_leadership_stays() {
    let case = Case::new("application-killed");
    let leader = case.install(json!({}));
    case.note("killing the leader's application");
    case.node(&leader.pod).signal("kill", &leader.pod, "ledger");
    case.wait_for_log(&leader.pod, "application", 1, r#""state":"working""#);
    assert_eq!(case.leader().identity, leader.identity);
    assert_eq!(case.terms(), 1);
    assert_eq!(case.pod(&leader.pod).restarts("baton"), 0);
    case.assert_ledger_is_clean();
}

/// kubelet replaces only the sidecar's container, which stops cleanly. The application relies on a
/// restart when leadership is lost, so the new sidecar exits once to cause it.
#[test]
fn patched_sidecar_image_restarts_the_application() {
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
    let at = case.note("patching the image of the leader's sidecar");
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
    case.wait_for_pods(SHOP, 3);
    assert_eq!(case.ledger("ledger").conflicts, 0);
}
