//! Outages of the API server.

use super::recover;
use crate::rig::{Case, Leader, Moment, NOISE, PATIENCE, SHOP, TIMING, eventually, throughout};
use serde_json::json;
use std::thread;
use std::time::Duration;

/// An outage that a claim at the default durations survives.
const SHORT_OUTAGE: Duration = Duration::from_secs(5);
/// An outage that no claim survives.
const LONG_OUTAGE: Duration = Duration::from_mins(1);
/// How soon after a long outage a candidate leads. The lease has expired by then, and every
/// candidate tries at each retry period.
const RECOVERY_LIMIT: Duration = TIMING.retry_period.saturating_mul(3).saturating_add(NOISE);

#[test]
fn short_api_server_outage_changes_nothing() {
    let case = Case::new("api-short");
    let leader = case.install(json!({}));
    let control_plane = case.cluster.control_plane();
    case.note("stopping the API server: calls hang");
    let outage = control_plane.outage("pkill -STOP kube-apiserver", "pkill -CONT kube-apiserver");
    thread::sleep(SHORT_OUTAGE);
    drop(outage);
    case.note("the API server continues");
    throughout(TIMING.renew_deadline, "the leader stays the same", || case.terms() == 1);

    case.note("refusing connections to the API server");
    let refuse = |change| {
        format!(
            "iptables {change} INPUT --protocol tcp --dport 6443 --jump REJECT --reject-with tcp-reset"
        )
    };
    let outage = control_plane.outage(&refuse("--insert"), &refuse("--delete"));
    thread::sleep(SHORT_OUTAGE);
    drop(outage);
    case.note("accepting connections again");
    throughout(TIMING.renew_deadline, "the leader stays the same", || case.terms() == 1);

    assert_eq!(case.leader().identity, leader.identity);
    assert!(case.pods(SHOP).iter().all(|pod| pod.restarts("baton") == 0));
    case.assert_ledger_is_clean();
    recover(&case);
}

#[test]
fn long_api_server_outage_ends_the_term_without_crash_loops() {
    let case = Case::new("api-long");
    let old = case.install(json!({}));
    let never = NeverRestarted::install("api-long-never");
    let control_plane = case.cluster.control_plane();
    // Each case has its own clock.
    let [killed, killed_there] =
        [&case, &never.case].map(|case| case.note("killing the API server"));
    let outage = control_plane
        .outage("systemctl stop kubelet && pkill -KILL kube-apiserver", "systemctl start kubelet");
    case.must_not_lead(&old, case.now() + TIMING.renew_deadline, "its renew deadline had passed");
    case.wait_for_run(&old.pod, "application", 1);
    never.assert_stops_in_place(killed_there);
    thread::sleep(LONG_OUTAGE.saturating_sub(case.now().since(killed)));
    assert_eq!(case.terms(), 1, "a candidate became leader during the outage");

    case.note("starting kubelet, which restarts the API server");
    drop(outage);
    let [back, back_there] = [&case, &never.case].map(Case::await_api_server);
    let new = case.successor(&old, back, RECOVERY_LIMIT);
    never.assert_recovers(back_there);
    recover(&case);
    case.wait_for_pods(SHOP, 3);
    // kubelet reports restarts during the outage with a delay.
    let restarts = || case.pods(SHOP).iter().map(|pod| pod.restarts("baton")).collect::<Vec<_>>();
    eventually(PATIENCE, "the old leader has restarted", || restarts().iter().sum::<u64>() > 0);
    throughout(TIMING.renew_deadline, "no other sidecar has restarted", || {
        restarts().iter().sum::<u64>() == 1
    });
    assert_eq!(case.leader().identity, new.identity);
    case.assert_ledger_is_clean();
    never.assert_nothing_restarted();
}

/// A shop without `restartPolicyRules`, as on Kubernetes 1.29 to 1.35: the application stops
/// because it asks.
struct NeverRestarted {
    case: Case,
    old: Leader,
}

impl NeverRestarted {
    fn install(name: &str) -> Self {
        let case = Case::new(name);
        let old = case.install(json!({ "baton": { "restartApplication": "never" } }));
        Self { case, old }
    }

    #[track_caller]
    fn assert_stops_in_place(&self, killed: Moment) {
        let Self { case, old } = self;
        let took = case.wait_for_event("lost", &old.pod).0.since(killed);
        assert!(took <= TIMING.renew_deadline + NOISE, "lost leadership only after {took:?}");
        let is_idle = || {
            case.log(&old.pod, "application", 0)
                .lines()
                .last()
                .is_some_and(|line| line.contains("idle"))
        };
        eventually(NOISE, "its application is idle", is_idle);
    }

    /// Any of the three may lead: the old leader is a candidate like the others.
    #[track_caller]
    fn assert_recovers(&self, back: Moment) {
        let took = self.case.leader().answered_at.since(back);
        assert!(took <= RECOVERY_LIMIT, "no leader until {took:?} after the outage");
    }

    #[track_caller]
    fn assert_nothing_restarted(self) {
        let Self { case, old } = self;
        case.wait_for_pods(SHOP, 3);
        let leader = case.leader();
        for pod in case.pods(SHOP) {
            assert_eq!(
                [pod.restarts("baton"), pod.restarts("application")],
                [0, 0],
                "{}",
                pod.name()
            );
            if pod.name() != leader.pod {
                case.wait_for_follower(pod.name(), leader.answered_at);
            }
        }
        assert_eq!(case.terms(), 2, "{} led before", old.pod);
        case.assert_ledger_is_clean();
    }
}
