//! Injection of the sidecar by the platform's policy, for Pods of every workload, under Pod
//! Security `restricted`.
//!
//! Policies apply to the whole cluster, so each case has its own release and prefix.

use crate::rig::{
    CHART, Case, NOISE, PATIENCE, Pod, Release, SHOP, TIMING, eventually, image_values, run,
    succeeds, variable,
};
use serde_json::{Value, json};

/// How many lines the Job writes.
const LINES: u64 = 20;

/// A part of the API server's refusal of a labeled Pod without an election.
const REFUSAL: &str = "no election is named";

#[test]
fn injected_deployment_elects_and_hands_over() {
    let case = Case::new("injected-deployment");
    let platform = Platform::install(&case);
    let old = case.install(platform.values(&json!({ "kind": "Deployment" })));
    assert_eq!(init_containers(&case), ["baton"]);
    let deleted = case.note("deleting the leader");
    case.kubectl(&["delete", "pod", &old.pod, "--wait=false"]);
    case.successor(&old, deleted, PATIENCE);
    case.assert_gaps_within(TIMING.answer_validity + NOISE);
    case.assert_ledger_is_clean();
}

#[test]
fn injected_stateful_set_starts_the_sidecar_first() {
    let case = Case::new("injected-set");
    let platform = Platform::install(&case);
    case.install(platform.values(&json!({ "kind": "StatefulSet", "migrates": true })));
    assert_eq!(init_containers(&case), ["baton", "migrate"]);
    case.assert_ledger_is_clean();
}

#[test]
fn injected_jobs_and_cron_jobs_complete() {
    for kind in ["Job", "CronJob"] {
        let case = Case::new(&format!("injected-{}", kind.to_lowercase()));
        let platform = Platform::install(&case);
        let values =
            platform.values(&json!({ "kind": kind, "args": ["--lines", LINES.to_string()] }));
        case.helm_with(&["install", "shop", "tests/e2e/shop"], &case.values(values));
        if kind == "CronJob" {
            // The next scheduled Job may be a minute away, and would be the same.
            case.kubectl(&["patch", "cronjob", "shop", "--patch", r#"{"spec":{"suspend":true}}"#]);
            case.kubectl(&["delete", "jobs", "--all"]);
            case.kubectl(&["create", "job", "shop", "--from=cronjob/shop"]);
        }
        case.kubectl(&[
            "wait",
            "--for=condition=Complete",
            "job/shop",
            &format!("--timeout={}s", PATIENCE.as_secs()),
        ]);
        assert_eq!(init_containers(&case), ["baton"]);
        assert!(case.assert_ledger_is_clean().lines >= LINES);
    }
}

#[test]
fn pod_with_a_sidecar_gets_no_second_one() {
    let case = Case::new("injected-twice");
    let platform = Platform::install(&case);
    case.install(
        platform
            .values(&json!({ "sidecar": true, "baton": { "config": { "logLevel": "debug" } } })),
    );
    assert_eq!(init_containers(&case), ["baton"]);
    let leader = case.leader();
    // An injected sidecar would not have this log level.
    case.wait_for_log(&leader.pod, "baton", 0, r#""level":"DEBUG""#);
}

#[test]
fn deployment_without_an_election_gets_an_event_with_advice() {
    let case = Case::new("injected-nowhere");
    let platform = Platform::install(&case);
    let Value::Object(mut template) = platform.without_election() else {
        unreachable!("a Pod is a JSON object")
    };
    template.retain(|field, _| ["metadata", "spec"].contains(&field.as_str()));
    let spec = json!({ "selector": { "matchLabels": template["metadata"]["labels"] }, "template": template });
    case.apply(&json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "shop" }, "spec": spec }));
    let advice = format!("{REFUSAL}: set the annotation {}/election", case.namespace);
    succeeds(PATIENCE, &format!("an event has {advice:?}"), || {
        let warnings = case.warnings()?;
        if warnings.contains(&advice) { Ok(()) } else { Err(warnings) }
    });
    assert_eq!(case.pods((&format!("{}/inject", case.namespace), "enabled")), []);
}

#[test]
fn removed_policy_injects_no_more() {
    let case = Case::new("injected-no-more");
    let platform = Platform::install(&case);
    assert_eq!(platform.release.cluster_wide().len(), 4);
    platform.release.uninstall();
    eventually(PATIENCE, "labeled Pods get no sidecar", || {
        platform.injects(&platform.pod()) == Ok(false)
    });
}

/// A release of the chart whose policies are in effect in the case's `restricted` namespace.
struct Platform<'a> {
    case: &'a Case,
    release: Release<'a>,
}

impl<'a> Platform<'a> {
    fn install(case: &'a Case) -> Self {
        case.kubectl(&[
            "label",
            "namespace",
            &case.namespace,
            "pod-security.kubernetes.io/enforce=restricted",
        ]);
        let image = image_values(&variable("BATON_IMAGE"));
        let values =
            json!({ "image": image, "injection": { "enabled": true, "prefix": case.namespace } });
        let this = Self { case, release: Release::install(case, &case.namespace, CHART, &values) };
        succeeds(PATIENCE, "both policies are in effect", || {
            let injects = this.injects(&this.pod())?;
            let refuses =
                this.injects(&this.without_election()).is_err_and(|error| error.contains(REFUSAL));
            if injects && refuses {
                Ok(())
            } else {
                Err(format!("injects: {injects}; refuses Pods without an election: {refuses}"))
            }
        });
        this
    }

    /// Values for the shop with an injected sidecar.
    fn values(&self, overrides: &Value) -> Value {
        let mut values = json!({ "sidecar": false, "injectedBy": self.case.namespace });
        values
            .as_object_mut()
            .expect("values are an object")
            .extend(overrides.as_object().expect("overrides are an object").clone());
        values
    }

    /// A labeled Pod.
    fn pod(&self) -> Value {
        let prefix = &self.case.namespace;
        let key = |name: &str| format!("{prefix}/{name}");
        let metadata = json!({
            "name": "probe", "labels": { key("inject"): "enabled" }, "annotations": { key("election"): "orders" },
        });
        let container = json!({
            "name": "application",
            "image": "localhost/nothing:1",
            "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
        });
        let security =
            json!({ "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } });
        let spec = json!({ "containers": [container], "securityContext": security });
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec })
    }

    /// A labeled Pod without an election.
    fn without_election(&self) -> Value {
        let mut pod = self.pod();
        pod["metadata"]["annotations"].take();
        pod
    }

    /// Whether the API server would add a sidecar to this Pod, or its refusal.
    fn injects(&self, pod: &Value) -> Result<bool, String> {
        let arguments = [
            "--namespace",
            &self.case.namespace,
            "create",
            "--dry-run=server",
            "--output=json",
            "--filename=-",
        ];
        run("kubectl", &arguments, &pod.to_string()).map(|pod| pod.contains("\"baton\""))
    }
}

/// The names of the init containers, which are the same in all Pods of the shop.
fn init_containers(case: &Case) -> Vec<String> {
    let pods = case.pods(SHOP);
    let names: Vec<Vec<String>> = pods.iter().map(Pod::init_containers).collect();
    assert!(!names.is_empty() && names.iter().all(|own| *own == names[0]), "{names:?}");
    names[0].clone()
}
