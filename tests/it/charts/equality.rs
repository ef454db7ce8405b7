//! The same sidecar in both charts, in the manifests, and by injection, and the same version
//! everywhere.

use super::tools::{
    Helm, chart, find, in_repository, inject, kustomization, kustomized, objects_in, rendered,
    sidecar,
};
use serde_json::{Value, json};
use std::fs;

const ON_1_36: &str = "--kube-version=1.36.0";
const ON_1_35: &str = "--kube-version=1.35.4";

#[test]
fn charts_manifests_and_injection_have_the_same_sidecar() {
    let [with_restarts, without] = [ON_1_36, ON_1_35].map(|server| {
        let objects = rendered(&["--set=demo.enabled=true", server]);
        container(find(&objects, "Deployment", "test-baton-demo"))
    });
    let plain = objects_in("manifests/plain.yaml");
    assert_eq!(container(find(&plain, "Deployment", "orders")), with_restarts);
    let example = in_repository("manifests/example");
    assert_eq!(container(find(&kustomized(&example), "Deployment", "orders")), with_restarts);
    let older = kustomization(&["../example"], &["../components/before-1.36"]);
    assert_eq!(
        container(find(&kustomized(&older.path().join("it")), "Deployment", "orders")),
        without
    );
    for (restarts, expected) in [("always", with_restarts), ("never", without)] {
        let injected = inject(
            &json!([labelled_deployment()]),
            &[&format!("--restart-application={restarts}")],
        )
        .unwrap();
        let injected = &injected.as_array().unwrap()[0];
        assert_eq!(container(injected), expected, "by baton inject");
    }
}

#[test]
fn kustomize_component_puts_the_sidecar_first() {
    let folder = kustomization(&["application.yaml"], &["../components/sidecar"]);
    let application = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "shop"},
        "spec": {"template": {"spec": {
            "initContainers": [{"name": "migrate"}], "volumes": [{"name": "data"}],
        }}},
    });
    fs::write(folder.path().join("it/application.yaml"), application.to_string()).unwrap();
    let objects = kustomized(&folder.path().join("it"));
    let pod = &find(&objects, "StatefulSet", "shop")["spec"]["template"]["spec"];
    assert_eq!(names(&pod["initContainers"]), ["baton", "migrate"]);
    let mut volumes = names(&pod["volumes"]);
    volumes.sort_unstable();
    assert_eq!(volumes, ["baton-state", "data"]);
}

#[test]
fn state_directory_is_the_same_volume_everywhere() {
    let demo = rendered(&["--set=demo.enabled=true"]);
    let charts =
        &find(&demo, "Deployment", "test-baton-demo")["spec"]["template"]["spec"]["volumes"];
    let injected = inject(&labelled_deployment(), &[]).unwrap();
    assert_eq!(&injected["spec"]["template"]["spec"]["volumes"], charts);
    for objects in
        [objects_in("manifests/plain.yaml"), kustomized(&in_repository("manifests/example"))]
    {
        assert_eq!(
            &find(&objects, "Deployment", "orders")["spec"]["template"]["spec"]["volumes"],
            charts
        );
    }
}

#[test]
fn both_charts_have_the_same_settings_and_defaults() {
    let schema = |name: &str| -> Value {
        serde_json::from_slice(&fs::read(chart(name).join("values.schema.json")).unwrap()).unwrap()
    };
    let values = |name: &str| objects_in(&format!("charts/{name}/values.yaml")).remove(0);
    let (baton, library) = (schema("baton"), schema("baton-sidecar"));
    assert_eq!(baton["definitions"], library["definitions"]);
    let (baton_values, library_values) = (values("baton"), values("baton-sidecar"));
    for setting in [
        "backend",
        "zookeeper",
        "image",
        "restartApplication",
        "kubeVersionOverride",
        "resources",
        "config",
    ] {
        assert_eq!(baton["properties"][setting], library["properties"][setting], "{setting}");
        assert_eq!(baton_values[setting], library_values[setting], "{setting}");
        assert!(!library_values[setting].is_null(), "{setting}");
    }
}

#[test]
fn charts_and_images_have_the_programs_version() {
    let version = env!("CARGO_PKG_VERSION");
    for name in ["baton", "baton-sidecar"] {
        let metadata = objects_in(&format!("charts/{name}/Chart.yaml")).remove(0);
        assert_eq!(
            (&metadata["version"], &metadata["appVersion"]),
            (&json!(version), &json!(version)),
            "{name}"
        );
        for dependency in metadata["dependencies"].as_array().into_iter().flatten() {
            assert_eq!(dependency["version"], version, "{name}");
        }
    }
    let objects = rendered(&["--set=demo.enabled=true"]);
    for image in ["baton", "baton-demo"] {
        assert!(
            Value::from(objects.clone())
                .to_string()
                .contains(&format!("\"localhost/{image}:{version}\"")),
            "{image}"
        );
    }
}

#[test]
fn library_chart_is_not_installable() {
    for helm in Helm::BOTH {
        let error = helm.template(&chart("baton-sidecar"), &[]).unwrap_err();
        assert!(error.contains("library charts are not installable"), "{error}");
    }
}

/// A workload's sidecar, without the election's name and with sorted variables, for comparison.
fn container(workload: &Value) -> Value {
    let mut container = sidecar(workload).clone();
    let environment = container["env"].as_array_mut().unwrap();
    let all = environment.len();
    environment.retain(|variable| variable["name"] != "BATON_ELECTION");
    assert_eq!(environment.len() + 1, all, "one variable names the election");
    environment.sort_by_key(|variable| variable["name"].to_string());
    container
}

fn labelled_deployment() -> Value {
    let metadata =
        json!({"labels": {"baton/inject": "enabled"}, "annotations": {"baton/election": "orders"}});
    let template = json!({"metadata": metadata, "spec": {"containers": [{"name": "shop"}]}});
    json!({"kind": "Deployment", "metadata": {"name": "shop"}, "spec": {"template": template}})
}

fn names(items: &Value) -> Vec<&str> {
    items.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect()
}
