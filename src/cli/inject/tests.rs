//! What `inject` makes of templates, without a process.

use super::*;
use crate::cli::RestartApplication;

fn injected(text: &str) -> Result<String, String> {
    let (image, prefix) = ("registry/baton:1".to_owned(), "baton".to_owned());
    let options =
        Inject { image, restart_application: RestartApplication::Always, prefix, strict: false };
    inject(text, &options).map(|injected| injected.text).map_err(|mistakes| {
        mistakes
            .iter()
            .map(|mistake| crate::error_chain::ErrorChain(mistake).to_string())
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
fn what_is_not_labelled_goes_out_byte_for_byte() {
    let strange = "# A note\r\n---\nkind:   Pod # spaced\nspec: {containers: []}\n--- {a: 1}\n---\n\n# the end";
    assert_eq!(injected(strange).as_deref(), Ok(strange));
    assert_eq!(injected("").as_deref(), Ok(""));
    let label_of_the_workload =
        "kind: Deployment\nmetadata: {labels: {baton/inject: enabled}}\nspec: {replicas: 3}\n";
    assert_eq!(injected(label_of_the_workload).as_deref(), Ok(label_of_the_workload));
}

#[test]
fn the_sidecar_goes_first_and_only_once() {
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
fn templates_are_found_wherever_they_are() {
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
fn everything_that_is_wrong_is_named_at_once_and_nothing_printed() {
    let pods = [
        pod("", ""),
        pod("baton/election: Orders", ""),
        pod("baton/election: orders, baton/config.leaseDuration: 30s", ""),
        pod("baton/election: orders, baton/config.lease-duration: 9s", ""),
        "a: b: c".to_owned(),
    ];
    let told = injected(&pods.join("\n---\n")).unwrap_err();
    let words = [
        "Pod shop is labelled baton/inject=enabled, but no election is named: set the annotation baton/election",
        "Pod shop asks for what its sidecar would refuse: election \"Orders\" is not a DNS-1123 subdomain",
        "no flag can be set by the annotation baton/config.leaseDuration",
        "these would pass: --lease-duration",
        "document 5 is not YAML: ",
    ];
    for word in words {
        assert!(told.contains(word), "{word} is not in\n{told}");
    }
}

#[test]
fn values_mean_to_kubectl_what_they_meant_before() {
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
fn near_misses_are_named_and_deliberate_refusals_are_not() {
    let (image, prefix) = ("registry/baton:1".to_owned(), "baton".to_owned());
    let options =
        Inject { image, restart_application: RestartApplication::Always, prefix, strict: false };
    let told = |metadata: &str| {
        let text = format!(
            "kind: Pod\nmetadata: {{name: shop, {metadata}}}\nspec: {{containers: [{{name: shop}}]}}\n"
        );
        let injected = inject(&text, &options).unwrap();
        assert_eq!((injected.text, injected.summary.templates), (text, 1));
        injected.near_misses.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    assert!(
        told("labels: {baton/inject: 'true'}")
            .contains("Pod shop: the label baton/inject is \"true\"")
    );
    assert!(told("annotations: {baton/inject: enabled}").contains("move it to the labels"));
    assert!(
        told("annotations: {baton/election: orders}")
            .contains("the label baton/inject: enabled is missing")
    );
    for silent in
        ["labels: {baton/inject: disabled}", "labels: {baton/inject: false}", "labels: {app: shop}"]
    {
        assert_eq!(told(silent), "", "{silent}");
    }
}

#[test]
fn a_label_on_the_workload_is_named_unless_its_template_has_one() {
    let (image, prefix) = ("registry/baton:1".to_owned(), "baton".to_owned());
    let options =
        Inject { image, restart_application: RestartApplication::Always, prefix, strict: true };
    let workload = |template: &str| {
        let template =
            format!("{{metadata: {{{template}}}, spec: {{containers: [{{name: shop}}]}}}}");
        let metadata = "{name: shop, labels: {baton/inject: enabled}}";
        inject(
            &format!("kind: Deployment\nmetadata: {metadata}\nspec: {{template: {template}}}\n"),
            &options,
        )
    };
    let mistakes = workload("").unwrap_err();
    assert!(
        mistakes[0]
            .to_string()
            .contains("Deployment shop: the label baton/inject is on the object")
    );
    let labelled = "labels: {baton/inject: enabled}, annotations: {baton/election: orders}";
    assert_eq!(workload(labelled).unwrap().summary.to_string(), "1 of 1 templates injected");
}
