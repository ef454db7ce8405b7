//! Tests of [`inject`], without a process.

use super::*;
use crate::cli::RestartApplication;

fn injected(text: &str) -> Result<String, String> {
    let (image, prefix) = ("registry/baton:1".to_owned(), "baton".to_owned());
    let options = Inject {
        image,
        restart_application: RestartApplication::Always,
        prefix,
        strict: false,
        kyverno: false,
    };
    inject(text, &options).map(|injected| injected.text).map_err(|errors| {
        errors
            .iter()
            .map(|error| crate::error_chain::ErrorChain(error).to_string())
            .collect::<Vec<_>>()
            .join("\n")
    })
}

/// A Pod with these annotations, and these lines in its spec.
fn pod(annotations: &str, spec: &str) -> String {
    let metadata = format!(
        "{{name: shop, labels: {{baton/inject: enabled}}, annotations: {{{annotations}}}}}"
    );
    format!("kind: Pod\nmetadata: {metadata}\nspec:\n  containers: [{{name: shop}}]\n{spec}")
}

fn value(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

#[test]
fn unlabeled_documents_stay_byte_for_byte() {
    let strange = "# A note\r\n---\nkind:   Pod # spaced\nspec: {containers: []}\n--- {a: \
                   1}\n---\n\n# the end";
    assert_eq!(injected(strange).as_deref(), Ok(strange));
    assert_eq!(injected("").as_deref(), Ok(""));
    let labeled_workload =
        "kind: Deployment\nmetadata: {labels: {baton/inject: enabled}}\nspec: {replicas: 3}\n";
    assert_eq!(injected(labeled_workload).as_deref(), Ok(labeled_workload));
}

#[test]
fn sidecar_is_added_first_and_only_once() {
    let text = format!(
        "# Source: shop\n---\n# of the shop\n{}---\nkind: Service\n",
        pod(
            "baton/election: orders",
            "  initContainers: [{name: migrate}]\n  volumes: [{name: data}]\n"
        )
    );
    let once = injected(&text).unwrap();
    assert!(once.starts_with("# Source: shop\n---\n# of the shop\nkind: Pod\n"), "{once}");
    assert!(once.ends_with("\n---\nkind: Service\n"), "{once}");
    let pod = value(once.split("---\n").nth(1).unwrap());
    let names = |list: &str| {
        pod["spec"][list].as_array().unwrap().iter().map(|item| item["name"].clone()).collect()
    };
    let [containers, volumes]: [Vec<Value>; 2] = ["initContainers", "volumes"].map(names);
    assert_eq!(
        (containers, volumes),
        (vec!["baton".into(), "migrate".into()], vec!["data".into(), "baton-state".into()])
    );
    assert_eq!(injected(&once).as_deref(), Ok(once.as_str()));
}

#[test]
fn templates_are_found_at_any_depth() {
    let template = pod("baton/election: orders", "").replace('\n', "\n        ");
    let job = format!(
        "kind: CronJob\nspec:\n  jobTemplate:\n    spec:\n      template:\n        {template}\n"
    );
    let found = value(&injected(&job).unwrap());
    assert_eq!(
        found["spec"]["jobTemplate"]["spec"]["template"]["spec"]["initContainers"][0]["name"],
        "baton"
    );
    let list = format!("kind: List\nitems:\n      - {template}\n");
    assert_eq!(
        value(&injected(&list).unwrap())["items"][0]["spec"]["initContainers"][0]["image"],
        "registry/baton:1"
    );
}

#[test]
fn annotations_set_flags() {
    let text = pod(
        "baton/election: orders, baton/config.lease-duration: 30s, baton/config.log-level: ''",
        "",
    );
    let pod = value(&injected(&text).unwrap());
    let environment = pod["spec"]["initContainers"][0]["env"].as_array().unwrap();
    assert!(
        environment.contains(&serde_json::json!({"name": "BATON_LEASE_DURATION", "value": "30s"}))
    );
    assert!(!environment.iter().any(|variable| variable["name"] == "BATON_LOG_LEVEL"));
}

#[test]
fn every_error_is_reported_at_once() {
    let pods = [
        pod("", ""),
        pod("baton/election: Orders", ""),
        pod("baton/election: orders, baton/config.leaseDuration: 30s", ""),
        pod("baton/election: orders, baton/config.lease-duration: 9s", ""),
        "a: b: c".to_owned(),
    ];
    let errors = injected(&pods.join("\n---\n")).unwrap_err();
    let expected = [
        "Pod shop has the label baton/inject: enabled but names no election",
        "the sidecar of Pod shop would refuse its configuration: election \"Orders\" is not a \
         DNS-1123 subdomain",
        "the annotation baton/config.leaseDuration: \"30s\" sets no flag",
        "these would pass: --lease-duration",
        "document 5 is not YAML: ",
    ];
    for text in expected {
        assert!(errors.contains(text), "{text} is not in\n{errors}");
    }
}

#[test]
fn unsuitable_pods_are_refused() {
    let refusals = [
        ("hostNetwork: true", "uses the host's network"),
        ("automountServiceAccountToken: false", "gets no service account token"),
        ("volumes: [{name: baton-state, hostPath: {path: /}}]", "is no emptyDir"),
        ("os: {name: windows}", "is for Windows"),
        ("nodeSelector: {kubernetes.io/os: windows}", "is for Windows"),
    ];
    for (spec, words) in refusals {
        let error = injected(&pod("baton/election: orders", &format!("  {spec}\n"))).unwrap_err();
        assert!(
            error.starts_with("Pod shop cannot have a sidecar: it") && error.contains(words),
            "{spec}: {error}"
        );
    }
    for spec in [
        "hostNetwork: false",
        "automountServiceAccountToken: true",
        "volumes: [{name: baton-state}]",
        "volumes: [{name: baton-state, emptyDir: {}}, {name: data, hostPath: {path: /}}]",
        "nodeSelector: {kubernetes.io/os: linux}",
    ] {
        assert!(injected(&pod("baton/election: orders", &format!("  {spec}\n"))).is_ok(), "{spec}");
    }
}

#[test]
fn values_keep_their_meaning_for_kubectl() {
    let text = pod(
        "baton/election: orders",
        "  a: 0644\n  b: yes\n  c: 'yes'\n  d: '0644'\n  e: \"x\\ny\"\n  f: 1.5\n",
    );
    let written = injected(&text).unwrap();
    let as_kubectl = serde_saphyr::options! { legacy_octal_numbers: true };
    let spec =
        serde_saphyr::from_str_with_options::<Value>(&written, as_kubectl).unwrap()["spec"].clone();
    let expected =
        serde_json::json!({"a": 420, "b": true, "c": "yes", "d": "0644", "e": "x\ny", "f": 1.5});
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&spec[key], value, "{written}");
    }
}

#[test]
fn near_misses_are_reported_unless_opted_out() {
    let (image, prefix) = ("registry/baton:1".to_owned(), "baton".to_owned());
    let options = Inject {
        image,
        restart_application: RestartApplication::Always,
        prefix,
        strict: false,
        kyverno: false,
    };
    let near_misses = |metadata: &str| {
        let text = format!(
            "kind: Pod\nmetadata: {{name: shop, {metadata}}}\nspec: {{containers: [{{name: \
             shop}}]}}\n"
        );
        let injected = inject(&text, &options).unwrap();
        assert_eq!((injected.text, injected.summary.templates), (text, 1));
        injected.near_misses.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    assert!(
        near_misses("labels: {baton/inject: 'true'}")
            .contains("Pod shop: the label baton/inject is \"true\"")
    );
    assert!(near_misses("annotations: {baton/inject: enabled}").contains("move it to the labels"));
    assert!(
        near_misses("annotations: {baton/election: orders}")
            .contains("the label baton/inject: enabled is missing")
    );
    for opt_out in
        ["labels: {baton/inject: disabled}", "labels: {baton/inject: false}", "labels: {app: shop}"]
    {
        assert_eq!(near_misses(opt_out), "", "{opt_out}");
    }
}

#[test]
fn label_on_the_workload_alone_is_reported() {
    let (image, prefix) = ("registry/baton:1".to_owned(), "baton".to_owned());
    let options = Inject {
        image,
        restart_application: RestartApplication::Always,
        prefix,
        strict: true,
        kyverno: false,
    };
    let workload = |template: &str| {
        let template =
            format!("{{metadata: {{{template}}}, spec: {{containers: [{{name: shop}}]}}}}");
        let metadata = "{name: shop, labels: {baton/inject: enabled}}";
        inject(
            &format!("kind: Deployment\nmetadata: {metadata}\nspec: {{template: {template}}}\n"),
            &options,
        )
    };
    let errors = workload("").unwrap_err();
    assert!(
        errors[0].to_string().contains("Deployment shop: the label baton/inject is on the object")
    );
    let labeled = "labels: {baton/inject: enabled}, annotations: {baton/election: orders}";
    assert_eq!(workload(labeled).unwrap().summary.to_string(), "1 of 1 templates injected");
}

#[test]
fn stopping_limit_follows_the_grace_period() {
    let limit = |annotations: &str, spec: &str| {
        let text = injected(&pod(&format!("baton/election: orders{annotations}"), spec)).unwrap();
        let pod = value(&text);
        let environment = pod["spec"]["initContainers"][0]["env"].as_array().unwrap().clone();
        environment
            .iter()
            .filter(|variable| variable["name"] == "BATON_STOPPING_LIMIT")
            .map(|variable| variable["value"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let grace = |seconds| format!("  terminationGracePeriodSeconds: {seconds}\n");
    assert_eq!(limit("", ""), [""; 0], "the program's default is longer");
    assert_eq!(limit("", &grace(540)), [""; 0]);
    assert_eq!(limit("", &grace(541)), ["601s"]);
    assert_eq!(limit(", baton/config.stopping-limit: 1h", &grace(900)), ["1h"]);
}
