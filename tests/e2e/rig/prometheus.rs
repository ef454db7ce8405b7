//! A real Prometheus on the control plane's node, with the chart's `PodMonitor` and alerts. Next to
//! it kube-state-metrics exports Leases.
//!
//! [`configuration`] does the work of the Prometheus operator, which does not run here. The case
//! sets intervals by the chart's values; the rules are the chart's.

use super::PATIENCE;
use super::case::Case;
use super::command::run;
use super::history::{eventually, succeeds, wait_for};
use super::node::Node;
use super::shop::merge;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

/// The port of the next instance, since cases run in parallel. kube-state-metrics has the port
/// after it.
static NEXT_PORT: AtomicU16 = AtomicU16::new(9300);

pub(crate) struct Prometheus<'a> {
    case: &'a Case,
    node: &'static Node,
    port: u16,
    /// A folder on the node with configuration, data, and the process ids.
    folder: String,
    /// The engine's process that runs Prometheus, and ends with it.
    server: Child,
    dashboard: Value,
}

impl<'a> Prometheus<'a> {
    /// Starts Prometheus for the sidecars of this case, with overrides of the chart's values.
    #[track_caller]
    pub(crate) fn begin(case: &'a Case, values: Value) -> Self {
        let mut all = json!({
            "podMonitor": { "enabled": true }, "prometheusRule": { "enabled": true }, "dashboard": { "enabled": true },
        });
        merge(&mut all, values);
        let rendered = case.helm_with(&["template", &case.namespace, "charts/baton"], &all);
        let objects: Vec<Value> =
            serde_saphyr::from_multiple(&rendered).expect("Helm renders YAML");
        let find = |kind: &str| {
            objects
                .iter()
                .find(|object| object["kind"] == kind)
                .expect("the chart renders this kind")
        };
        let port = NEXT_PORT.fetch_add(2, Ordering::Relaxed);
        let states = port + 1;
        let here = Path::new("target/e2e").join(format!("{}-prometheus", case.namespace));
        fs::create_dir_all(&here).expect("the folder can be created");
        for (file, content) in [
            ("prometheus.yaml", configuration(find("PodMonitor"), &case.namespace, states)),
            ("rules.yaml", find("PrometheusRule")["spec"].clone()),
        ] {
            fs::write(here.join(file), content.to_string()).expect("the file can be written");
        }
        let dashboard =
            find("ConfigMap")["data"]["baton.json"].as_str().expect("the dashboard is a string");
        let dashboard = serde_json::from_str(dashboard).expect("the dashboard is JSON");

        let node = case.cluster.control_plane();
        let folder = format!("/var/{}-prometheus", case.namespace);
        let copied = run(
            &node.engine,
            &["cp", &here.to_string_lossy(), &format!("{}:{folder}", node.name)],
            "",
        );
        copied.unwrap_or_else(|error| panic!("failed to copy the files of Prometheus: {error}"));
        let script = format!(
            "cd {folder} || exit; \
             kube-state-metrics --kubeconfig=/etc/kubernetes/admin.conf --resources=leases --namespaces={} \
             --host=127.0.0.1 --port={states} --telemetry-host=127.0.0.1 --telemetry-port=0 > states.log 2>&1 & \
             echo $! $$ > pids; \
             exec prometheus --config.file=prometheus.yaml --storage.tsdb.path=data --web.listen-address=127.0.0.1:{port} \
             > log 2>&1",
            case.namespace
        );
        let mut server = Command::new(&node.engine);
        server
            .args(["exec", &node.name, "sh", "-c", &script])
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let server =
            server.stderr(Stdio::null()).spawn().expect("the engine that created the node runs");
        let this = Self { case, node, port, folder, server, dashboard };
        eventually(PATIENCE, "Prometheus answers", || this.get("/-/ready", &[]).is_some());
        this
    }

    /// Waits until Prometheus has scraped three Pods besides `gone`, and `pod` leads.
    #[track_caller]
    pub(crate) fn wait_for_leader(&self, pod: &str, gone: &str) {
        let series = |pods: &str| {
            format!("baton_is_leader{{namespace=\"{}\", pod{pods}}}", self.case.namespace)
        };
        let (all, leader) = (series(&format!("!=\"{gone}\"")), series(&format!("=\"{pod}\"")));
        let query = format!("count({all}) == 3 and sum({leader}) == 1");
        eventually(PATIENCE, "Prometheus has scraped all candidates and the leader", || {
            self.get("/api/v1/query", &[("query", &query)])
                .is_some_and(|answer| answer["data"]["result"] != json!([]))
        });
    }

    /// Waits until an alert for the case's election fires, or clears.
    #[track_caller]
    pub(crate) fn wait_for_alert(&self, alert: &str, fires: bool) {
        let since = self.case.now();
        let what = format!("{alert} {}", if fires { "fires" } else { "clears" });
        succeeds(PATIENCE, &what, || {
            let firing = self.firing();
            if firing.contains(&alert.to_owned()) == fires {
                Ok(())
            } else {
                Err(format!("firing: {firing:?}"))
            }
        });
        self.case.note(&format!("{what}, {:?} later", self.case.now().since(since)));
    }

    /// Whether an alert for the case's election is firing.
    #[track_caller]
    pub(crate) fn fires(&self, alert: &str) -> bool {
        self.firing().contains(&alert.to_owned())
    }

    /// The firing alerts for the case's election.
    #[track_caller]
    pub(crate) fn firing(&self) -> Vec<String> {
        let answer = wait_for(PATIENCE, "Prometheus answers", || self.get("/api/v1/alerts", &[]));
        let alerts = answer["data"]["alerts"].as_array().cloned().unwrap_or_default();
        let ours = alerts
            .iter()
            .filter(|alert| alert["state"] == "firing" && self.is_ours(&alert["labels"]));
        ours.filter_map(|alert| alert["labels"]["alertname"].as_str().map(str::to_owned)).collect()
    }

    /// The panels with a query that never returned data. Writes the data of all panels to
    /// target/e2e.
    #[track_caller]
    pub(crate) fn empty_panels(&self) -> Vec<String> {
        let mut shown = Vec::new();
        for panel in self.dashboard["panels"].as_array().expect("the dashboard has panels") {
            for target in panel["targets"].as_array().expect("a panel has queries") {
                let series = self.history(&self.with_variables(&target["expr"]));
                shown.push(json!({ "title": panel["title"], "legend": target["legendFormat"], "series": series }));
            }
        }
        let file = Path::new("target/e2e").join(format!("{}-panels.json", self.case.namespace));
        fs::write(file, Value::from(shown.clone()).to_string()).expect("the file can be written");
        shown.retain(|panel| panel["series"] == json!([]));
        shown.iter().map(|panel| panel["title"].to_string()).collect()
    }

    /// The series of a query in the last ten minutes.
    fn history(&self, query: &str) -> Value {
        let now =
            self.node.exec(&["date", "+%s"]).trim().parse::<u64>().expect("date prints a number");
        let [start, end] = [now - 600, now].map(|time| time.to_string());
        let answer = self.get(
            "/api/v1/query_range",
            &[("query", query), ("start", &start), ("end", &end), ("step", "1")],
        );
        answer.unwrap_or_else(|| panic!("Prometheus refused the query {query}"))["data"]["result"]
            .clone()
    }

    /// Replaces the variables of a dashboard query, as Grafana does.
    fn with_variables(&self, query: &Value) -> String {
        let query = query
            .as_str()
            .expect("a query is a string")
            .replace("$namespace", &self.case.namespace);
        query
            .replace("$election", &self.case.election)
            .replace("$__rate_interval", "10s")
            .replace("[1h]", "[30s]")
    }

    fn is_ours(&self, labels: &Value) -> bool {
        labels["namespace"] == *self.case.namespace && labels["election"] == *self.case.election
    }

    fn get(&self, path: &str, parameters: &[(&str, &str)]) -> Option<Value> {
        let mut command: Vec<String> =
            ["exec", &self.node.name, "curl", "--silent", "--fail", "--get"]
                .map(str::to_owned)
                .into();
        for (name, value) in parameters {
            command.extend(["--data-urlencode".to_owned(), format!("{name}={value}")]);
        }
        command.push(format!("http://127.0.0.1:{}{path}", self.port));
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let body = run(&self.node.engine, &command, "").ok()?;
        Some(serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }
}

impl Drop for Prometheus<'_> {
    fn drop(&mut self) {
        let end = format!(
            "tail -n 20 {0}/log {0}/states.log; kill -KILL $(cat {0}/pids); rm -rf {0}",
            self.folder
        );
        let log = run(&self.node.engine, &["exec", &self.node.name, "sh", "-c", &end], "");
        self.case.note(&format!("stopped Prometheus: {log:?}"));
        // The engine's process may not notice the end, so it is killed too.
        drop(self.server.kill());
        drop(self.server.wait());
    }
}

/// The configuration that the operator generates from a `PodMonitor`: targets, and the labels that
/// it adds. It covers only the case's namespace, since each case has its own intervals.
fn configuration(monitor: &Value, namespace: &str, states: u16) -> Value {
    let endpoint = &monitor["spec"]["podMetricsEndpoints"][0];
    let label = |name: &str| format!("__meta_kubernetes_{name}");
    let mut relabelings = vec![
        json!({ "action": "drop", "source_labels": [label("pod_phase")], "regex": "(Failed|Succeeded)" }),
        json!({ "source_labels": [label("namespace")], "target_label": "namespace" }),
        json!({ "source_labels": [label("pod_container_name")], "target_label": "container" }),
        json!({ "source_labels": [label("pod_name")], "target_label": "pod" }),
    ];
    relabelings.extend(endpoint["relabelings"].as_array().expect("the PodMonitor has relabelings").iter().map(
        |ours| json!({ "action": ours["action"], "source_labels": ours["sourceLabels"], "regex": ours["regex"] }),
    ));
    let discovery = json!({
        "role": "pod", "kubeconfig_file": "/etc/kubernetes/admin.conf", "namespaces": { "names": [namespace] },
    });
    let limits = &monitor["spec"];
    let job = json!({
        "job_name": format!("{namespace}/sidecars"),
        "metrics_path": endpoint["path"],
        "follow_redirects": endpoint["followRedirects"],
        "sample_limit": limits["sampleLimit"],
        "label_limit": limits["labelLimit"],
        "label_name_length_limit": limits["labelNameLengthLimit"],
        "label_value_length_limit": limits["labelValueLengthLimit"],
        "body_size_limit": limits["bodySizeLimit"],
        "kubernetes_sd_configs": [discovery],
        "relabel_configs": relabelings,
    });
    let interval = &endpoint["interval"];
    let global = json!({ "scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval });
    let states = json!({
        "job_name": "kube-state-metrics",
        "honor_labels": true,
        "static_configs": [{ "targets": [format!("127.0.0.1:{states}")] }],
    });
    json!({ "global": global, "rule_files": ["rules.yaml"], "scrape_configs": [job, states] })
}
