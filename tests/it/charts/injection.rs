//! Pods that get their sidecar from the chart's admission policy on a real API server.
//!
//! Each test has its own release, policy, and prefix. No controller runs, so the tests create the
//! Pod that a controller would create for a workload, as a dry run, which admission treats like any
//! other request.

/// The cost of Pods with thousands of annotations.
mod annotations;

/// The same by Kyverno, for servers without such a policy.
mod kyverno;

/// Labeled Pods, and their sidecars.
mod pods;

/// Pods in which a sidecar would be unsafe or could not run.
mod unsuitable;

use super::server::{CLUSTER_SCOPED, create, dry_run, pod, resource};
use super::tools::{Helm, assert_refused, chart, find, inject, rendered};
use crate::rig::{ApiServer, Namespace, eventually, succeeds};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams};
use kyverno::Kyverno;
use pods::{container, labeled_pod, names, state_volume};
use serde_json::{Value, json};
use std::time::Duration;

/// How long a policy may take to come into effect, or to cease, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn labelled_pod_gets_the_charts_sidecar_first() {
    let injection = Injection::installed("");
    let injected = injection.admitted(&injection.pod(&json!({}))).unwrap();
    let demo = rendered(&["--set=demo.enabled=true"]);
    // The server adds its defaults.
    let mut by_chart = pod(find(&demo, "Deployment", "test-baton-demo"));
    by_chart["spec"].as_object_mut().unwrap().remove("serviceAccountName");
    let by_chart = injection.admitted(&by_chart).unwrap();
    assert_eq!(container(&injected), container(&by_chart));
    assert_eq!(state_volume(&injected), state_volume(&by_chart));
    // The API server mounts a Pod's service account before the policy applies, and again after it.
    let mounts = injected["spec"]["initContainers"][0]["volumeMounts"].as_array().unwrap();
    let token = "/var/run/secrets/kubernetes.io/serviceaccount";
    assert!(
        mounts.iter().any(|mount| mount["mountPath"] == token),
        "the sidecar has no token: {mounts:?}"
    );

    let own = json!({
        "initContainers": [{"name": "migrate", "image": "localhost/shop:1"}],
        "volumes": [{"name": "data"}],
    });
    let with_own = injection.admitted(&injection.pod(&own)).unwrap();
    assert_eq!(names(&with_own["spec"]["initContainers"]), ["baton", "migrate"]);
    assert_eq!(state_volume(&with_own), state_volume(&injected));
    assert!(names(&with_own["spec"]["volumes"]).contains(&"data"));
    assert_eq!(container(&with_own), container(&injected));
}

#[test]
fn pod_with_a_sidecar_or_without_a_label_is_unchanged() {
    let injection = Injection::installed("");
    for list in ["initContainers", "containers"] {
        let containers = json!([
            {"name": "baton", "image": "localhost/other:1"},
            {"name": "helper", "image": "a:1"},
        ]);
        let pod = injection.admitted(&injection.pod(&json!({list: containers}))).unwrap();
        assert_eq!(names(&pod["spec"][list]), ["baton", "helper"]);
        assert_eq!(pod["spec"][list][0]["image"], "localhost/other:1");
        assert!(list == "initContainers" || pod["spec"]["initContainers"].is_null(), "{pod:#}");
    }
    let mut unlabelled = injection.without_election();
    unlabelled["metadata"].as_object_mut().unwrap().remove("labels");
    assert!(injection.admitted(&unlabelled).unwrap()["spec"]["initContainers"].is_null());
}

#[test]
fn annotations_override_the_charts_values() {
    let injection = Injection::installed(
        ",config.logLevel=debug,config.retryPeriod=1s,restartApplication=never",
    );
    let mut annotated = injection.annotated("config.retry-period", "1500ms");
    // An empty annotation sets nothing, like an empty variable.
    annotated["metadata"]["annotations"][format!("{}/config.log-level", injection.prefix())] =
        "".into();
    let pod = injection.admitted(&annotated).unwrap();
    let environment = pod["spec"]["initContainers"][0]["env"].as_array().unwrap();
    let variable = |name: &str| {
        environment
            .iter()
            .find(|variable| variable["name"] == name)
            .map(|variable| &variable["value"])
    };
    assert_eq!(variable("BATON_RETRY_PERIOD"), Some(&json!("1500ms")));
    assert_eq!(variable("BATON_LOG_LEVEL"), Some(&json!("debug")));
    assert_eq!(variable("BATON_ON_LOST"), Some(&json!("stay")));
    assert_eq!(variable("BATON_LEASE_DURATION"), None);
    assert!(pod["spec"]["initContainers"][0]["restartPolicyRules"].is_null());
}

#[test]
fn stopping_limit_follows_the_grace_period() {
    let injection = Injection::installed("");
    let limit = |pod: &Value| {
        let pod = injection.admitted(pod).unwrap();
        let environment = pod["spec"]["initContainers"][0]["env"].as_array().unwrap();
        let limits =
            environment.iter().filter(|variable| variable["name"] == "BATON_STOPPING_LIMIT");
        limits.map(|limit| limit["value"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let with_grace =
        |seconds: u32| injection.pod(&json!({"terminationGracePeriodSeconds": seconds}));
    assert_eq!(limit(&injection.pod(&json!({}))), [""; 0], "the program's default is longer");
    assert_eq!(limit(&with_grace(540)), [""; 0]);
    assert_eq!(limit(&with_grace(541)), ["601s"]);
    let mut annotated = injection.annotated("config.stopping-limit", "1h");
    annotated["spec"]["terminationGracePeriodSeconds"] = 900.into();
    assert_eq!(limit(&annotated), ["1h"]);
}

#[test]
fn pod_with_wrong_annotations_is_refused_with_the_reason() {
    let injection = Injection::installed("");
    let prefix = injection.prefix();
    let refusals = [
        (
            injection.without_election(),
            format!(
                "labeled {prefix}/inject=enabled, but no election is named: \
                 set the annotation {prefix}/election"
            ),
        ),
        (injection.annotated("election", ""), "no election is named".to_owned()),
        (
            injection.annotated("election", "Orders"),
            "is Orders, which cannot name a Lease".to_owned(),
        ),
        (
            injection.annotated("config.leaseDuration", "30s"),
            format!(
                "no flag can be set by the annotation {prefix}/config.leaseDuration: use one of"
            ),
        ),
    ];
    for (pod, words) in refusals {
        let refusal = injection.admitted(&pod).unwrap_err();
        assert!(refusal.contains(&words), "{words} is not in {refusal}");
    }
}

/// The mutating policy may have been removed, or may not have reached this server yet.
#[test]
fn labelled_pod_without_its_sidecar_is_refused() {
    let injection = Injection::installed("");
    let binding = resource("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicyBinding");
    let name = format!("{}-inject", injection.prefix());
    let removed = injection.namespace.admin.call(async |client| {
        Api::<DynamicObject>::all_with(client, &binding)
            .delete(&name, &DeleteParams::default())
            .await
    });
    removed.unwrap();
    succeeds(PATIENCE, "a labelled Pod without a sidecar is refused", || {
        let refusal = injection
            .admitted(&injection.pod(&json!({})))
            .map_or_else(Ok, |pod| Err(format!("{pod:#}")))?;
        let is_named =
            refusal.contains("was given no container `baton`") && refusal.contains(&name);
        if is_named { Ok(()) } else { Err(refusal) }
    });
}

/// Compares the Pod that the policy changes with the Pod of a workload that `baton inject` has
/// changed, and with the Pod that Kyverno changes.
#[test]
fn policies_and_baton_inject_give_every_workload_the_same() {
    let injection = Injection::installed("");
    let prefix = format!("--prefix={}", injection.prefix());
    let kyverno = Kyverno::with(&[&prefix, "--restart-application=always"]);
    let pod_of_shop = injection.pod(&json!({}));
    let mut template = json!({"metadata": pod_of_shop["metadata"], "spec": pod_of_shop["spec"]});
    template["metadata"].as_object_mut().unwrap().remove("name");
    let selector = json!({"matchLabels": template["metadata"]["labels"]});
    let mut once = template.clone();
    once["spec"]["restartPolicy"] = "Never".into();
    let workloads = [
        ("apps/v1", "Deployment", json!({"selector": selector, "template": template})),
        (
            "apps/v1",
            "StatefulSet",
            json!({"selector": selector, "serviceName": "shop", "template": template}),
        ),
        ("apps/v1", "DaemonSet", json!({"selector": selector, "template": template})),
        ("batch/v1", "Job", json!({"template": once})),
        (
            "batch/v1",
            "CronJob",
            json!({"schedule": "@daily", "jobTemplate": {"spec": {"template": once}}}),
        ),
    ];
    for (api_version, kind, spec) in workloads {
        let metadata = json!({"name": "shop"});
        let workload = json!({
            "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec,
        });
        let kept = injection.admitted(&workload).unwrap();
        assert!(
            pod(&kept)["spec"]["initContainers"].is_null(),
            "the policy changed a workload: {kept:#}"
        );
        let by_policy = injection.admitted(&pod(&workload)).unwrap();
        let by_program = inject(&workload, &[&prefix]).unwrap();
        assert!(injection.admitted(&by_program).is_ok(), "{kind}");
        let by_program = injection.admitted(&pod(&by_program)).unwrap();
        assert_eq!(names(&by_policy["spec"]["initContainers"]), ["baton"], "{kind}");
        let by_kyverno = injection.admitted(&kyverno.changed(&pod(&workload))).unwrap();
        for other in [&by_program, &by_kyverno] {
            assert_eq!(names(&other["spec"]["initContainers"]), ["baton"], "{kind}");
            assert_eq!(container(&by_policy), container(other), "{kind}");
            assert_eq!(state_volume(&by_policy), state_volume(other), "{kind}");
        }
    }
}

#[test]
fn restricted_namespace_accepts_the_sidecar() {
    let injection = Injection::installed("");
    injection.namespace.restrict();
    let pod = injection.admitted(&injection.pod(&json!({}))).unwrap();
    assert_eq!(names(&pod["spec"]["initContainers"]), ["baton"]);
    let insecure =
        injection.pod(&json!({"containers": [{"name": "shop", "image": "localhost/shop:1"}]}));
    let refusal = injection.admitted(&insecure).unwrap_err();
    assert!(
        refusal.contains("violates PodSecurity") && !refusal.contains("\"baton\""),
        "{refusal}"
    );
}

#[test]
fn uninstall_removes_the_policies_and_stops_injection() {
    let injection = Injection::installed("");
    assert_eq!(injection.cluster_objects().len(), 4);
    injection.helm(&["uninstall", injection.prefix()]);
    assert_eq!(injection.cluster_objects(), [""; 0]);
    eventually(PATIENCE, "labelled Pods are admitted unchanged", || {
        injection
            .admitted(&injection.without_election())
            .is_ok_and(|pod| pod["spec"]["initContainers"].is_null())
    });
}

#[test]
fn injection_on_an_older_server_is_refused_with_a_remedy() {
    let chart = chart("baton");
    let words = [
        "needs MutatingAdmissionPolicy v1 of Kubernetes 1.36, or v1beta1",
        "`baton inject --kyverno`",
        "`baton inject --restart-application never`",
    ];
    for server in ["--kube-version=1.35.9", "--set=kubeVersionOverride=1.35.4"] {
        let error =
            Helm::Four.template(&chart, &["--set=injection.enabled=true", server]).unwrap_err();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    assert_refused(&chart, "--set=injection.prefix=Baton", &["/injection/prefix", "Baton"]);
    assert!(
        Helm::Four.template(&chart, &["--kube-version=1.35.9"]).unwrap().is_empty(),
        "it is off by default"
    );
}

/// A release whose policies are in effect.
struct Injection {
    namespace: Namespace,
}

impl Injection {
    fn installed(settings: &str) -> Self {
        Self::installed_on(ApiServer::shared(), settings)
    }

    fn installed_on(server: &ApiServer, settings: &str) -> Self {
        let namespace = server.namespace();
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        create(&namespace.admin, &namespace.name, &account).unwrap();
        let injection = Self { namespace };
        let values = format!(
            "--set=injection.enabled=true,injection.prefix={}{settings}",
            injection.prefix()
        );
        injection.helm(&["install", injection.prefix(), chart("baton").to_str().unwrap(), &values]);
        succeeds(PATIENCE, "both policies are in effect", || {
            let injected = injection.admitted(&injection.pod(&json!({})))?;
            let is_refused = injection.admitted(&injection.without_election()).is_err();
            if injected["spec"]["initContainers"].is_array() && is_refused {
                Ok(())
            } else {
                Err(format!("Pod without an election refused: {is_refused}; other: {injected:#}"))
            }
        });
        injection
    }

    fn helm(&self, arguments: &[&str]) {
        let kubeconfig = format!("--kubeconfig={}", self.namespace.admin.kubeconfig().display());
        let namespace = format!("--namespace={}", self.namespace.name);
        let result = Helm::Four.run(&[arguments, &[&kubeconfig, &namespace]].concat());
        result.unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
    }

    /// The prefix of the label and annotations, which is also the release's name.
    fn prefix(&self) -> &str {
        &self.namespace.name
    }

    /// A labelled Pod of the election `orders`, with these fields in its spec.
    fn pod(&self, spec: &Value) -> Value {
        labeled_pod(self.prefix(), spec)
    }

    fn without_election(&self) -> Value {
        let mut pod = self.pod(&json!({}));
        pod["metadata"].as_object_mut().unwrap().remove("annotations");
        pod
    }

    fn annotated(&self, annotation: &str, value: &str) -> Value {
        let mut pod = self.pod(&json!({}));
        pod["metadata"]["annotations"][format!("{}/{annotation}", self.prefix())] = value.into();
        pod
    }

    /// The object as the server would store it, or the server's refusal.
    fn admitted(&self, pod: &Value) -> Result<Value, String> {
        dry_run(&self.namespace.admin, &self.namespace.name, pod)
    }

    /// The cluster-scoped objects of the release.
    fn cluster_objects(&self) -> Vec<String> {
        let of_release =
            ListParams::default().labels(&format!("app.kubernetes.io/instance={}", self.prefix()));
        let mut found = Vec::new();
        for kind in CLUSTER_SCOPED.into_iter().filter(|kind| kind.contains("Admission")) {
            let resource = resource("admissionregistration.k8s.io/v1", kind);
            let list = self.namespace.admin.call(async |client| {
                Api::<DynamicObject>::all_with(client, &resource).list(&of_release).await
            });
            found.extend(
                list.unwrap()
                    .into_iter()
                    .map(|object| format!("{kind} {}", object.metadata.name.unwrap())),
            );
        }
        found
    }
}
