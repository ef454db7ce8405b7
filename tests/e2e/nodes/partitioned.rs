//! A node without a network.

use super::recover;
use crate::rig::{Case, SHOP, TIMING, throughout};
use serde_json::json;

#[test]
fn partitioned_leader_stops_in_time_and_then_follows() {
    let case = Case::new("partitioned");
    let old = case.install(json!({ "args": ["--ask-once"] }));
    let node = case.node(&old.pod);
    let cut = case.note(&format!("partitioning {}", node.name));
    let outage = node.cut_off();
    case.must_not_lead(&old, cut + TIMING.renew_deadline, "its renew deadline had passed");
    let new = case.takeover(&old, cut);
    case.wait_for_run(&old.pod, "application", 1);
    case.wait_for_log(&old.pod, "baton", 1, r#""code":75"#);

    let healed = case.note("healing the partition");
    drop(outage);
    case.wait_for_follower(&old.pod, healed);
    recover(&case);
    case.wait_for_pods(SHOP, 3);
    throughout(TIMING.renew_deadline, "there is one leader", || case.terms() == 2);
    assert_eq!(case.leader().identity, new.identity);
    case.assert_ledger_is_clean();
}
