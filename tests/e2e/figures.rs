//! Measurements for the documentation: the time without a leader, the resources of a sidecar, and
//! the load of many elections on the API server. The memory of `baton exec` is measured too.
//!
//! They take long, so `make e2e` skips them. `make e2e ARGS=figures` runs them alone.

mod cost;
mod many_elections;
mod peers;

use crate::nodes::recover;
use crate::rig::{Case, PATIENCE, SHOP};
use serde_json::{Value, json};
use std::thread;
use std::time::Duration;

/// How many handoffs or takeovers are measured.
const SAMPLES: usize = 20;
/// How many kills of a sidecar are measured.
const KILLS: usize = 50;
/// How long the CPU time of a sidecar is measured.
const CPU_SPAN: Duration = Duration::from_mins(2);
/// How long a command has run when the memory of its elector and guard is read.
const MEMORY_SPAN: Duration = Duration::from_mins(1);

#[test]
fn measure_time_from_deletion_to_next_leader() {
    let case = Case::new("figures-deletion");
    let mut old = case.install(json!({}));
    let mut times = Vec::new();
    for _ in 0..SAMPLES {
        let deleted = case.note("deleting the leader");
        case.kubectl(&["delete", "pod", &old.pod, "--wait=false"]);
        times.push(case.successor(&old, deleted, PATIENCE).answered_at.since(deleted));
        case.wait_for_pods(SHOP, 3);
        old = case.leader();
    }
    note_percentiles(&case, "from the deletion to the next leader", times);
}

#[test]
fn measure_time_from_power_loss_to_next_leader() {
    let case = Case::new("figures-power");
    let mut old = case.install(json!({}));
    let mut times = Vec::new();
    for _ in 0..SAMPLES {
        let off = case.note("switching the leader's node off");
        let outage = case.node(&old.pod).switch_off();
        let new = case.takeover(&old, off);
        times.push(new.answered_at.since(off));
        let on = case.note("switching the node on");
        drop(outage);
        case.wait_for_follower(&old.pod, on);
        old = new;
    }
    note_percentiles(&case, "from the power loss to the next leader", times);
    recover(&case);
}

#[test]
fn measure_time_from_kill_to_next_leader() {
    measure_kills("figures-killed", &json!({ "config": { "requirePolling": "10s" } }));
}

#[test]
fn measure_time_from_kill_to_next_leader_without_restart_rules() {
    let settings = json!({ "config": { "requirePolling": "10s" }, "restartApplication": "never" });
    measure_kills("figures-killed-alone", &settings);
}

/// Kills the leader's sidecar again and again, each time in a new Pod: kubelet delays the second
/// restart of a container.
fn measure_kills(name: &str, settings: &Value) {
    let case = Case::new(name);
    let mut old = case.install(json!({ "baton": settings }));
    let mut times = Vec::new();
    for _ in 0..KILLS {
        let killed = case.note("killing the leader's sidecar");
        case.node(&old.pod).signal("kill", &old.pod, "baton");
        let new = case.successor(&old, killed, PATIENCE);
        times.push(new.answered_at.since(killed));
        case.kubectl(&["delete", "pod", &old.pod]);
        case.wait_for_pods(SHOP, 3);
        old = case.leader();
    }
    note_percentiles(&case, "from the kill to the next leader", times);
}

/// The application polls five times per second, and the witness twenty times.
#[test]
fn measure_memory_and_cpu_of_a_sidecar() {
    let case = Case::new("figures-usage");
    let leader = case.install(json!({}));
    let pods = case.pods(SHOP);
    let follower =
        pods.iter().find(|pod| pod.name() != leader.pod).expect("the shop has three Pods").name();
    for (role, pod) in [("leader", leader.pod.as_str()), ("follower", follower)] {
        let node = case.node(pod);
        let before = node.usage(pod, "baton");
        thread::sleep(CPU_SPAN);
        let after = node.usage(pod, "baton");
        let used = Duration::from_micros(after.cpu_microseconds - before.cpu_microseconds);
        let [now, peak] =
            [after.memory_bytes, after.peak_memory_bytes].map(|bytes| bytes.div_ceil(1024));
        case.note(&format!(
            "the {role}: {now} KiB, peak {peak} KiB; {used:?} of CPU time in {CPU_SPAN:?}"
        ));
    }
}

/// The witness asks twenty times per second. A proportional size counts half of each page that both
/// processes use.
#[test]
fn measure_memory_of_elector_and_guard() {
    let case = Case::new("figures-exec");
    let leader = case.install_unmodified(json!({}));
    thread::sleep(MEMORY_SPAN);
    for pod in case.pods(SHOP) {
        let role = if pod.name() == leader.pod { "leader" } else { "follower" };
        let processes = case.node(pod.name()).memory(pod.name(), "baton");
        let proportional: u64 = processes.iter().map(|process| process.proportional_kib).sum();
        let anonymous: u64 = processes.iter().map(|process| process.anonymous_kib).sum();
        case.note(&format!(
            "the {role}: {proportional} KiB (PSS), of them {anonymous} KiB anonymous: {processes:?}"
        ));
    }
}

fn note_percentiles(case: &Case, what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let [p50, p99] = [50, 99].map(|percent| times[(times.len() * percent).div_ceil(100) - 1]);
    case.note(&format!("{what}: p50 {p50:?}, p99 {p99:?}, of {times:?}"));
}
