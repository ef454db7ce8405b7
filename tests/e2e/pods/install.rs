//! What a person types who tries Baton: the demo, by the commands that its notes give.

use crate::rig::{Case, NOISE, PATIENCE, SHOP, TIMING, merge, parts, variable};
use serde_json::{Value, json};
use std::process;
use std::time::Duration;

/// How long the demo may take until somebody leads.
const UNTIL_A_LEADER: Duration = Duration::from_secs(20);

/// How long its removal may take. The rights go first, so the leader has nothing to release with, and waits for nothing: not for
/// its renew deadline, to which it would try in vain.
const UNTIL_GONE: Duration = TIMING.renew_deadline.saturating_sub(Duration::from_secs(1));

/// The label of the demo's Pods that stand for election.
const APPLICATION: (&str, &str) = ("app.kubernetes.io/component", "application");

#[test]
fn the_demo_shows_one_leader_a_handoff_and_a_ledger_and_leaves_nothing() {
    let release = format!("baton-{}", process::id());
    let case = Case::of_election(release.clone(), format!("{release}-demo"));
    show_the_demo(&case, &release, json!({}));
    case.assert_nothing_is_left();
}

/// Installs the demo, with what `otherwise` says of it, does what its notes say, and uninstalls it.
pub(super) fn show_the_demo(case: &Case, release: &str, otherwise: Value) {
    let demo = parts(&variable("DEMO_IMAGE"));
    let mut values = json!({ "image": parts(&variable("BATON_IMAGE")), "demo": { "enabled": true, "image": demo } });
    merge(&mut values, otherwise);
    let installed = case.note("the demo is installed");
    let notes = case.helm_with(&["install", release, "charts/baton"], &values);
    let old = case.leader();
    let took = old.heard.since(installed);
    case.note(&format!("{} leads {took:?} after the installation", old.pod));
    assert!(took <= UNTIL_A_LEADER, "it took {took:?}");
    case.settle(APPLICATION, 3);
    assert_test_passes(case, release);

    let commands: Vec<&str> = notes.lines().filter_map(|line| line.trim().strip_prefix("kubectl ")).collect();
    let [watch, kill, read] = commands[..] else { panic!("three commands in {notes}") };
    assert!(case.shell(&format!("timeout 10 kubectl {watch} || test $? = 124")).contains(&old.identity));
    let killed = case.note("the leader is killed as the notes say");
    case.shell(&format!("kubectl {kill} --wait=false"));
    case.successor(&old, killed, PATIENCE);
    case.assert_gaps_within(TIMING.answer_validity + NOISE);
    case.settle(APPLICATION, 3);
    assert_test_passes(case, release);
    assert!(case.shell(&format!("kubectl {read}")).contains(&old.pod));

    let books = case.ledger(&format!("{release}-demo-ledger"));
    assert_eq!((books.refused, books.conflicts, books.doubled), (0, 0, 0), "{books:?}");
    let terms: Vec<u64> = books.terms.iter().map(|term| term.lines).collect();
    assert!(terms.len() == 2 && terms.iter().all(|lines| *lines > 0), "{books:?}");

    let uninstalled = case.now();
    case.helm(&["uninstall", release, "--wait"]);
    let took = case.now().since(uninstalled);
    case.note(&format!("that took {took:?}"));
    assert!(took <= UNTIL_GONE, "it took {took:?}");
}

#[test]
fn an_upgrade_rolls_out_changed_values_and_somebody_leads_throughout() {
    upgrade(&Case::new("upgraded"));
}

#[test]
fn helm_3_installs_upgrades_and_removes_it_too() {
    let mut case = Case::new("upgraded-by-3");
    case.helm_program = "helm3";
    upgrade(&case);
    case.helm(&["uninstall", "shop", "--wait"]);
    case.settle(SHOP, 0);
}

fn upgrade(case: &Case) {
    let old = case.install(json!({}));
    let changed = json!({ "replicas": 2, "baton": { "config": { "logLevel": "debug" } } });
    let upgraded = case.note("the release is upgraded");
    case.helm_with(&["upgrade", "shop", "tests/e2e/shop"], &case.values(changed));
    case.successor(&old, upgraded, PATIENCE);
    case.settle(SHOP, 2);
    let new = case.leader();
    case.wait_for_log(&new.pod, "baton", 0, r#""level":"DEBUG""#);
    case.assert_gaps_within(TIMING.answer_validity + NOISE);
    case.assert_books_are_clean();
}

/// Helm is content with a release that has no test at all.
#[track_caller]
fn assert_test_passes(case: &Case, release: &str) {
    let told = case.helm(&["test", release]);
    let words: Vec<&str> = told.split_whitespace().collect();
    assert!(words.windows(2).any(|pair| pair == ["Phase:", "Succeeded"]), "{told}");
}
