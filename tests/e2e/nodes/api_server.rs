//! An API server that is away.

use super::recover;
use crate::rig::{Case, NOISE, SHOP, TIMING, throughout};
use serde_json::json;
use std::thread;
use std::time::Duration;

/// Less than what an election at the default durations can do without.
const SHORT: Duration = Duration::from_secs(5);
/// More than that.
const LONG: Duration = Duration::from_mins(1);

#[test]
fn an_api_server_that_hangs_or_refuses_for_five_seconds_changes_nothing() {
    let case = Case::new("api-short");
    let leader = case.install(json!({}));
    let control_plane = case.cluster.control_plane();
    case.note("the API server is stopped: whoever calls waits");
    let outage = control_plane.outage("pkill -STOP kube-apiserver", "pkill -CONT kube-apiserver");
    thread::sleep(SHORT);
    drop(outage);
    case.note("it goes on");
    throughout(TIMING.renew_deadline, "nobody else leads", || case.terms() == 1);

    case.note("whoever calls the API server is refused");
    let refuse =
        |change| format!("iptables {change} INPUT --protocol tcp --dport 6443 --jump REJECT --reject-with tcp-reset");
    let outage = control_plane.outage(&refuse("--insert"), &refuse("--delete"));
    thread::sleep(SHORT);
    drop(outage);
    case.note("it is reached again");
    throughout(TIMING.renew_deadline, "nobody else leads", || case.terms() == 1);

    assert_eq!(case.leader().identity, leader.identity);
    assert!(case.pods(SHOP).iter().all(|pod| pod.restarts("baton") == 0));
    case.assert_books_are_clean();
    recover(&case);
}

#[test]
fn an_api_server_that_is_away_for_a_minute_ends_the_term_in_time_and_nobody_crash_loops() {
    let case = Case::new("api-long");
    let old = case.install(json!({}));
    let control_plane = case.cluster.control_plane();
    let gone = case.note("the API server is killed, and not started again");
    let outage =
        control_plane.outage("systemctl stop kubelet && pkill -KILL kube-apiserver", "systemctl start kubelet");
    case.must_be_silent(&old, case.now() + TIMING.renew_deadline, "its deadline had passed");
    case.wait_for_run(&old.pod, "application", 1);
    thread::sleep(LONG.saturating_sub(case.now().since(gone)));
    assert_eq!(case.terms(), 1, "nobody can lead");

    case.note("it may be started again");
    drop(outage);
    let back = case.await_api_server();
    let new = case.successor(&old, back, TIMING.takeover() + NOISE);
    recover(&case);
    case.settle(SHOP, 3);
    let restarts: Vec<u64> = case.pods(SHOP).iter().map(|pod| pod.restarts("baton")).collect();
    assert_eq!(restarts.iter().sum::<u64>(), 1, "only who led has ended: {restarts:?}");
    assert_eq!(case.leader().identity, new.identity);
    case.assert_books_are_clean();
}
