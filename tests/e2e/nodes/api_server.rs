//! An API server that is away.

use super::recover;
use crate::rig::{Case, Led, Moment, NOISE, PATIENCE, SHOP, TIMING, eventually, throughout};
use serde_json::json;
use std::thread;
use std::time::Duration;

/// Less than what an election at the default durations can do without.
const SHORT: Duration = Duration::from_secs(5);
/// More than that.
const LONG: Duration = Duration::from_mins(1);
/// How soon after it somebody leads: everybody has waited beyond the lease, and tries again at each retry.
const SOON: Duration = TIMING.retry_period.saturating_mul(3).saturating_add(NOISE);

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
    let refuse = |change| {
        format!(
            "iptables {change} INPUT --protocol tcp --dport 6443 --jump REJECT --reject-with tcp-reset"
        )
    };
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
    let other = without_rules("api-long-never");
    let control_plane = case.cluster.control_plane();
    // Each case has a clock of its own.
    let [gone, gone_there] = [&case, &other.case]
        .map(|case| case.note("the API server is killed, and not started again"));
    let outage = control_plane
        .outage("systemctl stop kubelet && pkill -KILL kube-apiserver", "systemctl start kubelet");
    case.must_be_silent(&old, case.now() + TIMING.renew_deadline, "its deadline had passed");
    case.wait_for_run(&old.pod, "application", 1);
    other.gives_up_in_place(gone_there);
    thread::sleep(LONG.saturating_sub(case.now().since(gone)));
    assert_eq!(case.terms(), 1, "nobody can lead");

    case.note("it may be started again");
    drop(outage);
    let [back, back_there] = [&case, &other.case].map(Case::await_api_server);
    let new = case.successor(&old, back, SOON);
    other.leads_again(back_there);
    recover(&case);
    case.settle(SHOP, 3);
    // A kubelet that was cut off from the API server tells it late what has happened meanwhile.
    let restarts = || case.pods(SHOP).iter().map(|pod| pod.restarts("baton")).collect::<Vec<_>>();
    eventually(PATIENCE, "who led has ended", || restarts().iter().sum::<u64>() > 0);
    throughout(TIMING.renew_deadline, "nobody else has ended", || {
        restarts().iter().sum::<u64>() == 1
    });
    assert_eq!(case.leader().identity, new.identity);
    case.assert_books_are_clean();
    other.has_restarted_nothing();
}

/// A shop as on servers of 1.29 to 1.35, which have no rules that restart an application: it stops because it asks. The
/// minute strikes it too.
struct WithoutRules {
    case: Case,
    old: Led,
}

fn without_rules(name: &str) -> WithoutRules {
    let case = Case::new(name);
    let old = case.install(json!({ "baton": { "restartApplication": "never" } }));
    WithoutRules { case, old }
}

impl WithoutRules {
    #[track_caller]
    fn gives_up_in_place(&self, gone: Moment) {
        let Self { case, old } = self;
        let took = case.event("lost", &old.pod).0.since(gone);
        assert!(took <= TIMING.renew_deadline + NOISE, "lost only after {took:?}");
        let stands_idle = || {
            case.log(&old.pod, "application", 0)
                .lines()
                .last()
                .is_some_and(|line| line.contains("idle"))
        };
        eventually(NOISE, "its application stands idle", stands_idle);
    }

    /// Any of the three may: who led before is a candidate like the others.
    #[track_caller]
    fn leads_again(&self, back: Moment) {
        let took = self.case.leader().heard.since(back);
        assert!(took <= SOON, "somebody leads only after {took:?}");
    }

    #[track_caller]
    fn has_restarted_nothing(self) {
        let Self { case, old } = self;
        case.settle(SHOP, 3);
        let leader = case.leader();
        for pod in case.pods(SHOP) {
            assert_eq!(
                [pod.restarts("baton"), pod.restarts("application")],
                [0, 0],
                "{}",
                pod.name()
            );
            if pod.name() != leader.pod {
                case.follows(pod.name(), leader.heard);
            }
        }
        assert_eq!(case.terms(), 2, "{} led before", old.pod);
        case.assert_books_are_clean();
    }
}
