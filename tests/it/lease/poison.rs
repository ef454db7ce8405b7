//! Oversized and forged Leases: no candidate crashes, and each logs the cause.

use crate::rig::{
    Candidate, ELECTION, Gateway, Leases, Page, Rig, Store as _, eventually, succeeds, throughout,
};
use serde_json::{Map, Value, json};
use std::fs;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// As many as etcd accepts in one object.
const LABELS: usize = 50_000;

/// The memory limit of the chart's sidecar, in KiB.
const LIMIT: u64 = 32 * 1024;

/// A patch that sets each label to `value`.
fn labels(value: &Value) -> Value {
    let labels: Map<_, _> =
        (0..LABELS).map(|number| (format!("l{number:05}"), value.clone())).collect();
    json!({ "metadata": { "labels": labels } })
}

/// A field of `/proc/PID/status`, in KiB.
fn kib(candidate: &Candidate, field: &str) -> u64 {
    let status =
        fs::read_to_string(format!("/proc/{}/status", candidate.pid())).expect("it is alive");
    let line =
        status.lines().find_map(|line| line.strip_prefix(field)).expect("the form of proc(5)");
    line.trim_matches([':', '\t', ' ']).trim_end_matches(" kB").parse().expect("a number")
}

/// Asserts that its peak memory, file pages included, is below a sidecar's limit.
fn is_small(candidate: &Candidate) -> bool {
    let peak = kib(candidate, "VmHWM");
    assert!(peak < LIMIT, "{} had {peak} KiB, and may have {LIMIT}", candidate.label);
    true
}

fn reports_the_size(candidate: &Candidate) -> bool {
    candidate
        .events("store_refuses")
        .iter()
        .any(|line| line["message"].to_string().contains("exceeds 64 KiB"))
}

#[test]
fn lease_with_50000_labels_ends_no_follower() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    let calm = [&leader, &follower].map(|candidate| kib(candidate, "RssAnon"));
    let admin = &rig.store.namespace.admin;
    // The API server needs a second for so many, and every renewal makes it start over.
    leader.pause();
    succeeds(PATIENCE, "the labels are set", || admin.patch(ELECTION, &labels(&json!(""))));
    leader.resume();

    let latecomer = rig.start("latecomer");
    throughout(rig.timing.renew_deadline, "they stay healthy", || {
        [&follower, &latecomer].iter().all(|one| is_small(one) && one.is_healthy())
    });
    leader.loses(rig.timing.renew_deadline + rig.timing.retry_period + Leases::NOISE, "deadline");
    assert_eq!(leader.exit_code(), 75);
    for candidate in [&follower, &latecomer] {
        eventually(PATIENCE, "it logs what is wrong", || reports_the_size(candidate));
    }
    throughout(2 * rig.timing.lease_duration, "they wait", || {
        follower.is_healthy() && latecomer.is_healthy()
    });
    assert_eq!([&follower, &latecomer].map(|one| one.probe("/readyz")), [200, 503]);
    for candidate in [&follower, &latecomer] {
        let [peak, anonymous] = ["VmHWM", "RssAnon"].map(|field| kib(candidate, field));
        println!(
            "before {calm:?} KiB anonymous, poisoned {anonymous} KiB anonymous, at most {peak} KiB resident"
        );
        assert!(is_small(candidate));
    }

    succeeds(PATIENCE, "the labels are removed", || admin.patch(ELECTION, &labels(&Value::Null)));
    let next = rig.leader();
    assert!([&follower.identity, &latecomer.identity].contains(&&next.identity));
    eventually(PATIENCE, "both are ready", || {
        follower.probe("/readyz") == 200 && latecomer.probe("/readyz") == 200
    });
    rig.wait_for_answers();
}

/// All labels are written back with every renewal, as long as they fit.
#[test]
fn labels_below_the_bound_are_kept() {
    let rig = Rig::over(Leases::fresh(), Leases::FAST);
    let leader = rig.start_leader("leader");
    let edit: Map<_, _> = (0..1000).map(|number| (format!("l{number:05}"), json!(""))).collect();
    let admin = &rig.store.namespace.admin;
    admin
        .patch(ELECTION, &json!({ "metadata": { "labels": edit } }))
        .expect("the administrator may");
    let edited = rig.now();
    eventually(PATIENCE, "it renews", || rig.written(ELECTION) > edited);
    let labels =
        rig.store.lease(ELECTION).and_then(|lease| lease.metadata.labels).unwrap_or_default();
    // The leader's own label is the other one.
    assert_eq!(labels.keys().filter(|label| label.starts_with("l0")).count(), 1000);
    assert!(rig.holds(&leader));
    rig.wait_for_answers();
}

#[test]
fn server_message_cannot_forge_a_log_line() {
    const FORGED: &str = r#"{"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403,
        "message": "no\n2026-01-01T00:00:00Z  INFO leading\u202e\u2028\u001b[2J"}"#;
    let rig = Rig::over(Leases::fresh(), Leases::FAST);
    // An unaffected candidate, since the checker needs answers.
    rig.start_leader("leader");
    let gateway = Gateway::before(&rig.store.namespace.admin);
    gateway.answer(None, Page::new(403, FORGED));
    let access = rig.store.account.access.at("behind", &gateway.url());
    let (code, output) = rig.candidate("text").by(&access).flag("--log-format", "text").ends();
    assert_eq!(code, 77, "{output}");
    assert!(output.contains("no?2026-01-01T00:00:00Z  INFO leading???[2J"), "{output}");
    assert!(output.lines().all(|line| !line.starts_with("2026-01-01")), "{output}");
}
