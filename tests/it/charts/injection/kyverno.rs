//! The policy of `baton inject --kyverno`, applied by Kyverno's own command line.
//!
//! In a cluster, Kyverno changes a Pod, the API server mounts its token, and Kyverno judges the
//! result. Here, the API server's part is a dry run. The program comes from
//! tests/servers/kyverno/build.sh.

use super::pods::{container, labeled_pod, names, state_volume};
use super::{Injection, PATIENCE};
use crate::charts::server::{create, dry_run};
use crate::charts::tools::{in_repository, inject, objects};
use crate::rig::{ApiServer, Namespace, succeeds};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// A policy, and Kyverno to apply it.
pub(super) struct Kyverno {
    folder: TempDir,
}

impl Kyverno {
    /// With the policy that `baton inject --kyverno` prints with these arguments.
    pub(super) fn with(arguments: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let arguments = [&["--kyverno"], arguments].concat();
        let mut policy = inject(&Value::Null, &arguments).unwrap();
        // Without a cluster, the program crashes on the conditions of the webhooks, which it needs
        // for nothing: see `labeled_pods_alone_wait_for_kyverno`.
        policy["spec"].as_object_mut().unwrap().remove("webhookConfiguration");
        fs::write(folder.path().join("policy.yaml"), policy.to_string()).unwrap();
        Self { folder }
    }

    /// The object as Kyverno's mutating webhook would leave it.
    pub(super) fn changed(&self, object: &Value) -> Value {
        let (_, changed) = self.apply(object);
        changed
    }

    /// The verdict of Kyverno's validating webhook about an object.
    pub(super) fn judged(&self, object: &Value) -> Result<(), String> {
        let (output, changed) = self.apply(object);
        assert_eq!(&changed, object, "the webhook sees the object with its sidecar");
        if output.contains("fail: 0,") { Ok(()) } else { Err(output) }
    }

    /// The verdict about an object as the mutating webhook leaves it.
    pub(super) fn refusal(&self, object: &Value) -> Result<(), String> {
        self.judged(&self.changed(object))
    }

    /// The output of `kyverno apply`, and the object that it printed.
    fn apply(&self, object: &Value) -> (String, Value) {
        let path = |name: &str| -> PathBuf { self.folder.path().join(name) };
        fs::write(path("object.json"), object.to_string()).unwrap();
        fs::write(path("changed.yaml"), "").unwrap();
        let mut kyverno = Command::new(program());
        kyverno.env_clear().env("HOME", self.folder.path()).arg("apply").arg(path("policy.yaml"));
        kyverno.arg("--remove-color").arg("--resource").arg(path("object.json"));
        let output = kyverno.arg("--output").arg(path("changed.yaml")).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("error: 0,") && !text.contains("Applying 0 policy"), "{text}");
        let changed = fs::read_to_string(path("changed.yaml")).unwrap();
        let mut changed = objects(&changed).into_iter().next().unwrap_or_else(|| object.clone());
        // Where no namespace is named, the program adds one.
        changed["metadata"]["namespace"] = object["metadata"]["namespace"].clone();
        if object["metadata"]["namespace"].is_null() {
            changed["metadata"].as_object_mut().unwrap().remove("namespace");
        }
        (text, changed)
    }
}

/// Kyverno's command line.
fn program() -> PathBuf {
    let path = in_repository(".cache/kyverno/kyverno");
    assert!(
        path.is_file(),
        "{} is missing: run `make test`, or tests/servers/kyverno/build.sh once",
        path.display()
    );
    path
}

/// A namespace without the chart's policies, whose Pods get a token.
fn namespace() -> Namespace {
    let namespace = ApiServer::shared().namespace();
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    create(&namespace.admin, &namespace.name, &account).unwrap();
    namespace
}

#[test]
fn kyverno_and_baton_inject_give_every_pod_the_same() {
    let namespace = namespace();
    let stored = |pod: &Value| dry_run(&namespace.admin, &namespace.name, pod).unwrap();
    let own = json!({
        "initContainers": [{"name": "migrate", "image": "localhost/shop:1"}],
        "volumes": [
            {"name": "data", "emptyDir": {}},
            {"name": "baton-state", "emptyDir": {"sizeLimit": "2Mi"}},
        ],
    });
    let specs = [
        json!({}),
        own,
        json!({"terminationGracePeriodSeconds": 540}),
        json!({"terminationGracePeriodSeconds": 541}),
    ];
    let mut pods: Vec<_> = specs.iter().map(|spec| labeled_pod("baton", spec)).collect();
    let mut annotated = pods.last().unwrap().clone();
    for (flag, value) in [("retry-period", "1500ms"), ("log-level", ""), ("stopping-limit", "1h")] {
        annotated["metadata"]["annotations"][format!("baton/config.{flag}")] = value.into();
    }
    pods.push(annotated);
    for restarts in ["always", "never"] {
        let restarts = format!("--restart-application={restarts}");
        let kyverno = Kyverno::with(&[&restarts]);
        for pod in &pods {
            let by_kyverno = stored(&kyverno.changed(pod));
            let by_program = stored(&inject(pod, &[&restarts]).unwrap());
            for list in ["initContainers", "volumes"] {
                let lists = [&by_kyverno, &by_program].map(|pod| sorted(&pod["spec"][list]));
                assert_eq!(lists[0], lists[1], "{list}");
            }
            assert_eq!(names(&by_kyverno["spec"]["initContainers"])[0], "baton");
            assert_eq!(container(&by_kyverno), container(&by_program));
            assert_eq!(state_volume(&by_kyverno), state_volume(&by_program));
            assert_eq!(kyverno.judged(&by_kyverno), Ok(()));
        }
    }
}

/// Before Kubernetes 1.36, the API server refuses or drops the rule that restarts the application.
#[test]
fn kyverno_policy_restarts_nothing_by_default() {
    let pod = Kyverno::with(&[]).changed(&labeled_pod("baton", &json!({})));
    let sidecar = &pod["spec"]["initContainers"][0];
    assert_eq!(sidecar["name"], "baton");
    assert!(sidecar["restartPolicyRules"].is_null(), "{pod:#}");
    let environment = sidecar["env"].as_array().unwrap();
    assert!(environment.contains(&json!({"name": "BATON_ON_LOST", "value": "stay"})));
}

#[test]
fn kyverno_leaves_other_objects_alone() {
    let kyverno = Kyverno::with(&[]);
    let labeled = labeled_pod("baton", &json!({}));
    let mut other = labeled.clone();
    other["metadata"]["labels"] = json!({"baton/inject": "disabled"});
    let mut with_sidecar = labeled.clone();
    with_sidecar["spec"]["containers"][0]["name"] = "baton".into();
    let mut template = json!({"metadata": labeled["metadata"], "spec": labeled["spec"]});
    template["spec"]["hostNetwork"] = true.into();
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "shop", "labels": labeled["metadata"]["labels"]},
        "spec": {"selector": {"matchLabels": labeled["metadata"]["labels"]}, "template": template},
    });
    for object in [other, with_sidecar, deployment] {
        assert_eq!(kyverno.changed(&object), object);
    }
}

#[test]
fn kyverno_refuses_wrong_annotations_with_the_reason() {
    let kyverno = Kyverno::with(&[]);
    let annotated = |annotations: Value| {
        let mut pod = labeled_pod("baton", &json!({}));
        pod["metadata"]["annotations"] = annotations;
        kyverno.refusal(&pod).unwrap_err()
    };
    let long = "a".repeat(254);
    let refusals = [
        (
            json!({"shop/team": "sales"}),
            "labeled baton/inject=enabled, but no election is named: set the annotation \
             baton/election",
        ),
        (json!({"baton/election": ""}), "no election is named"),
        (json!({"baton/election": "Orders"}), "the annotation baton/election cannot name a Lease"),
        (json!({"baton/election": "orders."}), "cannot name a Lease"),
        (json!({"baton/election": long}), "cannot name a Lease"),
        (
            json!({"baton/election": "orders", "baton/config.leaseDuration": "30s"}),
            "no flag can be set by an annotation baton/config.* of the Pod: use one of",
        ),
    ];
    for (annotations, words) in refusals {
        let refusal = annotated(annotations);
        assert!(refusal.contains(words), "{words} is not in {refusal}");
    }
    let mut unannotated = labeled_pod("baton", &json!({}));
    unannotated["metadata"].as_object_mut().unwrap().remove("annotations");
    assert!(kyverno.refusal(&unannotated).unwrap_err().contains("no election is named"));
}

#[test]
fn kyverno_refuses_a_pod_whose_account_mounts_no_token() {
    let namespace = namespace();
    let mut tokenless = json!({"apiVersion": "v1", "kind": "ServiceAccount"});
    tokenless["metadata"] = json!({"name": "tokenless"});
    tokenless["automountServiceAccountToken"] = false.into();
    create(&namespace.admin, &namespace.name, &tokenless).unwrap();
    let kyverno = Kyverno::with(&[]);
    let judged = |pod: &Value| {
        let changed = kyverno.changed(pod);
        kyverno.judged(&dry_run(&namespace.admin, &namespace.name, &changed).unwrap())
    };
    let mut pod = labeled_pod("baton", &json!({"serviceAccountName": "tokenless"}));
    assert!(judged(&pod).unwrap_err().contains("it gets no service account token"));
    pod["spec"]["automountServiceAccountToken"] = true.into();
    assert_eq!(judged(&pod), Ok(()));
}

/// Kyverno puts the policy's conditions into its webhooks.
#[test]
fn labeled_pods_alone_wait_for_kyverno() {
    let namespace = namespace();
    let policy = inject(&Value::Null, &["--kyverno"]).unwrap();
    let policy = &policy["spec"]["webhookConfiguration"];
    let webhooks = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": namespace.name},
        "webhooks": [{
            "name": "kyverno.example.com",
            "clientConfig": {"url": "https://127.0.0.1:1/nobody-listens"},
            "failurePolicy": policy["failurePolicy"],
            "matchConditions": policy["matchConditions"],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace.name}},
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["pods"],
            }],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }],
    });
    create(&namespace.admin, &namespace.name, &webhooks).unwrap();
    let stored = |pod: &Value| dry_run(&namespace.admin, &namespace.name, pod);
    let labeled = labeled_pod("baton", &json!({}));
    succeeds(PATIENCE, "a labeled Pod is refused", || {
        let refusal = stored(&labeled).map_or_else(Ok, |pod| Err(format!("{pod:#}")))?;
        if refusal.contains("failed calling webhook") { Ok(()) } else { Err(refusal) }
    });
    for labels in [json!(null), json!({"app": "shop"}), json!({"baton/inject": "disabled"})] {
        let mut pod = labeled.clone();
        pod["metadata"]["labels"] = labels;
        assert!(stored(&pod).is_ok(), "{pod:#}");
    }
}

/// The policies of two prefixes do not meet.
#[test]
fn kyverno_policy_and_the_charts_can_share_a_cluster() {
    let injection = Injection::installed("");
    let kyverno = Kyverno::with(&[]);
    let of_chart = injection.pod(&json!({}));
    assert_eq!(kyverno.changed(&of_chart), of_chart);
    let of_kyverno = kyverno.changed(&labeled_pod("baton", &json!({})));
    let stored = injection.admitted(&of_kyverno).unwrap();
    assert_eq!(names(&stored["spec"]["initContainers"]), ["baton"]);
}

/// The names of a list, apart from a token's volume, in alphabetical order.
fn sorted(items: &Value) -> Vec<&str> {
    let mut names = names(items);
    names.retain(|name| !name.starts_with("kube-api-access"));
    names.sort_unstable();
    names
}
