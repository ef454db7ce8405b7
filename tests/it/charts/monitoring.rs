//! The chart's objects for Prometheus and Grafana: alerts, dashboard queries, and the `PodMonitor`.
//!
//! promtool is real. It and the operator's resource definitions come from
//! tests/servers/prometheus/build.sh. promtool's tests of the alerts are in
//! tests/servers/prometheus/alerts.yaml.

use super::server::{create, dry_run};
use super::tools::{assert_refused, chart, find, in_repository, objects_in, rendered};
use crate::docs::listed_metrics;
use crate::rig::{ApiServer, eventually};
use regex::Regex;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

const ALERTS: [&str; 8] = [
    "BatonElectionAbsent",
    "BatonFlapping",
    "BatonHandoverStuck",
    "BatonLeaseStale",
    "BatonNoLeader",
    "BatonRenewalsSlow",
    "BatonSeveralLeaders",
    "BatonUnfit",
];

/// Two elections that `BatonElectionAbsent` watches, and one that it does not.
const WANTED: &str = "--set-json=elections={\
    \"orders\":{\"namespace\":\"sales\",\"serviceAccountName\":\"shop\",\"alert\":true},\
    \"bills\":{\"namespace\":\"sales\",\"serviceAccountName\":\"shop\",\"alert\":true},\
    \"reports\":{\"namespace\":\"sales\",\"serviceAccountName\":\"shop\",\"alert\":false}}";

/// The metrics of a Lease that kube-state-metrics exports.
const LEASE_METRICS: [&str; 2] = ["kube_lease_owner", "kube_lease_renew_time"];

#[test]
fn every_alert_fires_and_clears() {
    let folder = TempDir::new().unwrap();
    let objects = rendered(&[
        WANTED,
        "--set=prometheusRule.enabled=true,prometheusRule.runbookUrl=https://runbooks.test",
    ]);
    let rules = find(&objects, "PrometheusRule", "test-alerts")["spec"].to_string();
    fs::write(folder.path().join("rules.yaml"), rules).unwrap();
    fs::copy(
        in_repository("tests/servers/prometheus/alerts.yaml"),
        folder.path().join("alerts.yaml"),
    )
    .unwrap();
    promtool(folder.path(), &["check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"]);
    promtool(folder.path(), &["test", "rules", "alerts.yaml"]);
    let tests = objects_in("tests/servers/prometheus/alerts.yaml").remove(0);
    for alert in ALERTS {
        let cases = tests["tests"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|test| test["alert_rule_test"].as_array().unwrap());
        let fires = cases
            .filter(|case| case["alertname"] == alert)
            .map(|case| case["exp_alerts"] != json!([]));
        let fires: Vec<_> = fires.collect();
        assert!(
            fires.contains(&true) && fires.last() == Some(&false),
            "no test shows that {alert} fires and clears"
        );
    }
}

#[test]
fn every_alert_contains_its_runbook() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("rules.yaml"), rule()["spec"].to_string()).unwrap();
    // Prometheus expands annotations as templates.
    promtool(folder.path(), &["check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"]);
    let link = Regex::new(r"\[([^]]*)\]\([^)]*\)").unwrap();
    let above = Regex::new(r"\[([^]]*)\]\(\.\./\.\./([^)]*)\)").unwrap();
    let beside = Regex::new(r"\[([^]]*)\]\(\.\./([^)]*)\)").unwrap();
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let rules = rule()["spec"]["groups"][0]["rules"].clone();
    let names: BTreeSet<_> =
        rules.as_array().unwrap().iter().map(|rule| rule["alert"].as_str().unwrap()).collect();
    assert_eq!(names, BTreeSet::from(ALERTS));
    for rule in rules.as_array().unwrap() {
        let [name, severity] =
            [&rule["alert"], &rule["labels"]["severity"]].map(|word| word.as_str().unwrap());
        let page = rule["annotations"]["runbook"]
            .as_str()
            .expect("an alert without a URL contains its runbook");
        assert_eq!(rule["annotations"]["runbook_url"], Value::Null, "{name} has no URL to link");
        assert!(!link.is_match(page) && !page.contains("{{"), "{page}");
        let source =
            fs::read_to_string(in_repository(&format!("docs/operating/runbooks/{name}.md")))
                .unwrap();
        let source = above.replace_all(&source, "$1 (docs/$2)");
        let source = beside.replace_all(&source, "$1 (docs/operating/$2)");
        assert_eq!(words(page), words(&link.replace_all(&source, "$1")), "{name}");
        assert!(page.starts_with(&format!("# {name}\n")), "{page}");
        assert!(page.to_lowercase().contains(&format!("\n{severity}. ")), "{page}");
    }
}

/// The URL contains the placeholders of other values, which must not be expanded in it.
#[test]
fn alerts_link_to_runbooks_at_any_url() {
    let wiki = "https://wiki.test/PLATFORM/WINDOW";
    let url = format!("--set=prometheusRule.enabled=true,prometheusRule.runbookUrl={wiki}/");
    let objects = rendered(&[&url]);
    let rules = find(&objects, "PrometheusRule", "test-alerts")["spec"]["groups"][0]["rules"]
        .as_array()
        .unwrap();
    for rule in rules {
        let page = format!("{wiki}/{}.md", rule["alert"].as_str().unwrap());
        assert_eq!(rule["annotations"]["runbook_url"], page);
        assert_eq!(rule["annotations"]["runbook"], Value::Null);
    }
    let relative = "--set=prometheusRule.runbookUrl=docs/operating/runbooks";
    assert_refused(
        &chart("baton"),
        relative,
        &["/prometheusRule/runbookUrl", "docs/operating/runbooks"],
    );
}

#[test]
fn wanted_election_without_rules_is_refused() {
    let wanted = "--set=elections.orders.serviceAccountName=shop,elections.orders.alert=true";
    let words = ["elections.orders.alert needs prometheusRule.enabled"];
    assert_refused(&chart("baton"), wanted, &words);
    let rules = rendered(&["--set=prometheusRule.enabled=true"]);
    let rules = find(&rules, "PrometheusRule", "test-alerts").to_string();
    assert!(!rules.contains("BatonElectionAbsent"), "no election is wanted");
}

/// The threshold is a duration in the values, and in the rule a number of seconds, which every
/// version of Prometheus accepts.
#[test]
fn stale_lease_threshold_follows_the_values() {
    for (window, seconds) in [("90s", 90), ("4m", 240), ("1h", 3600)] {
        let window = format!(
            "--set=prometheusRule.enabled=true,prometheusRule.window.BatonLeaseStale={window}"
        );
        let objects = rendered(&[&window]);
        let rules = find(&objects, "PrometheusRule", "test-alerts")["spec"]["groups"][0]["rules"]
            .as_array()
            .unwrap();
        let stale = rules.iter().find(|rule| rule["alert"] == "BatonLeaseStale").unwrap();
        assert!(stale["expr"].as_str().unwrap().contains(&format!(") > {seconds}\n")), "{stale:#}");
    }
}

#[test]
fn queries_use_only_existing_metrics() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut queries: Vec<_> =
        targets.map(|target| with_variables(target["expr"].as_str().unwrap())).collect();
    assert!(queries.len() >= panels.len());
    let rules: Vec<_> =
        queries.iter().map(|query| json!({"record": "a:b:c", "expr": query})).collect();
    let folder = TempDir::new().unwrap();
    fs::write(
        folder.path().join("queries.yaml"),
        json!({"groups": [{"name": "a", "rules": rules}]}).to_string(),
    )
    .unwrap();
    promtool(folder.path(), &["check", "rules", "--lint=none", "queries.yaml"]);

    let rules = rule()["spec"]["groups"][0]["rules"].clone();
    queries.extend(
        rules.as_array().unwrap().iter().map(|rule| rule["expr"].as_str().unwrap().to_owned()),
    );
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    queries.extend(
        variables
            .iter()
            .filter_map(|variable| variable["query"]["query"].as_str().map(str::to_owned)),
    );
    let metric = Regex::new(r"\b(?:baton|kube|leader|process)_[a-z_]+").unwrap();
    let known: BTreeSet<_> =
        listed_metrics().into_iter().chain(LEASE_METRICS.map(str::to_owned)).collect();
    for query in &queries {
        for name in metric.find_iter(query) {
            let name = name.as_str().trim_end_matches("_bucket");
            assert!(known.contains(name), "no program exports {name}, which {query} uses");
        }
    }
}

#[test]
fn panels_have_descriptions_and_do_not_overlap() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut taken = BTreeSet::new();
    for panel in panels {
        assert!(panel["description"].as_str().is_some_and(|text| text.ends_with('.')), "{panel:#}");
        let [x, y, w, h] =
            ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
        assert!(x + w <= 24, "{panel:#}");
        let squares = (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y)));
        assert!(
            squares.into_iter().all(|square| taken.insert(square)),
            "it overlaps another panel: {panel:#}"
        );
    }
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len());
}

/// It keeps the container and port names of every form of the sidecar in the charts, and no others.
#[test]
fn pod_monitor_selects_only_sidecars() {
    let objects = rendered(&[
        "--set=podMonitor.enabled=true,podMonitor.labels.release=prometheus,demo.enabled=true",
    ]);
    let monitor = find(&objects, "PodMonitor", "test-sidecars");
    assert_eq!(monitor["metadata"]["labels"]["release"], "prometheus");
    let keep =
        monitor["spec"]["podMetricsEndpoints"][0]["relabelings"][0]["regex"].as_str().unwrap();
    let keep = Regex::new(&format!("^(?:{keep})$")).unwrap();
    let pod = &find(&objects, "Deployment", "test-baton-demo")["spec"]["template"]["spec"];
    let sidecar = &pod["initContainers"][0];
    let kept = |container: &Value| -> Vec<u64> {
        let name = container["name"].as_str().unwrap();
        let ports = container["ports"].as_array().unwrap().iter();
        let ports = ports
            .filter(|port| keep.is_match(&format!("{name};{}", port["name"].as_str().unwrap())));
        ports.map(|port| port["containerPort"].as_u64().unwrap()).collect()
    };
    assert_eq!(kept(sidecar), [4041]);
    let second =
        json!([{"name": "baton-reports"}, {"name": "metrics-reports", "containerPort": 4051}]);
    assert_eq!(kept(&json!({"name": "baton-reports", "ports": second})), [4051]);
    assert_eq!(
        kept(&json!({"name": "shop", "ports": [{"name": "metrics", "containerPort": 80}]})),
        [0; 0]
    );
}

/// With the operator's own resource definitions and strict validation, because a misspelt field
/// would be dropped silently.
#[test]
fn api_server_accepts_the_operators_objects() {
    let namespace = ApiServer::shared().namespace();
    for file in ["podmonitors", "prometheusrules"] {
        let text = fs::read_to_string(built(&format!("{file}.yaml"))).unwrap();
        create(&namespace.admin, &namespace.name, &super::tools::objects(&text)[0]).unwrap();
    }
    let objects = rendered(&["--set=podMonitor.enabled=true,prometheusRule.enabled=true"]);
    for (kind, name) in [("PodMonitor", "test-sidecars"), ("PrometheusRule", "test-alerts")] {
        let mut object = find(&objects, kind, name).clone();
        object["metadata"]["namespace"] = namespace.name.clone().into();
        let post = || dry_run(&namespace.admin, &namespace.name, &object);
        eventually(Duration::from_secs(30), "the server knows the kind", || {
            !post().is_err_and(|refusal| refusal.contains("404"))
        });
        let admitted = post();
        assert!(admitted.is_ok(), "{admitted:?}");
        object["spec"]["misspelt"] = true.into();
        let refusal = dry_run(&namespace.admin, &namespace.name, &object).unwrap_err();
        assert!(refusal.contains("misspelt"), "{refusal}");
    }
}

fn rule() -> Value {
    let one = "--set=prometheusRule.enabled=true,elections.orders.serviceAccountName=shop,\
               elections.orders.alert=true";
    find(&rendered(&[one]), "PrometheusRule", "test-alerts").clone()
}

fn dashboard() -> Value {
    let objects = rendered(&["--set=dashboard.enabled=true"]);
    let map = find(&objects, "ConfigMap", "test-dashboard");
    assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
    serde_json::from_str(map["data"]["baton.json"].as_str().unwrap()).unwrap()
}

/// A query as Grafana sends it.
fn with_variables(query: &str) -> String {
    query.replace("$namespace", ".*").replace("$election", ".*").replace("$__rate_interval", "1m")
}

fn promtool(folder: &Path, arguments: &[&str]) {
    let output = Command::new(built("promtool"))
        .env_clear()
        .current_dir(folder)
        .args(arguments)
        .output()
        .unwrap();
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    assert!(output.status.success(), "{arguments:?}: {text}");
}

/// A file that tests/servers/prometheus/build.sh has built or fetched.
pub(super) fn built(name: &str) -> PathBuf {
    let path = in_repository(".cache/prometheus").join(name);
    assert!(
        path.is_file(),
        "{} is missing: run `make test`, or tests/servers/prometheus/build.sh once",
        path.display()
    );
    path
}
