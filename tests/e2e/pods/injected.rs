//! A platform's policy that gives labelled Pods their sidecar: whatever makes the Pod, under Pod Security `restricted`, and not
//! any more once the policy is gone.
//!
//! Policies are the whole cluster's, so each case has a release and a prefix of its own.

use crate::rig::{
    CHART, Case, NOISE, PATIENCE, Pod, Release, SHOP, TIMING, eventually, parts, run, succeeds,
    variable,
};
use serde_json::{Value, json};

/// How many lines a job writes until it is done.
const LINES: u64 = 20;

/// What the API server says of a labelled Pod without an election.
const REFUSAL: &str = "no election is named";

#[test]
fn an_injected_deployment_elects_and_hands_over() {
    let case = Case::new("injected-deployment");
    let platform = Platform::set_up(&case);
    let old = case.install(platform.values(&json!({ "kind": "Deployment" })));
    assert_eq!(init_containers(&case), ["baton"]);
    let deleted = case.note("the leader is deleted");
    case.kubectl(&["delete", "pod", &old.pod, "--wait=false"]);
    case.successor(&old, deleted, PATIENCE);
    case.assert_gaps_within(TIMING.answer_validity + NOISE);
    case.assert_books_are_clean();
}

#[test]
fn an_injected_stateful_set_elects_and_its_own_init_container_runs_after_the_sidecars_start() {
    let case = Case::new("injected-set");
    let platform = Platform::set_up(&case);
    case.install(platform.values(&json!({ "kind": "StatefulSet", "migrates": true })));
    assert_eq!(init_containers(&case), ["baton", "migrate"]);
    case.assert_books_are_clean();
}

#[test]
fn an_injected_job_completes_and_so_does_that_of_a_cron_job() {
    for kind in ["Job", "CronJob"] {
        let case = Case::new(&format!("injected-{}", kind.to_lowercase()));
        let platform = Platform::set_up(&case);
        let values =
            platform.values(&json!({ "kind": kind, "args": ["--lines", LINES.to_string()] }));
        case.helm_with(&["install", "shop", "tests/e2e/shop"], &case.values(values));
        if kind == "CronJob" {
            // Its schedule may be a minute away, and the Job would be the same.
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
        assert!(case.assert_books_are_clean().lines >= LINES);
    }
}

#[test]
fn a_pod_that_has_the_sidecar_keeps_its_own_and_gets_no_second() {
    let case = Case::new("injected-twice");
    let platform = Platform::set_up(&case);
    case.install(
        platform
            .values(&json!({ "sidecar": true, "baton": { "config": { "logLevel": "debug" } } })),
    );
    assert_eq!(init_containers(&case), ["baton"]);
    let leader = case.leader();
    // The policy's would not be told so.
    case.wait_for_log(&leader.pod, "baton", 0, r#""level":"DEBUG""#);
}

#[test]
fn a_deployment_that_names_no_election_gets_no_pod_and_its_events_say_what_to_do() {
    let case = Case::new("injected-nowhere");
    let platform = Platform::set_up(&case);
    let Value::Object(mut template) = platform.without_election() else {
        unreachable!("a Pod is an object")
    };
    template.retain(|field, _| ["metadata", "spec"].contains(&field.as_str()));
    let spec = json!({ "selector": { "matchLabels": template["metadata"]["labels"] }, "template": template });
    case.apply(&json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "shop" }, "spec": spec }));
    let words = format!("{REFUSAL}: set its annotation {}/election", case.namespace);
    succeeds(PATIENCE, &format!("an event says {words:?}"), || {
        let told = case.complaints()?;
        if told.contains(&words) { Ok(()) } else { Err(told) }
    });
    assert_eq!(case.pods((&format!("{}/inject", case.namespace), "enabled")), []);
}

#[test]
fn nothing_is_left_of_a_policy_that_is_removed_and_new_pods_are_like_any_other() {
    let case = Case::new("injected-no-more");
    let platform = Platform::set_up(&case);
    assert_eq!(platform.release.shared().len(), 4);
    platform.release.uninstall();
    eventually(PATIENCE, "a labelled Pod gets no sidecar", || {
        platform.gives_a_sidecar(&platform.pod()) == Ok(false)
    });
}

/// A release of the chart whose policies are obeyed in the case's namespace, which is `restricted`.
struct Platform<'a> {
    case: &'a Case,
    release: Release<'a>,
}

impl<'a> Platform<'a> {
    fn set_up(case: &'a Case) -> Self {
        case.kubectl(&[
            "label",
            "namespace",
            &case.namespace,
            "pod-security.kubernetes.io/enforce=restricted",
        ]);
        let image = parts(&variable("BATON_IMAGE"));
        let values =
            json!({ "image": image, "injection": { "enabled": true, "prefix": case.namespace } });
        let this = Self { case, release: Release::install(case, &case.namespace, CHART, &values) };
        succeeds(PATIENCE, "both policies are obeyed", || {
            let given = this.gives_a_sidecar(&this.pod())?;
            let refused = this
                .gives_a_sidecar(&this.without_election())
                .is_err_and(|why| why.contains(REFUSAL));
            let both = given && refused;
            if both {
                Ok(())
            } else {
                Err(format!("given a sidecar: {given}; refused without an election: {refused}"))
            }
        });
        this
    }

    /// The shop's values, so that its sidecar comes from the policy.
    fn values(&self, otherwise: &Value) -> Value {
        let mut values = json!({ "sidecar": false, "injectedBy": self.case.namespace });
        values
            .as_object_mut()
            .expect("it is one")
            .extend(otherwise.as_object().expect("they are values").clone());
        values
    }

    /// A Pod that asks for a sidecar.
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

    /// One that does not say for which election.
    fn without_election(&self) -> Value {
        let mut pod = self.pod();
        pod["metadata"]["annotations"].take();
        pod
    }

    /// Whether the API server would make of this Pod one that has a sidecar; or why it would make none.
    fn gives_a_sidecar(&self, pod: &Value) -> Result<bool, String> {
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

/// The names of the init containers of the shop's Pods, which are alike.
fn init_containers(case: &Case) -> Vec<String> {
    let pods = case.pods(SHOP);
    let names: Vec<Vec<String>> = pods.iter().map(Pod::init_containers).collect();
    assert!(!names.is_empty() && names.iter().all(|of_one| *of_one == names[0]), "{names:?}");
    names[0].clone()
}
