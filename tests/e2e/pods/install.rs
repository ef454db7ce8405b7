//! Installation, upgrade, and removal with Helm, and the demo with the commands of its notes.

use crate::rig::{
    CHART, Case, NOISE, PATIENCE, Release, SHOP, TIMING, image_values, merge, unique, variable,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// How soon after the start of the demo's first candidate one leads: there is no lease to wait for.
const FIRST_LEADER_LIMIT: Duration = TIMING.retry_period.saturating_add(NOISE);

/// How long after the start of its removal the leader may answer. Helm removes the rights first, so
/// the leader cannot release. It must not retry until its renew deadline.
const REMOVAL_LIMIT: Duration = TIMING.renew_deadline.saturating_sub(Duration::from_secs(1));

/// The first version of the chart, without injection, hardening, and monitoring. A clone may lack
/// the history, so the package is a file: `git worktree add DIR c1215f7^; helm package
/// DIR/charts/baton`.
const FIRST_CHART: &str = "tests/e2e/before/baton-0.1.0.tgz";

/// The label of the demo's candidates.
const APPLICATION: (&str, &str) = ("app.kubernetes.io/component", "application");

#[test]
fn demo_elects_hands_over_and_leaves_nothing_behind() {
    let release = unique("baton");
    let case = Case::with_election(release.clone(), format!("{release}-demo"));
    let notes = install_the_demo(&case, &release, json!({}));
    try_the_demo_and_remove_it(&case, &release, &notes);
    case.assert_namespace_is_empty();
}

/// Installs the demo, and returns its notes when its test passes.
pub(super) fn install_the_demo(case: &Case, release: &str, overrides: Value) -> String {
    let installed = case.note("installing the demo");
    let notes = case.helm_with(&["install", release, CHART], &demo_values(overrides));
    let leader = case.leader();
    let [after_install, after_start] = [installed, case.wait_for_event("starting", release).0]
        .map(|since| leader.answered_at.since(since));
    case.note(&format!("{} leads {after_install:?} after the installation", leader.pod));
    assert!(after_start <= FIRST_LEADER_LIMIT, "no leader until {after_start:?} after the start");
    case.wait_for_pods(APPLICATION, 3);
    assert_test_passes(case, release);
    notes
}

/// Values for the demo.
fn demo_values(overrides: Value) -> Value {
    let demo = image_values(&variable("DEMO_IMAGE"));
    let mut values = json!({ "image": image_values(&variable("BATON_IMAGE")), "demo": { "enabled": true, "image": demo } });
    merge(&mut values, overrides);
    values
}

/// Runs the commands of the notes, and uninstalls the demo.
pub(super) fn try_the_demo_and_remove_it(case: &Case, release: &str, notes: &str) {
    let old = case.leader();
    let commands: Vec<&str> =
        notes.lines().filter_map(|line| line.trim().strip_prefix("kubectl ")).collect();
    let [watch, kill, read] = commands[..] else {
        panic!("the notes do not have three commands: {notes}")
    };
    assert!(
        case.shell(&format!("timeout 10 kubectl {watch} || test $? = 124")).contains(&old.identity)
    );
    let killed = case.note("killing the leader as in the notes");
    case.shell(&format!("kubectl {kill} --wait=false"));
    case.successor(&old, killed, PATIENCE);
    case.assert_gaps_within(TIMING.answer_validity + NOISE);
    case.wait_for_pods(APPLICATION, 3);
    assert_test_passes(case, release);
    assert!(case.shell(&format!("kubectl {read}")).contains(&old.pod));

    let report = case.ledger(&format!("{release}-demo-ledger"));
    assert_eq!((report.refused, report.conflicts, report.doubled), (0, 0, 0), "{report:?}");
    let terms: Vec<u64> = report.terms.iter().map(|term| term.lines).collect();
    assert!(terms.len() == 2 && terms.iter().all(|lines| *lines > 0), "{report:?}");

    let leader = case.leader();
    let uninstalled = case.now();
    case.helm(&["uninstall", release, "--wait"]);
    // Helm waits for its own objects, but not for the Pods that they created.
    case.wait_for_pods(APPLICATION, 0);
    let took = case.last_answer(&leader.pod).since(uninstalled);
    case.note(&format!("{} answered for {took:?} more", leader.pod));
    assert!(
        took <= REMOVAL_LIMIT,
        "{} answered for {took:?} after the removal, more than {REMOVAL_LIMIT:?}",
        leader.pod
    );
}

#[test]
fn first_chart_upgrades_to_every_feature() {
    // Its sidecar has another user and fewer variables.
    upgrade_to_all(FIRST_CHART, "helm", DemoPods::Replaced);
}

#[test]
fn helm_3_upgrades_to_every_feature() {
    upgrade_to_all(CHART, "helm3", DemoPods::Kept);
}

/// The effect of an upgrade on the demo's Pods.
#[derive(Clone, Copy)]
enum DemoPods {
    /// Their template stays the same, so the leader does too.
    Kept,
    /// Their template changes, so new ones replace them, with handoffs.
    Replaced,
}

/// Installs the demo from a chart, upgrades it to every feature of the current chart, and removes
/// it.
fn upgrade_to_all(from: &str, helm: &'static str, demo_pods: DemoPods) {
    let name = unique(&format!("baton-by-{helm}"));
    let mut case = Case::with_election(name.clone(), format!("{name}-demo"));
    case.helm_program = helm;
    let shop = json!({ "elections": { "orders": { "serviceAccountName": "shop" } } });
    let release = Release::install(&case, &name, from, &demo_values(shop.clone()));
    case.wait_for_pods(APPLICATION, 3);
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
    case.note("upgrading the release");
    release.upgrade(&demo_values(all));
    assert!(!release.cluster_wide().is_empty(), "the release has no cluster-wide objects");
    assert_test_passes(&case, &name);
    match demo_pods {
        DemoPods::Kept => {
            assert_eq!((pods(), term()), before, "a new feature touched the demo's Pods");
            assert_eq!(case.terms(), 1, "the leader changed");
        }
        DemoPods::Replaced => {
            case.wait_for_pods(APPLICATION, 3);
            assert!(pods().is_disjoint(&before.0), "old Pods are left of {before:?}");
        }
    }
    case.assert_gaps_within(TIMING.answer_validity + NOISE);
    let report = case.ledger(&format!("{name}-demo-ledger"));
    assert!(report.lines > 0 && (report.refused, report.conflicts) == (0, 0), "{report:?}");

    release.uninstall();
    case.assert_namespace_is_empty();
}

#[test]
fn upgrade_rolls_out_values_with_short_gaps() {
    upgrade(&Case::new("upgraded"));
}

#[test]
fn helm_3_upgrades_and_uninstalls_the_application() {
    let mut case = Case::new("upgraded-by-3");
    case.helm_program = "helm3";
    upgrade(&case);
    case.helm(&["uninstall", "shop", "--wait"]);
    case.wait_for_pods(SHOP, 0);
}

fn upgrade(case: &Case) {
    let old = case.install(json!({}));
    let changed = json!({ "replicas": 2, "baton": { "config": { "logLevel": "debug" } } });
    let upgraded = case.note("upgrading the release");
    case.helm_with(&["upgrade", "shop", "tests/e2e/shop"], &case.values(changed));
    case.successor(&old, upgraded, PATIENCE);
    case.wait_for_pods(SHOP, 2);
    let new = case.leader();
    case.wait_for_log(&new.pod, "baton", 0, r#""level":"DEBUG""#);
    case.assert_gaps_within(TIMING.answer_validity + NOISE);
    case.assert_ledger_is_clean();
}

/// Checks the output: Helm also succeeds for a release without tests.
#[track_caller]
fn assert_test_passes(case: &Case, release: &str) {
    let output = case.helm(&["test", release]);
    let words: Vec<&str> = output.split_whitespace().collect();
    assert!(words.windows(2).any(|pair| pair == ["Phase:", "Succeeded"]), "{output}");
}
