//! Applications that take their time to end, and some that end for good.

use crate::rig::{Case, PATIENCE, SHOP};
use serde_json::json;
use std::time::Duration;

/// What the application needs to end.
const SLOW: Duration = Duration::from_secs(30);
/// How soon after its Pod began to end a sidecar promises nothing more: kubelet has to start what tells it so.
const UNTIL_SILENT: Duration = Duration::from_secs(5);
/// How soon after a release somebody leads.
const AFTER_A_RELEASE: Duration = Duration::from_secs(1);
/// What a Job has to write.
const LINES: u64 = 10;

#[test]
fn a_slow_application_ends_first_and_leadership_is_released_after_it() {
    let case = Case::new("slow");
    let old = case.install(
        json!({ "terminationGracePeriodSeconds": 60, "args": ["--linger", format!("{SLOW:?}")] }),
    );
    let deleted = case.note("the leader is deleted");
    case.kubectl(&["delete", "pod", &old.pod, "--wait=false"]);
    case.must_be_silent(
        &old,
        deleted + UNTIL_SILENT,
        "its Pod was ending, and it had been told so",
    );
    let new = case.successor(&old, deleted, PATIENCE);
    let released = case.event("resigned", &old.pod).0;
    assert!(
        released.since(deleted) >= SLOW,
        "released {:?} after the deletion",
        released.since(deleted)
    );
    let took = new.heard.since(released);
    case.note(&format!("{} leads {took:?} after the release", new.pod));
    assert!(took <= AFTER_A_RELEASE, "{took:?} after the release");
    case.assert_books_are_clean();
}

#[test]
fn an_application_that_uses_up_its_whole_grace_leaves_time_for_the_release() {
    let case = Case::new("stubborn");
    let grace = Duration::from_secs(8);
    let old = case.install(
        json!({ "terminationGracePeriodSeconds": grace.as_secs(), "args": ["--linger", "5m"] }),
    );
    let deleted = case.note("the leader is deleted");
    case.kubectl(&["delete", "pod", &old.pod, "--wait=false"]);
    let new = case.successor(&old, deleted, PATIENCE);
    let released = case.event("resigned", &old.pod).0;
    assert!(
        released.since(deleted) >= grace,
        "released {:?} after the deletion",
        released.since(deleted)
    );
    assert!(new.heard.since(released) <= AFTER_A_RELEASE);
    case.assert_books_are_clean();
}

#[test]
fn a_job_completes_though_a_sidecar_stands_beside_it() {
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
    let books = case.assert_books_are_clean();
    // An answer of the ledger that came too late makes the application write that line again.
    assert_eq!((books.lines - books.doubled, books.terms.len()), (LINES, 1), "{books:?}");
}
