//! The rig of the cluster tests: a namespace for each case, and every answer of every sidecar in it on one clock.
//!
//! A test makes a [`Case`], installs something in it and does something to that. When the case is dropped it judges all
//! that was heard, prints the timeline and deletes the namespace.

mod case;
mod cluster;
mod command;
mod ensemble;
mod hearing;
#[path = "../support/history/mod.rs"]
#[expect(dead_code, unused_imports, reason = "the process tests ask more of it")]
mod history;
mod node;
mod observer;
mod onlooker;
mod pod;
mod prometheus;
#[path = "../support/witness/record.rs"]
mod record;
mod release;
mod shop;
mod typing;

use crate::noise::Assumption;
pub(crate) use case::Case;
pub(crate) use command::{run, variable};
pub(crate) use ensemble::Ensemble;
pub(crate) use hearing::Led;
pub(crate) use history::{Moment, eventually, succeeds, throughout, wait_for};
use history::{Reply, Timing, lock};
pub(crate) use node::Outage;
pub(crate) use pod::Pod;
pub(crate) use prometheus::Prometheus;
pub(crate) use release::{CHART, Release};
pub(crate) use shop::{merge, parts};
use std::collections::BTreeMap;
use std::process;
use std::sync::Mutex;
use std::time::Duration;
pub(crate) use typing::SHOP;

/// client-go's defaults, which are Baton's.
pub(crate) const TIMING: Timing = Timing::of_ms(15_000, 10_000, 2000, 2000);

/// What upper bounds allow beyond the promised time: two cores run three nodes and all that goes on there, and may be
/// shared with others still. At a load of 36 a handoff took 5.8 s more, most of it kubelet's. It is less than a lease, so
/// that a handoff without a release is told from one with it. Exclusion is judged without any allowance.
pub(crate) const NOISE: Duration = Duration::from_secs(8);

/// What every case assumes of the machine; see `noise`. [`NOISE`] has room for it. Containers have
/// processor shares of their own, which a thread beside them does not feel, so the bound on tasks
/// matters most.
pub(crate) const ASSUMED: &[Assumption] =
    &[Assumption::LosesAtMost(Duration::from_millis(500)), Assumption::TasksPerProcessor(8.0)];

/// How long before its failure noise still excuses a case: [`PATIENCE`], and 30 seconds in which the
/// case collects the cluster's complaints.
pub(crate) const LOOK_BACK: Duration = Duration::from_mins(2);

/// How long Pods may take to come and to go.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A name that is unique on the cluster: by this process, and by a count if a case runs again. The
/// cluster may still be deleting objects of the previous run.
pub(crate) fn unique(name: &str) -> String {
    static TAKEN: Mutex<BTreeMap<String, u32>> = Mutex::new(BTreeMap::new());

    let mut taken = lock(&TAKEN);
    let times = taken.entry(name.to_owned()).or_default();
    *times += 1;
    match times {
        1 => format!("{name}-{}", process::id()),
        _ => format!("{name}-{}-{times}", process::id()),
    }
}
