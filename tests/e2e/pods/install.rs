//! What a person types who tries Baton: the demo, by the commands that its notes give.

use crate::rig::{
    CHART, Case, NOISE, PATIENCE, Release, SHOP, TIMING, merge, parts, unique, variable,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long after the first of the demo's copies has started somebody leads. Nobody has led before, so nobody's lease is waited for.
const UNTIL_A_LEADER: Duration = TIMING.retry_period.saturating_add(NOISE);

/// How long after its removal began the leader may answer. The rights go first, so it has nothing to release with, and waits for
/// nothing: not for its renew deadline, to which it would try in vain.
const UNTIL_GONE: Duration = TIMING.renew_deadline.saturating_sub(Duration::from_secs(1));

/// The chart as it stood before it injected, hardened and watched anything, since a clone may have no past: made in a worktree of
/// the commit before c1215f7 (`git worktree add DIR c1215f7^`) by `helm package DIR/charts/baton`.
const FIRST: &str = "tests/e2e/before/baton-0.1.0.tgz";

/// The label of the demo's Pods that stand for election.
const APPLICATION: (&str, &str) = ("app.kubernetes.io/component", "application");

#[test]
fn the_demo_shows_one_leader_a_handoff_and_a_ledger_and_leaves_nothing() {
    let release = unique("baton");
    let case = Case::of_election(release.clone(), format!("{release}-demo"));
    let notes = install_the_demo(&case, &release, json!({}));
    try_the_demo_and_remove_it(&case, &release, &notes);
    case.assert_nothing_is_left();
}

/// Installs the demo, with what `otherwise` says of it, and returns its notes once its test passes.
pub(super) fn install_the_demo(case: &Case, release: &str, otherwise: Value) -> String {
    let installed = case.note("the demo is installed");
    let notes = case.helm_with(&["install", release, CHART], &demo(otherwise));
    let leader = case.leader();
    let [took, waited] =
        [installed, case.event("starting", release).0].map(|since| leader.heard.since(since));
    case.note(&format!("{} leads {took:?} after the installation", leader.pod));
    assert!(waited <= UNTIL_A_LEADER, "it took {waited:?} until somebody led");
    case.settle(APPLICATION, 3);
    assert_test_passes(case, release);
    notes
}

/// The chart's values for it, and what is wanted otherwise.
fn demo(otherwise: Value) -> Value {
    let demo = parts(&variable("DEMO_IMAGE"));
    let mut values = json!({ "image": parts(&variable("BATON_IMAGE")), "demo": { "enabled": true, "image": demo } });
    merge(&mut values, otherwise);
    values
}

/// Does what its notes say, and uninstalls it.
pub(super) fn try_the_demo_and_remove_it(case: &Case, release: &str, notes: &str) {
    let old = case.leader();
    let commands: Vec<&str> =
        notes.lines().filter_map(|line| line.trim().strip_prefix("kubectl ")).collect();
    let [watch, kill, read] = commands[..] else { panic!("three commands in {notes}") };
    assert!(
        case.shell(&format!("timeout 10 kubectl {watch} || test $? = 124")).contains(&old.identity)
    );
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

    let leader = case.leader();
    let uninstalled = case.now();
    case.helm(&["uninstall", release, "--wait"]);
    // Helm waits for what it has made, and not for what that has made.
    case.settle(APPLICATION, 0);
    let took = case.last_heard(&leader.pod).since(uninstalled);
    case.note(&format!("{} was heard for {took:?} more", leader.pod));
    assert!(
        took <= UNTIL_GONE,
        "{} was there for {took:?}, which is more than {UNTIL_GONE:?}",
        leader.pod
    );
}

#[test]
fn a_release_of_the_first_chart_is_upgraded_to_all_that_is_new_and_leaves_nothing() {
    upgrade_to_all(FIRST, "helm");
}

#[test]
fn helm_3_installs_upgrades_tests_and_removes_the_whole_chart_too() {
    upgrade_to_all(CHART, "helm3");
}

/// Installs the demo from a chart, turns on all that the clone's chart can do beside it, and removes it.
fn upgrade_to_all(from: &str, helm: &'static str) {
    let name = unique(&format!("baton-by-{helm}"));
    let mut case = Case::of_election(name.clone(), format!("{name}-demo"));
    case.helm_program = helm;
    let shop = json!({ "elections": { "orders": { "serviceAccountName": "shop" } } });
    let release = Release::install(&case, &name, from, &demo(shop.clone()));
    case.settle(APPLICATION, 3);
    case.leader();
    let pods = || -> BTreeSet<String> {
        case.pods(APPLICATION).iter().map(|pod| pod.name().to_owned()).collect()
    };
    let term = "--output=jsonpath={.metadata.uid} {.spec.holderIdentity} {.spec.leaseTransitions}";
    let term = || case.kubectl(&["get", "lease", &case.election, term]);
    let before = (pods(), term());

    let enabled = json!({ "enabled": true });
    let mut all = json!({ "flowSchema": enabled, "dashboard": enabled, "serviceAccount": { "create": true } });
    merge(&mut all, json!({ "injection": { "enabled": true, "prefix": name } }));
    merge(&mut all, shop);
    case.note("the release is upgraded");
    release.upgrade(&demo(all));
    assert!(!release.shared().is_empty(), "nothing of it is the whole cluster's");
    assert_test_passes(&case, &name);
    // None of that is about the demo's Pods, so it costs them nothing: they are the same, and so is the term.
    assert_eq!((pods(), term()), before);
    assert_eq!(case.terms(), 1, "somebody else has led");
    case.assert_gaps_within(TIMING.answer_validity + NOISE);
    let books = case.ledger(&format!("{name}-demo-ledger"));
    assert!(books.lines > 0 && (books.refused, books.conflicts) == (0, 0), "{books:?}");

    release.uninstall();
    case.assert_nothing_is_left();
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
