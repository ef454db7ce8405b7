//! A node that nobody reaches, while all that is on it runs on.

use super::recover;
use crate::rig::{Case, SHOP, TIMING, throughout};
use serde_json::json;

#[test]
fn a_leader_whose_node_is_cut_off_stops_in_time_and_follows_when_it_is_back() {
    let case = Case::new("partitioned");
    let old = case.install(json!({ "args": ["--ask-once"] }));
    let node = case.node(&old.pod);
    let cut = case.note(&format!("{} is cut off", node.name));
    let outage = node.cut_off();
    case.must_be_silent(&old, cut + TIMING.renew_deadline, "its deadline had passed");
    let new = case.takeover(&old, cut);
    case.wait_for_run(&old.pod, "application", 1);
    case.wait_for_log(&old.pod, "baton", 1, r#""code":75"#);

    let healed = case.note("it is joined again");
    drop(outage);
    case.follows(&old.pod, healed);
    recover(&case);
    case.settle(SHOP, 3);
    throughout(TIMING.renew_deadline, "there is one leader", || case.terms() == 2);
    assert_eq!(case.leader().identity, new.identity);
    case.assert_books_are_clean();
}
