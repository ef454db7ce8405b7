//! A sidecar that is frozen for longer than its lease, with an application that keeps writing.

use crate::rig::{Case, SHOP, TIMING};
use serde_json::json;

#[test]
fn late_writes_beside_a_frozen_sidecar_are_refused() {
    let case = Case::new("frozen");
    let old = case.install(json!({ "args": ["--ask-once"] }));
    let node = case.node(&old.pod);
    let frozen = case.note("freezing the leader's sidecar; its application writes without asking");
    node.signal("stop", &old.pod, "baton");
    case.must_not_lead(&old, frozen + TIMING.renew_deadline, "its renew deadline had passed");
    let new = case.takeover(&old, frozen);
    case.wait_for_log(&new.pod, "application", 0, r#""state":"working""#);
    case.wait_for_log(&old.pod, "application", 0, r#""state":"refused""#);
    let report = case.ledger("ledger");
    assert!(
        report.refused > 0 && report.conflicts == 0,
        "the ledger took a late write: {report:?}"
    );

    case.note("thawing the sidecar");
    node.signal("cont", &old.pod, "baton");
    case.wait_for_run(&old.pod, "application", 1);
    // From now on, to skip the last answers of the old sidecar.
    case.wait_for_follower(&old.pod, case.now());
    case.wait_for_log(&old.pod, "baton", 1, r#""code":75"#);
    case.wait_for_pods(SHOP, 3);
    assert_eq!(case.leader().identity, new.identity);
    assert_eq!(case.terms(), 2);
}
