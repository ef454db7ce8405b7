//! A node that is paused with everything on it.

use super::recover;
use crate::rig::{Case, SHOP, TIMING};
use serde_json::json;

#[test]
fn frozen_node_is_succeeded_and_its_application_restarts() {
    let case = Case::new("standstill");
    let old = case.install(json!({ "args": ["--ask-once"] }));
    let node = case.node(&old.pod);
    let frozen = case.note(&format!("freezing {}", node.name));
    let outage = node.freeze();
    case.must_not_lead(&old, frozen + TIMING.renew_deadline, "its renew deadline had passed");
    let new = case.takeover(&old, frozen);
    case.wait_for_log(&new.pod, "application", 0, r#""state":"working""#);

    case.note("thawing the node");
    drop(outage);
    case.wait_for_run(&old.pod, "application", 1);
    // From now on, to skip the last answers of the old sidecar.
    case.wait_for_follower(&old.pod, case.now());
    case.wait_for_log(&old.pod, "baton", 1, r#""code":75"#);
    recover(&case);
    case.wait_for_pods(SHOP, 3);
    assert_eq!(case.leader().identity, new.identity);
    assert_eq!(case.terms(), 2);
    // The application never asks again, so it may have written with its old token before the
    // restart.
    assert_eq!(case.ledger("ledger").conflicts, 0);
}
