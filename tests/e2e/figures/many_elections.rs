//! The load of fifty elections with three candidates each on one API server, and the extrapolation
//! to a thousand elections. Measures the default durations, and those of `OpenShift`'s operators.
//!
//! The rig does not watch these Pods, since its requests would count too.

use super::cost::Cost;
use crate::rig::{PATIENCE, eventually, run, unique, variable};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const ELECTIONS: u32 = 50;
const CANDIDATES: u32 = 3;
/// How long the API server is measured with the elections.
const BUSY_SPAN: Duration = Duration::from_mins(10);
/// How long the API server is measured without them.
const QUIET_SPAN: Duration = Duration::from_mins(2);
/// How long 150 Pods may take to start or to end on two CPUs.
const PODS_TIMEOUT: Duration = Duration::from_mins(8);

#[test]
fn measure_fifty_elections_at_default_durations() {
    measure("default", &json!([]));
}

#[test]
fn measure_fifty_elections_at_long_durations() {
    measure(
        "long",
        &json!([
            { "name": "BATON_LEASE_DURATION", "value": "137s" },
            { "name": "BATON_RENEW_DEADLINE", "value": "107s" },
            { "name": "BATON_RETRY_PERIOD", "value": "26s" },
        ]),
    );
}

#[expect(clippy::print_stdout, reason = "the output is the result")]
fn measure(durations: &str, environment: &Value) {
    let quiet = Cost::measure(QUIET_SPAN);
    let crowd = Crowd::start(durations, environment);
    let before = crowd.leaders();
    let busy = Cost::measure(BUSY_SPAN);
    let after = crowd.leaders();
    let changed: Vec<_> =
        before.iter().filter(|(election, leader)| after.get(*election) != Some(leader)).collect();
    assert!(changed.is_empty(), "the leader of these elections changed: {changed:?}");
    assert_eq!(crowd.restarts(), 0);

    println!(
        "{ELECTIONS} elections of {CANDIDATES} candidates at the {durations} durations, over {BUSY_SPAN:?}:"
    );
    println!("the API server without them: {quiet}");
    println!("with them: {busy}");
    let extrapolated = |elections: f64| {
        let share = |with: f64, without: f64| (with - without) * elections / f64::from(ELECTIONS);
        let requests = share(busy.requests(), quiet.requests());
        let cpus = share(busy.cpus, quiet.cpus);
        let memory = share(busy.memory_mib, quiet.memory_mib);
        format!("{requests:.2} requests per second, {cpus:.3} CPUs, {memory:.1} MiB")
    };
    println!("one more election: {}", extrapolated(1.0));
    println!("a thousand elections: {}", extrapolated(1000.0));
}

/// A namespace with the candidates of all elections, deleted on drop.
struct Crowd {
    namespace: String,
}

impl Crowd {
    /// Returns when every election has a leader and all candidates are available.
    fn start(name: &str, environment: &Value) -> Self {
        let this = Self { namespace: unique(&format!("figures-many-{name}")) };
        this.kubectl(&["create", "namespace", &this.namespace], "");
        let rights = json!({ "serviceAccountName": "crowd" });
        let elections: BTreeMap<String, Value> =
            names().map(|name| (name, rights.clone())).collect();
        let values = json!({ "elections": elections, "serviceAccount": { "create": true } });
        let install =
            ["--namespace", &this.namespace, "install", "crowd", "charts/baton", "--values", "-"];
        run("helm", &install, &values.to_string()).unwrap_or_else(|error| panic!("helm: {error}"));
        let deployments: Vec<Value> = names().map(|name| deployment(&name, environment)).collect();
        this.kubectl(&["apply", "--filename", "-"], &list(&deployments));
        let timeout = format!("--timeout={}s", PODS_TIMEOUT.as_secs());
        this.kubectl(&["wait", "--for=condition=Available", "deployment", "--all", &timeout], "");
        eventually(PATIENCE, "each election has a leader", || {
            this.leaders().len() == ELECTIONS as usize
        });
        this
    }

    /// The holder and the number of transitions of each election.
    fn leaders(&self) -> BTreeMap<String, (String, u64)> {
        let mut leaders = BTreeMap::new();
        for lease in self.items("leases") {
            let spec = &lease["spec"];
            let (Some(holder), Some(transitions)) =
                (spec["holderIdentity"].as_str(), spec["leaseTransitions"].as_u64())
            else {
                continue;
            };
            let name = lease["metadata"]["name"].as_str().expect("a Lease has a name");
            if !holder.is_empty() {
                leaders.insert(name.to_owned(), (holder.to_owned(), transitions));
            }
        }
        leaders
    }

    fn restarts(&self) -> u64 {
        let restarts = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].as_u64();
        let pods = self.items("pods");
        assert_eq!(pods.len(), (ELECTIONS * CANDIDATES) as usize);
        pods.iter().map(|pod| restarts(pod).expect("the Pod runs")).sum()
    }

    fn items(&self, kind: &str) -> Vec<Value> {
        let list: Value =
            serde_json::from_str(&self.kubectl(&["get", kind, "--output=json"], "")).expect("JSON");
        list["items"].as_array().expect("kubectl prints a list").clone()
    }

    fn kubectl(&self, arguments: &[&str], input: &str) -> String {
        let result =
            run("kubectl", &[&["--namespace", &self.namespace], arguments].concat(), input);
        result.unwrap_or_else(|error| panic!("kubectl {}: {error}", arguments.join(" ")))
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        let timeout = format!("--timeout={}s", PODS_TIMEOUT.as_secs());
        drop(run("kubectl", &["delete", "namespace", &self.namespace, &timeout], ""));
    }
}

fn names() -> impl Iterator<Item = String> {
    (1..=ELECTIONS).map(|number| format!("crowd-{number}"))
}

fn list(items: &[Value]) -> String {
    json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
}

/// The candidates of one election, without an application.
fn deployment(election: &str, environment: &Value) -> Value {
    let mut variables = vec![json!({ "name": "BATON_ELECTION", "value": election })];
    variables.extend(environment.as_array().expect("the environment is a list").iter().cloned());
    let container = json!({ "name": "baton", "image": variable("BATON_IMAGE"), "env": variables });
    let labels = json!({ "app": election });
    let spec = json!({
        "serviceAccountName": "crowd", "terminationGracePeriodSeconds": 10, "containers": [container],
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": election },
        "spec": {
            "replicas": CANDIDATES,
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": spec },
        },
    })
}
