//! The rig of the cluster tests: a namespace per case, and every sidecar's answers on one clock.
//!
//! A test creates a [`Case`], installs an application, and injects faults. When the case is dropped
//! it checks all answers, prints the timeline, and deletes the namespace.

mod case;
mod cluster;
mod command;
mod ensemble;
#[path = "../support/history/mod.rs"]
#[expect(dead_code, unused_imports, reason = "the process tests use more of it")]
mod history;
mod node;
mod observations;
mod observer;
mod operations;
mod pod;
mod pod_watcher;
mod prometheus;
#[path = "../support/witness/record.rs"]
mod record;
mod release;
mod shop;
mod unmodified;
mod visitor;

use crate::noise::Assumption;
pub(crate) use case::Case;
pub(crate) use command::{run, variable};
pub(crate) use ensemble::Ensemble;
pub(crate) use history::{Moment, eventually, succeeds, throughout, wait_for};
use history::{Reply, Timing, lock};
pub(crate) use node::{Node, Outage};
pub(crate) use observations::Leader;
pub(crate) use operations::SHOP;
pub(crate) use pod::Pod;
pub(crate) use prometheus::Prometheus;
pub(crate) use release::{CHART, Release};
pub(crate) use shop::{image_values, merge};
use std::collections::BTreeMap;
use std::process;
use std::sync::Mutex;
use std::time::Duration;
pub(crate) use visitor::Visitor;

/// The default durations of client-go and Baton.
pub(crate) const TIMING: Timing = Timing::of_ms(15_000, 10_000, 2000, 2000);

/// The allowance of upper bounds for a busy machine: two cores run three nodes, and perhaps other
/// work.
///
/// At a load of 36 a handoff took 5.8 s longer, mostly in kubelet. The allowance is shorter than a
/// lease, to distinguish a release from an expired lease. Mutual exclusion has no allowance.
pub(crate) const NOISE: Duration = Duration::from_secs(8);

/// Every case's assumptions about the machine, which [`NOISE`] covers; see `noise`. Containers have
/// CPU shares of their own, which a thread outside them does not notice, so the bound on tasks
/// matters most.
pub(crate) const ASSUMED: &[Assumption] =
    &[Assumption::LosesAtMost(Duration::from_millis(500)), Assumption::TasksPerProcessor(8.0)];

/// How long before a failure noise still excuses it: [`PATIENCE`], plus 30 seconds in which the
/// case collects the cluster's warnings.
pub(crate) const LOOK_BACK: Duration = Duration::from_mins(2);

/// How long Pods may take to start or to end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A name that is unique on the cluster, by the process id. If a case runs again, a count follows:
/// the cluster may still be deleting objects of the previous run.
pub(crate) fn unique(name: &str) -> String {
    static USES: Mutex<BTreeMap<String, u32>> = Mutex::new(BTreeMap::new());

    let mut uses = lock(&USES);
    let count = uses.entry(name.to_owned()).or_default();
    *count += 1;
    match count {
        1 => format!("{name}-{}", process::id()),
        _ => format!("{name}-{}-{count}", process::id()),
    }
}
