//! What is done to nodes, and to the API server: one case after another, since each disturbs whatever else runs.

mod api_server;
mod drained;
mod flooded;
mod frozen;
mod partitioned;
mod powerless;
mod slow;

use crate::rig::Case;

/// Waits until the cluster has got over what a case has done to it.
pub(crate) fn recover(case: &Case) {
    case.kubectl(&["wait", "--for=condition=Ready", "node", "--all", "--timeout=120s"]);
    case.kubectl(&[
        "wait",
        "--for=condition=Ready",
        "pod",
        "--all",
        "--namespace=kube-system",
        "--timeout=180s",
    ]);
}
