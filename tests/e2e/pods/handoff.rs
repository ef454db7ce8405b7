//! Leadership that is handed over: deletion, a rolling update, scaling.

use crate::rig::{Case, NOISE, QUICK};
use serde_json::json;

#[test]
fn a_deleted_leader_hands_over_as_soon_as_its_last_promise_has_run_out() {
    let case = Case::new("deleted", QUICK);
    let old = case.install(json!({}));
    let deleted = case.note("the leader is deleted");
    case.kubectl(&["delete", "pod", &old.pod, "--wait=false"]);
    let new = case.successor(&old, deleted, case.timing.answer_validity + 3 * NOISE);
    assert_ne!(new.pod, old.pod);
    case.settle(3);
    let books = case.ledger("ledger");
    assert_eq!((books.refused, books.conflicts), (0, 0), "{books:?}");
}
