//! `baton exec` with an application that knows nothing of Baton: a handoff.

use crate::rig::{Case, NOISE, PATIENCE, SHOP, TIMING};
use serde_json::json;

#[test]
fn deleted_pod_ends_its_command_before_the_next_starts() {
    let case = Case::new("exec-deleted");
    let old = case.install_unmodified(json!({}));
    let deleted = case.note("deleting the leader");
    case.kubectl(&["delete", "pod", &old.pod, "--wait=false"]);
    let new = case.successor(&old, deleted, PATIENCE);
    case.wait_for_command(&new.pod);
    case.assert_gaps_within(TIMING.answer_validity + NOISE);
    case.wait_for_pods(SHOP, 3);
    case.assert_one_writer_at_a_time(&[&old.pod, &new.pod]);
}
