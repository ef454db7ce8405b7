//! A sidecar that stands still beyond its lease, beside an application that has not noticed.

use crate::rig::{Case, SHOP, TIMING};
use serde_json::json;

#[test]
fn a_frozen_leader_is_succeeded_in_time_its_late_writes_are_refused_and_its_application_is_restarted()
 {
    let case = Case::new("frozen");
    let old = case.install(json!({ "args": ["--ask-once"] }));
    let node = case.node(&old.pod);
    let frozen =
        case.note("the leader's sidecar is frozen, and its application writes on without asking");
    node.signal("stop", &old.pod, "baton");
    case.must_be_silent(&old, frozen + TIMING.renew_deadline, "its deadline had passed");
    let new = case.takeover(&old, frozen);
    case.wait_for_log(&new.pod, "application", 0, r#""state":"working""#);
    case.wait_for_log(&old.pod, "application", 0, r#""state":"refused""#);
    let books = case.ledger("ledger");
    assert!(books.refused > 0 && books.conflicts == 0, "the late write was refused: {books:?}");

    case.note("it is thawed");
    node.signal("cont", &old.pod, "baton");
    case.wait_for_run(&old.pod, "application", 1);
    // Not what the dying one may still have said.
    case.follows(&old.pod, case.now());
    case.wait_for_log(&old.pod, "baton", 1, r#""code":75"#);
    case.settle(SHOP, 3);
    assert_eq!(case.leader().identity, new.identity);
    assert_eq!(case.terms(), 2);
}
