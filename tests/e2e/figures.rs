//! The figures of README and of the operations guide: how long nobody leads after a deletion and after a loss of power, what a
//! sidecar uses, and what many elections ask of the API server.
//!
//! They take their time, so `make e2e` leaves these out; `make e2e ARGS=figures` runs them alone.

mod cost;
mod many;

use crate::nodes::recover;
use crate::rig::{Case, PATIENCE, SHOP};
use serde_json::json;
use std::thread;
use std::time::Duration;

const TIMES: usize = 20;
/// Over how long the use of a processor is counted.
const SPAN: Duration = Duration::from_mins(2);

#[test]
fn from_a_deletion_to_the_next_leader() {
    let case = Case::new("figures-deletion");
    let mut old = case.install(json!({}));
    let mut took = Vec::new();
    for _ in 0..TIMES {
        let deleted = case.note("the leader is deleted");
        case.kubectl(&["delete", "pod", &old.pod, "--wait=false"]);
        took.push(case.successor(&old, deleted, PATIENCE).heard.since(deleted));
        case.settle(SHOP, 3);
        old = case.leader();
    }
    tell(&case, "from the deletion to the next leader", took);
}

#[test]
fn from_a_loss_of_power_to_the_next_leader() {
    let case = Case::new("figures-power");
    let mut old = case.install(json!({}));
    let mut took = Vec::new();
    for _ in 0..TIMES {
        let off = case.note("the leader's node is switched off");
        let outage = case.node(&old.pod).switch_off();
        let new = case.takeover(&old, off);
        took.push(new.heard.since(off));
        let on = case.note("it is switched on again");
        drop(outage);
        case.follows(&old.pod, on);
        old = new;
    }
    tell(&case, "from the loss of power to the next leader", took);
    recover(&case);
}

/// Beside an application that asks five times a second, and the witness, which asks twenty times.
#[test]
fn memory_and_processor_of_a_sidecar() {
    let case = Case::new("figures-usage");
    let leader = case.install(json!({}));
    let pods = case.pods(SHOP);
    let follower =
        pods.iter().find(|pod| pod.name() != leader.pod).expect("there are three").name();
    for (role, pod) in [("leader", leader.pod.as_str()), ("follower", follower)] {
        let node = case.node(pod);
        let before = node.usage(pod, "baton");
        thread::sleep(SPAN);
        let after = node.usage(pod, "baton");
        let used = Duration::from_micros(after.cpu_microseconds - before.cpu_microseconds);
        let [now, peak] =
            [after.memory_bytes, after.peak_memory_bytes].map(|bytes| bytes.div_ceil(1024));
        case.note(&format!(
            "the {role}: {now} KiB, at the most {peak} KiB; {used:?} of a processor in {SPAN:?}"
        ));
    }
}

fn tell(case: &Case, what: &str, mut took: Vec<Duration>) {
    took.sort_unstable();
    let [median, nearly_all] =
        [50, 99].map(|percent| took[(took.len() * percent).div_ceil(100) - 1]);
    case.note(&format!("{what}: p50 {median:?}, p99 {nearly_all:?}, of {took:?}"));
}
