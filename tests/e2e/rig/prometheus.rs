//! A real Prometheus, on the control plane's node: it finds a case's sidecars as the chart's `PodMonitor` says, and judges the
//! chart's alerts. Beside it kube-state-metrics tells of Leases.
//!
//! Nobody runs the Prometheus operator here: what it makes of a `PodMonitor` is in [`configuration`]. Who begins says by the
//! chart's values how often Prometheus looks and how long an alert lasts before it fires; the rules are the chart's.

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

/// Where the next one answers on its node, and its kube-state-metrics one port further: cases run beside each other.
static PORT: AtomicU16 = AtomicU16::new(9300);

pub(crate) struct Prometheus<'a> {
    case: &'a Case,
    node: &'static Node,
    port: u16,
    /// On the node: its configuration, its data and both process ids.
    folder: String,
    /// What the engine runs it by. It ends with it.
    server: Child,
    dashboard: Value,
}

impl<'a> Prometheus<'a> {
    /// Watches the sidecars of this case, with these of the chart's values.
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
            objects.iter().find(|object| object["kind"] == kind).expect("the chart has it")
        };
        let port = PORT.fetch_add(2, Ordering::Relaxed);
        let states = port + 1;
        let here = Path::new("target/e2e").join(format!("{}-prometheus", case.namespace));
        fs::create_dir_all(&here).expect("the folder can be made");
        for (file, content) in [
            ("prometheus.yaml", configuration(find("PodMonitor"), &case.namespace, states)),
            ("rules.yaml", find("PrometheusRule")["spec"].clone()),
        ] {
            fs::write(here.join(file), content.to_string()).expect("it can be written");
        }
        let dashboard = find("ConfigMap")["data"]["baton.json"].as_str().expect("it is a text");
        let dashboard = serde_json::from_str(dashboard).expect("Grafana takes JSON");

        let node = case.cluster.control_plane();
        let folder = format!("/var/{}-prometheus", case.namespace);
        let copied = run(
            &node.engine,
            &["cp", &here.to_string_lossy(), &format!("{}:{folder}", node.name)],
            "",
        );
        copied.unwrap_or_else(|error| panic!("Prometheus' files are not copied: {error}"));
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
            server.stderr(Stdio::null()).spawn().expect("the engine is there: it made the node");
        let this = Self { case, node, port, folder, server, dashboard };
        eventually(PATIENCE, "Prometheus answers", || this.get("/-/ready", &[]).is_some());
        this
    }

    /// Waits until the sidecars of three Pods have been scraped, and this Pod's leads. `gone` may be there still.
    #[track_caller]
    pub(crate) fn wait_for_leader(&self, pod: &str, gone: &str) {
        let told = |pods: &str| {
            format!("baton_is_leader{{namespace=\"{}\", pod{pods}}}", self.case.namespace)
        };
        let (all, leader) = (told(&format!("!=\"{gone}\"")), told(&format!("=\"{pod}\"")));
        let query = format!("count({all}) == 3 and sum({leader}) == 1");
        eventually(PATIENCE, "Prometheus has seen all copies, and who leads", || {
            self.get("/api/v1/query", &[("query", &query)])
                .is_some_and(|told| told["data"]["result"] != json!([]))
        });
    }

    /// Waits until an alert about the case's election is firing, or is not any more.
    #[track_caller]
    pub(crate) fn wait_for_alert(&self, alert: &str, fires: bool) {
        let since = self.case.now();
        let what = format!("{alert} {}", if fires { "fires" } else { "has cleared" });
        succeeds(PATIENCE, &what, || {
            let firing = self.firing();
            if firing.contains(&alert.to_owned()) == fires {
                Ok(())
            } else {
                Err(format!("these are firing: {firing:?}"))
            }
        });
        self.case.note(&format!("{what}, {:?} after that", self.case.now().since(since)));
    }

    /// Whether an alert about the case's election is firing.
    #[track_caller]
    pub(crate) fn fires(&self, alert: &str) -> bool {
        self.firing().contains(&alert.to_owned())
    }

    /// The alerts that are firing about the case's election.
    #[track_caller]
    pub(crate) fn firing(&self) -> Vec<String> {
        let told = wait_for(PATIENCE, "Prometheus answers", || self.get("/api/v1/alerts", &[]));
        let alerts = told["data"]["alerts"].as_array().cloned().unwrap_or_default();
        let of_ours = alerts
            .iter()
            .filter(|alert| alert["state"] == "firing" && self.is_ours(&alert["labels"]));
        of_ours
            .filter_map(|alert| alert["labels"]["alertname"].as_str().map(str::to_owned))
            .collect()
    }

    /// The panels of the dashboard with a query that has shown nothing at any time. What all of them have shown is kept in
    /// target/e2e, beside the case's timeline.
    #[track_caller]
    pub(crate) fn blind_panels(&self) -> Vec<String> {
        let mut shown = Vec::new();
        for panel in self.dashboard["panels"].as_array().expect("it has panels") {
            for target in panel["targets"].as_array().expect("it asks") {
                let series = self.history(&self.as_grafana_sends(&target["expr"]));
                shown.push(json!({ "title": panel["title"], "legend": target["legendFormat"], "series": series }));
            }
        }
        let file = Path::new("target/e2e").join(format!("{}-panels.json", self.case.namespace));
        fs::write(file, Value::from(shown.clone()).to_string()).expect("it can be written");
        shown.retain(|panel| panel["series"] == json!([]));
        shown.iter().map(|panel| panel["title"].to_string()).collect()
    }

    /// The series that a query had at any time in the last ten minutes.
    fn history(&self, query: &str) -> Value {
        let now = self.node.exec(&["date", "+%s"]).trim().parse::<u64>().expect("it is a number");
        let [start, end] = [now - 600, now].map(|time| time.to_string());
        let told = self.get(
            "/api/v1/query_range",
            &[("query", query), ("start", &start), ("end", &end), ("step", "1")],
        );
        told.unwrap_or_else(|| panic!("Prometheus does not take {query}"))["data"]["result"].clone()
    }

    fn as_grafana_sends(&self, query: &Value) -> String {
        let query =
            query.as_str().expect("it is a text").replace("$namespace", &self.case.namespace);
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
        let told = run(&self.node.engine, &command, "").ok()?;
        Some(serde_json::from_str(&told).unwrap_or(Value::String(told)))
    }
}

impl Drop for Prometheus<'_> {
    fn drop(&mut self) {
        let end = format!(
            "tail -n 20 {0}/log {0}/states.log; kill -KILL $(cat {0}/pids); rm -rf {0}",
            self.folder
        );
        let log = run(&self.node.engine, &["exec", &self.node.name, "sh", "-c", &end], "");
        self.case.note(&format!("Prometheus has ended: {log:?}"));
        // The engine's program goes too: it might wait on for what has ended.
        drop(self.server.kill());
        drop(self.server.wait());
    }
}

/// What the operator makes of a `PodMonitor`: whom it finds, and the labels that it adds. Only the case's namespace is watched,
/// whose alerts are judged by times of its own.
fn configuration(monitor: &Value, namespace: &str, states: u16) -> Value {
    let endpoint = &monitor["spec"]["podMetricsEndpoints"][0];
    let label = |name: &str| format!("__meta_kubernetes_{name}");
    let mut relabelings = vec![
        json!({ "action": "drop", "source_labels": [label("pod_phase")], "regex": "(Failed|Succeeded)" }),
        json!({ "source_labels": [label("namespace")], "target_label": "namespace" }),
        json!({ "source_labels": [label("pod_container_name")], "target_label": "container" }),
        json!({ "source_labels": [label("pod_name")], "target_label": "pod" }),
    ];
    relabelings.extend(endpoint["relabelings"].as_array().expect("it has some").iter().map(
        |ours| json!({ "action": ours["action"], "source_labels": ours["sourceLabels"], "regex": ours["regex"] }),
    ));
    let found = json!({
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
        "kubernetes_sd_configs": [found],
        "relabel_configs": relabelings,
    });
    let every = &endpoint["interval"];
    let global =
        json!({ "scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every });
    let states = json!({
        "job_name": "kube-state-metrics",
        "honor_labels": true,
        "static_configs": [{ "targets": [format!("127.0.0.1:{states}")] }],
    });
    json!({ "global": global, "rule_files": ["rules.yaml"], "scrape_configs": [job, states] })
}
