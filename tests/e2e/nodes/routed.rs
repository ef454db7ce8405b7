//! A client of the Service that routes only to the leader, while faults affect leaders.

use super::recover;
use crate::rig::{Case, Leader, Moment, NOISE, Node, Outage, SHOP, Visitor};
use serde_json::json;

/// The port of the Service. Its target is the sidecar's metrics port, which says whether the
/// candidate leads.
const PORT: u16 = 80;

#[test]
fn service_leads_to_the_next_leader_after_each_fault() {
    let case = Case::new("routed");
    let old = case.install(json!({ "baton": { "service": { "port": PORT, "targetPort": 4041 } } }));
    let visitor = case.visit(&case.election, PORT);
    visitor.wait_for_leader(case.now());
    visitor.must_reach_leaders("without a fault");

    let deleted = case.note("deleting the leader");
    case.kubectl(&["delete", "pod", &old.pod, "--wait=false"]);
    let new = case.successor(&old, deleted, NOISE * 2);
    must_follow(&case, &visitor, &new, deleted, "deletion");
    case.wait_for_pods(SHOP, 3);

    let new = outage(&case, &visitor, &new, "partition", Node::cut_off);
    let new = outage(&case, &visitor, &new, "power loss", Node::switch_off);
    outage(&case, &visitor, &new, "freeze", Node::freeze);
}

/// Injects a fault into the leader's node, and ends it once a successor leads. Returns the
/// successor.
fn outage(
    case: &Case,
    visitor: &Visitor<'_>,
    old: &Leader,
    what: &str,
    inject: impl FnOnce(&Node) -> Outage,
) -> Leader {
    let began = case.note(&format!("{what} of the leader's node"));
    let outage = inject(case.node(&old.pod));
    let new = case.takeover(old, began);
    must_follow(case, visitor, &new, began, what);
    let ended = case.note(&format!("end of the {what}"));
    drop(outage);
    case.wait_for_follower(&old.pod, ended);
    visitor.must_reach_leaders(&format!("after the {what}"));
    recover(case);
    case.wait_for_pods(SHOP, 3);
    new
}

/// Waits until the Service routes to `new`: its sidecar writes the slice, and kube-proxy applies
/// it. Panics if that takes longer than [`NOISE`].
fn must_follow(case: &Case, visitor: &Visitor<'_>, new: &Leader, began: Moment, fault: &str) {
    let led = new.answered_at;
    let reached = visitor.wait_for_leader(led);
    let written = case.wait_for_published(&new.pod, began);
    let [write, proxy] = [written.since(led), reached.since(written)];
    case.note(&format!(
        "{fault}: led, wrote the slice after {write:?}, was reached after {proxy:?}"
    ));
    assert!(reached.since(led) <= NOISE, "{fault}: it took {:?}", reached.since(led));
    visitor.must_reach_leaders(&format!("with the successor after the {fault}"));
    visitor.note_misses(began, &format!("since the {fault}"));
}
