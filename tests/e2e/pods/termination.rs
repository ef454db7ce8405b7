//! Applications that terminate slowly, and Jobs that complete.

use crate::rig::{Case, PATIENCE, SHOP};
use serde_json::json;
use std::time::Duration;

/// How long the application takes to end.
const LINGER: Duration = Duration::from_secs(30);
/// How soon after the deletion of its Pod a sidecar makes no more promises: kubelet must run
/// preStop.
const WITHDRAWAL_LIMIT: Duration = Duration::from_secs(5);
/// How soon after a release another candidate leads.
const SUCCESSION_LIMIT: Duration = Duration::from_secs(1);
/// How many lines the Job writes.
const LINES: u64 = 10;

#[test]
fn leadership_is_released_after_a_slow_application_ends() {
    let case = Case::new("slow");
    let old = case.install(
        json!({ "terminationGracePeriodSeconds": 60, "args": ["--linger", format!("{LINGER:?}")] }),
    );
    let deleted = case.note("deleting the leader");
    case.kubectl(&["delete", "pod", &old.pod, "--wait=false"]);
    case.must_not_lead(&old, deleted + WITHDRAWAL_LIMIT, "it had withdrawn in preStop");
    let new = case.successor(&old, deleted, PATIENCE);
    let released = case.wait_for_event("resigned", &old.pod).0;
    assert!(
        released.since(deleted) >= LINGER,
        "released {:?} after the deletion",
        released.since(deleted)
    );
    let took = new.answered_at.since(released);
    case.note(&format!("{} leads {took:?} after the release", new.pod));
    assert!(took <= SUCCESSION_LIMIT, "no successor until {took:?} after the release");
    case.assert_ledger_is_clean();
}

#[test]
fn release_succeeds_after_the_whole_grace_period() {
    let case = Case::new("stubborn");
    let grace = Duration::from_secs(8);
    let old = case.install(
        json!({ "terminationGracePeriodSeconds": grace.as_secs(), "args": ["--linger", "5m"] }),
    );
    let deleted = case.note("deleting the leader");
    case.kubectl(&["delete", "pod", &old.pod, "--wait=false"]);
    let new = case.successor(&old, deleted, PATIENCE);
    let released = case.wait_for_event("resigned", &old.pod).0;
    assert!(
        released.since(deleted) >= grace,
        "released {:?} after the deletion",
        released.since(deleted)
    );
    assert!(new.answered_at.since(released) <= SUCCESSION_LIMIT);
    case.assert_ledger_is_clean();
}

#[test]
fn job_completes_beside_a_sidecar() {
    let case = Case::new("job");
    case.helm_with(
        &["install", "shop", "tests/e2e/shop"],
        &case.values(json!({ "kind": "Job", "args": ["--lines", LINES.to_string()] })),
    );
    case.leader();
    case.kubectl(&[
        "wait",
        "--for=condition=Complete",
        "job/shop",
        &format!("--timeout={}s", PATIENCE.as_secs()),
    ]);
    let pods = case.pods(SHOP);
    let [pod] = &pods[..] else { panic!("{pods:?}") };
    assert_eq!(pod.phase(), "Succeeded");
    assert_eq!(pod.container("baton")["state"]["terminated"]["exitCode"], 0);
    let report = case.assert_ledger_is_clean();
    // The application repeats a line if the ledger's answer is late.
    assert_eq!((report.lines - report.doubled, report.terms.len()), (LINES, 1), "{report:?}");
}
