//! `baton exec` with an application that knows nothing of Baton: a partition and a power loss of the
//! leader's node.

use super::recover;
use crate::rig::{Case, SHOP, TIMING, throughout};
use serde_json::json;

/// The command ignores SIGTERM, so only the guard's SIGKILL ends it. Its processes show on their
/// node that they live, since the ledger cannot see them any more.
#[test]
fn partitioned_command_is_killed_before_the_next_starts() {
    let case = Case::new("exec-partitioned");
    let old = case.install_unmodified(json!({ "unmodified": { "ignoresSigterm": true } }));
    let node = case.node(&old.pod);
    let cut = case.note(&format!("partitioning {}", node.name));
    let outage = node.cut_off();
    // From now on no renewal can be sent, so the claim ends before this.
    let deadline = case.now() + TIMING.renew_deadline;
    case.must_not_lead(&old, deadline, "its renew deadline had passed");
    let new = case.takeover(&old, cut);
    case.wait_for_command(&new.pod);

    let healed = case.note("healing the partition");
    drop(outage);
    case.wait_for_follower(&old.pod, healed);
    recover(&case);
    case.wait_for_pods(SHOP, 3);
    throughout(TIMING.renew_deadline, "there is one leader", || case.terms() == 2);
    assert_eq!(case.leader().identity, new.identity);
    let last = case.last_life_sign(&old.pod);
    case.note(&format!("the old command last ran {:?} after the partition", last.since(cut)));
    let [asked_to_stop, lost] =
        ["withdrawn", "lost"].map(|event| case.wait_for_event(event, &old.pod).0);
    assert!(asked_to_stop < last, "SIGTERM ended the old command at {last:?}");
    assert!(last < lost, "the old command ran at {last:?}, after its claim");
    assert_eq!(case.pod(&old.pod).restarts("application"), 0, "it follows in place");
    case.assert_one_writer_at_a_time(&[&old.pod, &new.pod]);
}

#[test]
fn unpowered_command_is_succeeded_and_its_pod_then_follows() {
    let case = Case::new("exec-powerless");
    let old = case.install_unmodified(json!({}));
    let node = case.node(&old.pod);
    let off = case.note(&format!("switching {} off", node.name));
    let outage = node.switch_off();
    let new = case.takeover(&old, off);
    case.wait_for_command(&new.pod);

    let on = case.note("switching the node on");
    drop(outage);
    case.wait_for_follower(&old.pod, on);
    recover(&case);
    case.wait_for_pods(SHOP, 3);
    throughout(TIMING.renew_deadline, "there is one leader", || case.terms() == 2);
    assert_eq!(case.leader().identity, new.identity);
    case.assert_one_writer_at_a_time(&[&old.pod, &new.pod]);
}
