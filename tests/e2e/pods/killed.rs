//! Containers that are killed one by one.

use crate::rig::{Case, QUICK};
use serde_json::json;

#[test]
fn a_killed_sidecar_that_led_has_its_application_restarted_and_another_leads() {
    let case = Case::new("sidecar-killed", QUICK);
    let old = case.install(json!({}));
    let killed = case.note("the leader's sidecar is killed");
    case.node(&old.pod).signal("kill", &old.pod, "baton");
    case.takeover(&old, killed);
    case.runs(&old.pod, "application", 1);
    case.settle(3);
    let books = case.ledger("ledger");
    assert_eq!((books.refused, books.conflicts), (0, 0), "{books:?}");
}
