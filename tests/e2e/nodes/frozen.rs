//! A node that stands still with all that is on it, and goes on as if no time had passed.

use super::recover;
use crate::rig::{Case, SHOP, TIMING};
use serde_json::json;

#[test]
fn a_leader_whose_node_is_frozen_is_succeeded_in_time_and_has_its_application_restarted() {
    let case = Case::new("standstill");
    let old = case.install(json!({ "args": ["--ask-once"] }));
    let node = case.node(&old.pod);
    let frozen = case.note(&format!("{} is frozen, and nothing on it notices", node.name));
    let outage = node.freeze();
    case.must_be_silent(&old, frozen + TIMING.renew_deadline, "its deadline had passed");
    let new = case.takeover(&old, frozen);
    case.wait_for_log(&new.pod, "application", 0, r#""state":"working""#);

    case.note("it goes on");
    drop(outage);
    case.wait_for_run(&old.pod, "application", 1);
    // Not what the dying one may still have said.
    case.follows(&old.pod, case.now());
    case.wait_for_log(&old.pod, "baton", 1, r#""code":75"#);
    recover(&case);
    case.settle(SHOP, 3);
    assert_eq!(case.leader().identity, new.identity);
    assert_eq!(case.terms(), 2);
    // Its application, which does not ask again, may have come with its old token before it was restarted.
    assert_eq!(case.ledger("ledger").conflicts, 0);
}
