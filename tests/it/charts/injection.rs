//! Pods that a real API server gives their sidecar, by the chart's policy: a Pod is all that it takes, since every workload
//! ends in one.
//!
//! No controller runs here, so the tests make of a workload's template the Pod that a controller would make. Each test has a
//! release, and with it a policy and a prefix, of its own; Pods are created for the answer only (`dryRun=All`), which admission
//! cannot tell from others.

/// The cost of Pods with very many annotations.
mod annotations;

use super::server::{OF_THE_CLUSTER, create, judged, pod, resource};
use super::tools::{Helm, chart, find, inject, refused, rendered};
use crate::rig::{ApiServer, Namespace, eventually, succeeds};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams};
use serde_json::{Value, json};
use std::time::Duration;

/// How long a policy may take to be obeyed on a busy machine, and not to be any more.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_labelled_pod_gets_the_sidecar_of_the_charts_first_among_its_init_containers() {
    let injection = Injection::installed("");
    let injected = injection.admitted(&injection.pod(&json!({}))).unwrap();
    let demo = rendered(&["--set=demo.enabled=true"]);
    // As the server completes it, with all its defaults.
    let mut by_hand = pod(find(&demo, "Deployment", "test-baton-demo"));
    by_hand["spec"].as_object_mut().unwrap().remove("serviceAccountName");
    let by_hand = injection.admitted(&by_hand).unwrap();
    assert_eq!(container(&injected), container(&by_hand));
    assert_eq!(state(&injected), state(&by_hand));
    // The API server has a Pod's account mounted before the policy comes, and once more after it.
    let mounts = injected["spec"]["initContainers"][0]["volumeMounts"].as_array().unwrap();
    let token = "/var/run/secrets/kubernetes.io/serviceaccount";
    assert!(
        mounts.iter().any(|mount| mount["mountPath"] == token),
        "without a token it cannot elect: {mounts:?}"
    );

    let own = json!({"initContainers": [{"name": "migrate", "image": "localhost/shop:1"}], "volumes": [{"name": "data"}]});
    let with_own = injection.admitted(&injection.pod(&own)).unwrap();
    assert_eq!(names(&with_own["spec"]["initContainers"]), ["baton", "migrate"]);
    assert_eq!(state(&with_own), state(&injected));
    assert!(names(&with_own["spec"]["volumes"]).contains(&"data"));
    assert_eq!(container(&with_own), container(&injected));
}

#[test]
fn a_pod_that_has_the_sidecar_or_no_label_is_left_alone() {
    let injection = Injection::installed("");
    for list in ["initContainers", "containers"] {
        let has = injection
            .pod(&json!({list: [{"name": "baton", "image": "localhost/other:1"}, {"name": "helper", "image": "a:1"}]}));
        let kept = injection.admitted(&has).unwrap();
        assert_eq!(names(&kept["spec"][list]), ["baton", "helper"]);
        assert_eq!(kept["spec"][list][0]["image"], "localhost/other:1");
        assert!(list == "initContainers" || kept["spec"]["initContainers"].is_null(), "{kept:#}");
    }
    let mut unlabelled = injection.without_election();
    unlabelled["metadata"].as_object_mut().unwrap().remove("labels");
    assert!(injection.admitted(&unlabelled).unwrap()["spec"]["initContainers"].is_null());
}

#[test]
fn annotations_go_before_the_values_of_the_chart() {
    let injection = Injection::installed(
        ",config.logLevel=debug,config.retryPeriod=1s,restartApplication=never",
    );
    let mut annotated = injection.annotated("config.retry-period", "1500ms");
    // It says nothing, as an empty variable does.
    annotated["metadata"]["annotations"][format!("{}/config.log-level", injection.prefix())] =
        "".into();
    let pod = injection.admitted(&annotated).unwrap();
    let environment = pod["spec"]["initContainers"][0]["env"].as_array().unwrap();
    let says = |name: &str| {
        environment
            .iter()
            .find(|variable| variable["name"] == name)
            .map(|variable| &variable["value"])
    };
    assert_eq!(says("BATON_RETRY_PERIOD"), Some(&json!("1500ms")));
    assert_eq!(says("BATON_LOG_LEVEL"), Some(&json!("debug")));
    assert_eq!(says("BATON_ON_LOST"), Some(&json!("stay")));
    assert_eq!(says("BATON_LEASE_DURATION"), None);
    assert!(pod["spec"]["initContainers"][0]["restartPolicyRules"].is_null());
}

#[test]
fn what_cannot_have_a_sidecar_is_refused_in_words() {
    let injection = Injection::installed("");
    let prefix = injection.prefix();
    let refusals = [
        (
            injection.without_election(),
            format!(
                "labeled {prefix}/inject=enabled, but no election is named: set the annotation {prefix}/election"
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

/// The policy that gives the sidecar may not have reached this server, or have been removed.
#[test]
fn a_pod_that_was_given_no_sidecar_is_refused_in_words() {
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
        let says = refusal.contains("was given no container `baton`") && refusal.contains(&name);
        if says { Ok(()) } else { Err(refusal) }
    });
}

/// What a controller makes of a template, and what `baton inject` makes of the workload before.
#[test]
fn pods_of_every_workload_are_given_what_baton_inject_gives_their_templates() {
    let injection = Injection::installed("");
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
        let workload = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "shop"}, "spec": spec});
        let kept = injection.admitted(&workload).unwrap();
        assert!(
            pod(&kept)["spec"]["initContainers"].is_null(),
            "a workload is as it was applied: {kept:#}"
        );
        let by_policy = injection.admitted(&pod(&workload)).unwrap();
        let by_program = inject(&workload, &[&format!("--prefix={}", injection.prefix())]).unwrap();
        assert!(injection.admitted(&by_program).is_ok(), "{kind}");
        let by_program = injection.admitted(&pod(&by_program)).unwrap();
        assert_eq!(names(&by_policy["spec"]["initContainers"]), ["baton"], "{kind}");
        assert_eq!(container(&by_policy), container(&by_program), "{kind}");
        assert_eq!(state(&by_policy), state(&by_program), "{kind}");
    }
}

#[test]
fn a_restricted_namespace_takes_the_sidecar_and_still_refuses_others() {
    let injection = Injection::installed("");
    injection.namespace.restrict();
    let pod = injection.admitted(&injection.pod(&json!({}))).unwrap();
    assert_eq!(names(&pod["spec"]["initContainers"]), ["baton"]);
    let careless =
        injection.pod(&json!({"containers": [{"name": "shop", "image": "localhost/shop:1"}]}));
    let refusal = injection.admitted(&careless).unwrap_err();
    assert!(
        refusal.contains("violates PodSecurity") && !refusal.contains("\"baton\""),
        "{refusal}"
    );
}

#[test]
fn after_an_uninstall_nothing_is_left_and_nothing_injected() {
    let injection = Injection::installed("");
    assert_eq!(injection.left().len(), 4);
    injection.helm(&["uninstall", injection.prefix()]);
    assert_eq!(injection.left(), [""; 0]);
    eventually(PATIENCE, "a labelled Pod is like any other", || {
        injection
            .admitted(&injection.without_election())
            .is_ok_and(|pod| pod["spec"]["initContainers"].is_null())
    });
}

#[test]
fn a_server_that_would_not_inject_is_refused_with_what_does() {
    let chart = chart("baton");
    let words = [
        "needs MutatingAdmissionPolicy v1 of Kubernetes 1.36",
        "`baton inject --restart-application never`",
    ];
    for server in ["--kube-version=1.35.9", "--set=kubeVersionOverride=1.35.4"] {
        let complaint =
            Helm::Four.template(&chart, &["--set=injection.enabled=true", server]).unwrap_err();
        assert!(words.iter().all(|word| complaint.contains(word)), "{complaint}");
    }
    refused(&chart, "--set=injection.prefix=Baton", &["/injection/prefix", "Baton"]);
    assert!(
        Helm::Four.template(&chart, &["--kube-version=1.35.9"]).unwrap().is_empty(),
        "it is off by default"
    );
}

/// A release whose policies are obeyed.
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
        succeeds(PATIENCE, "both policies are obeyed", || {
            let injected = injection.admitted(&injection.pod(&json!({})))?;
            let is_refused = injection.admitted(&injection.without_election()).is_err();
            let both = injected["spec"]["initContainers"].is_array() && is_refused;
            if both {
                Ok(())
            } else {
                Err(format!("without an election refused: {is_refused}; with one: {injected:#}"))
            }
        });
        injection
    }

    fn helm(&self, arguments: &[&str]) {
        let kubeconfig = format!("--kubeconfig={}", self.namespace.admin.kubeconfig().display());
        let namespace = format!("--namespace={}", self.namespace.name);
        let done = Helm::Four.run(&[arguments, &[&kubeconfig, &namespace]].concat());
        done.unwrap_or_else(|complaint| panic!("{arguments:?}: {complaint}"));
    }

    /// What label and annotations begin with, and the name of the release.
    fn prefix(&self) -> &str {
        &self.namespace.name
    }

    /// A labelled Pod of the election `orders`, with these fields in its spec.
    fn pod(&self, spec: &Value) -> Value {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "shop",
                "labels": {format!("{}/inject", self.prefix()): "enabled"},
                "annotations": {format!("{}/election", self.prefix()): "orders"},
            },
            "spec": {"containers": [{
                "name": "shop", "image": "localhost/shop:1",
                "securityContext": {
                    "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": true,
                    "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"},
                },
            }]},
        });
        for (field, value) in spec.as_object().unwrap() {
            pod["spec"][field] = value.clone();
        }
        pod
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

    /// What the server would keep of a Pod, or in which words it refuses.
    fn admitted(&self, pod: &Value) -> Result<Value, String> {
        judged(&self.namespace.admin, &self.namespace.name, pod)
    }

    /// What there is of the release outside its namespace.
    fn left(&self) -> Vec<String> {
        let ours =
            ListParams::default().labels(&format!("app.kubernetes.io/instance={}", self.prefix()));
        let mut found = Vec::new();
        for kind in OF_THE_CLUSTER.into_iter().filter(|kind| kind.contains("Admission")) {
            let resource = resource("admissionregistration.k8s.io/v1", kind);
            let list = self.namespace.admin.call(async |client| {
                Api::<DynamicObject>::all_with(client, &resource).list(&ours).await
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

/// The sidecar of a Pod, without what is each Pod's own: its election, the order of its variables, and the token that the
/// server mounts.
fn container(pod: &Value) -> Value {
    let mut container = pod["spec"]["initContainers"][0].clone();
    assert_eq!(container["name"], "baton", "{pod:#}");
    let environment = container["env"].as_array_mut().unwrap();
    environment.retain(|variable| variable["name"] != "BATON_ELECTION");
    environment.sort_by_key(|variable| variable["name"].to_string());
    container["volumeMounts"]
        .as_array_mut()
        .unwrap()
        .retain(|mount| mount["name"] == "baton-state");
    container
}

/// The volumes that a sidecar keeps its state in.
fn state(pod: &Value) -> Vec<&Value> {
    let volumes = pod["spec"]["volumes"].as_array().unwrap().iter();
    let found: Vec<_> = volumes.filter(|volume| volume["name"] == "baton-state").collect();
    assert_eq!(found.len(), 1, "{pod:#}");
    found
}

fn names(items: &Value) -> Vec<&str> {
    items.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect()
}
