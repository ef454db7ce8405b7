//! Faults of nodes and of the API server. Each case disturbs everything else on the cluster, so
//! they run one after another.

mod api_server;
mod drained;
mod exec;
mod flooded;
mod frozen;
mod partitioned;
mod power_loss;
mod routed;
mod slow;

use crate::rig::Case;

/// Waits until all nodes and system Pods are ready again.
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
