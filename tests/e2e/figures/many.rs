//! What many elections ask of one API server: fifty of three candidates each, for ten minutes at the default durations and for
//! ten at those of `OpenShift`'s operators, and what a thousand would ask.
//!
//! Nothing else looks at these Pods meanwhile: who watched 150 of them would be measured too.

use super::cost::Cost;
use crate::rig::{PATIENCE, eventually, run, unique, variable};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const ELECTIONS: u32 = 50;
const CANDIDATES: u32 = 3;
/// How long the API server is measured, with the elections.
const SPAN: Duration = Duration::from_mins(10);
/// And without them.
const QUIET: Duration = Duration::from_mins(2);
/// How long 150 Pods take to start on two processors, and to go.
const START: Duration = Duration::from_mins(8);

#[test]
fn fifty_elections_at_the_default_durations() {
    measure("default", &json!([]));
}

#[test]
fn fifty_elections_at_calm_durations() {
    measure(
        "calm",
        &json!([
            { "name": "BATON_LEASE_DURATION", "value": "137s" },
            { "name": "BATON_RENEW_DEADLINE", "value": "107s" },
            { "name": "BATON_RETRY_PERIOD", "value": "26s" },
        ]),
    );
}

#[expect(clippy::print_stdout, reason = "the figures are what this is for")]
fn measure(durations: &str, environment: &Value) {
    let quiet = Cost::over(QUIET);
    let crowd = Crowd::start(durations, environment);
    let before = crowd.leaders();
    let busy = Cost::over(SPAN);
    let after = crowd.leaders();
    let lost: Vec<_> =
        before.iter().filter(|(election, leader)| after.get(*election) != Some(leader)).collect();
    assert!(lost.is_empty(), "these have lost their leader: {lost:?}");
    assert_eq!(crowd.restarts(), 0);

    println!(
        "{ELECTIONS} elections of {CANDIDATES} candidates at the {durations} durations, over {SPAN:?}:"
    );
    println!("the API server without them: {quiet}");
    println!("with them: {busy}");
    let times = |elections: f64| {
        let each = |with: f64, without: f64| (with - without) * elections / f64::from(ELECTIONS);
        let requests = each(busy.requests(), quiet.requests());
        let processors = each(busy.processors, quiet.processors);
        let memory = each(busy.memory_mib, quiet.memory_mib);
        format!("{requests:.2} requests a second, {processors:.3} processors, {memory:.1} MiB")
    };
    println!("one election more: {}", times(1.0));
    println!("a thousand: {}", times(1000.0));
}

/// A namespace full of candidates. It is deleted with all of them when this is dropped.
struct Crowd {
    namespace: String,
}

impl Crowd {
    /// Returns once each election has its leader and all its followers.
    fn start(name: &str, environment: &Value) -> Self {
        let this = Self { namespace: unique(&format!("figures-many-{name}")) };
        this.kubectl(&["create", "namespace", &this.namespace], "");
        let of = json!({ "serviceAccountName": "crowd" });
        let elections: BTreeMap<String, Value> = names().map(|name| (name, of.clone())).collect();
        let values = json!({ "elections": elections, "serviceAccount": { "create": true } });
        let install =
            ["--namespace", &this.namespace, "install", "crowd", "charts/baton", "--values", "-"];
        run("helm", &install, &values.to_string()).unwrap_or_else(|error| panic!("helm: {error}"));
        let deployments: Vec<Value> = names().map(|name| deployment(&name, environment)).collect();
        this.kubectl(&["apply", "--filename", "-"], &list(&deployments));
        let timeout = format!("--timeout={}s", START.as_secs());
        this.kubectl(&["wait", "--for=condition=Available", "deployment", "--all", &timeout], "");
        eventually(PATIENCE, "each election has a leader", || {
            this.leaders().len() == ELECTIONS as usize
        });
        this
    }

    /// Who leads each election, and after how many changes.
    fn leaders(&self) -> BTreeMap<String, (String, u64)> {
        let mut leaders = BTreeMap::new();
        for lease in self.items("leases") {
            let spec = &lease["spec"];
            let (Some(holder), Some(changes)) =
                (spec["holderIdentity"].as_str(), spec["leaseTransitions"].as_u64())
            else {
                continue;
            };
            let name = lease["metadata"]["name"].as_str().expect("it has a name");
            if !holder.is_empty() {
                leaders.insert(name.to_owned(), (holder.to_owned(), changes));
            }
        }
        leaders
    }

    fn restarts(&self) -> u64 {
        let restarts = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].as_u64();
        let pods = self.items("pods");
        assert_eq!(pods.len(), (ELECTIONS * CANDIDATES) as usize);
        pods.iter().map(|pod| restarts(pod).expect("it runs")).sum()
    }

    fn items(&self, kind: &str) -> Vec<Value> {
        let told: Value =
            serde_json::from_str(&self.kubectl(&["get", kind, "--output=json"], "")).expect("JSON");
        told["items"].as_array().expect("it is a list").clone()
    }

    fn kubectl(&self, arguments: &[&str], input: &str) -> String {
        let told = run("kubectl", &[&["--namespace", &self.namespace], arguments].concat(), input);
        told.unwrap_or_else(|error| panic!("kubectl {}: {error}", arguments.join(" ")))
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        let timeout = format!("--timeout={}s", START.as_secs());
        drop(run("kubectl", &["delete", "namespace", &self.namespace, &timeout], ""));
    }
}

fn names() -> impl Iterator<Item = String> {
    (1..=ELECTIONS).map(|number| format!("crowd-{number}"))
}

fn list(items: &[Value]) -> String {
    json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
}

/// The candidates of one election, with no application beside them.
fn deployment(election: &str, environment: &Value) -> Value {
    let mut variables = vec![json!({ "name": "BATON_ELECTION", "value": election })];
    variables.extend(environment.as_array().expect("they are variables").iter().cloned());
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
