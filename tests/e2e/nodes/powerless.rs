//! A node whose power is gone, and comes back.

use super::recover;
use crate::rig::{Case, SHOP};
use serde_json::json;

#[test]
fn a_leader_whose_node_loses_power_is_succeeded_in_time_and_follows_when_it_is_back() {
    let case = Case::new("powerless");
    let old = case.install(json!({}));
    let node = case.node(&old.pod);
    let off = case.note(&format!("{} is switched off", node.name));
    let outage = node.switch_off();
    let new = case.takeover(&old, off);

    let on = case.note("it is switched on again");
    drop(outage);
    case.follows(&old.pod, on);
    recover(&case);
    case.settle(SHOP, 3);
    assert_eq!(case.leader().identity, new.identity);
    assert_eq!(case.terms(), 2);
    case.assert_books_are_clean();
}
