//! A node that loses power.

use super::recover;
use crate::rig::{Case, SHOP};
use serde_json::json;

#[test]
fn unpowered_leader_is_succeeded_in_time_and_then_follows() {
    let case = Case::new("powerless");
    let old = case.install(json!({}));
    let node = case.node(&old.pod);
    let off = case.note(&format!("switching {} off", node.name));
    let outage = node.switch_off();
    let new = case.takeover(&old, off);

    let on = case.note("switching the node on");
    drop(outage);
    case.wait_for_follower(&old.pod, on);
    recover(&case);
    case.wait_for_pods(SHOP, 3);
    assert_eq!(case.leader().identity, new.identity);
    assert_eq!(case.terms(), 2);
    case.assert_ledger_is_clean();
}
