//! Whether API servers take what is rendered: the schemas of several releases, and one real server.

use super::schemas::{RELEASES, schemas};
use super::server::{create, pod};
use super::tools::{
    Helm, chart, conform, in_repository, kustomization, kustomized, objects, objects_in, rendered,
};
use super::zookeeper::ENSEMBLE;
use crate::rig::ApiServer;
use serde_json::json;

/// An election, and all that can be put around it.
const HARDENED: &str = "--set=flowSchema.enabled=true,networkPolicy.enabled=true,podDisruptionBudget.enabled=true,\
                        elections.orders.serviceAccountName=shop,elections.orders.podLabels.app=shop";

/// Values of `charts/baton`, one feature each.
const FEATURES: [&[&str]; 8] = [
    &["--set=dashboard.enabled=true,serviceAccount.create=true", HARDENED],
    &[
        "--set=elections.orders.namespace=sales,elections.orders.serviceAccountName=shop",
        "--set=elections.reports.serviceAccountName=auditor",
    ],
    &["--set=demo.enabled=true"],
    &["--set=demo.enabled=true", ENSEMBLE],
    &[
        "--set=demo.enabled=true,demo.replicas=5,config.leaseDuration=30s,config.requirePolling=1m,config.logLevel=debug",
    ],
    &[
        "--set=demo.enabled=true,image.registry=,image.digest=sha256:0000000000000000000000000000000000000000000000000000000000000000",
    ],
    &[
        "--set=demo.enabled=true,demo.ledger.nodeSelector.disk=ssd",
        "--set-json=demo.tolerations=[{\"operator\":\"Exists\"}]",
    ],
    &["--set=demo.enabled=true,restartApplication=never,resources.limits.cpu=1"],
];

#[test]
fn the_linters_of_both_helms_are_content() {
    for helm in Helm::BOTH {
        for name in ["baton", "baton-sidecar"] {
            let linted = helm.run(&["lint", "--strict", chart(name).to_str().unwrap()]);
            assert!(linted.is_ok(), "{helm:?}: {linted:?}");
        }
    }
}

#[test]
fn everything_conforms_to_the_schemas_of_every_release() {
    for release in RELEASES {
        let schemas = schemas(release);
        let server = format!("--kube-version={release}");
        for feature in FEATURES {
            let objects = rendered(&[feature, &[&server]].concat());
            assert!(!objects.is_empty());
            let verdict = conform(&objects, schemas.path());
            assert!(verdict.is_ok(), "{release} with {feature:?}: {verdict:?}");
        }
    }
}

#[test]
fn the_policies_conform_to_the_schemas_of_the_first_release_that_injects() {
    let objects = rendered(&["--set=injection.enabled=true"]);
    assert_eq!(objects.len(), 4);
    assert!(conform(&objects, schemas("1.36.3").path()).is_ok());
    // Before it there was a beta only.
    let verdict = conform(&objects, schemas("1.35.4").path()).unwrap_err();
    assert!(verdict.contains("MutatingAdmissionPolicy"), "{verdict}");
}

#[test]
fn a_schema_refuses_what_its_release_does_not_know() {
    // From 1.34 on the API has the field, though it takes it on a sidecar only from 1.36 on.
    let objects = rendered(&["--set=demo.enabled=true,restartApplication=always"]);
    let verdict = conform(&objects, schemas("1.33.13").path()).unwrap_err();
    assert!(verdict.contains("restartPolicyRules"), "{verdict}");
}

#[test]
fn the_manifests_conform_to_the_schemas_of_the_release_that_they_are_for() {
    let schemas = schemas("1.36.3");
    for objects in
        [objects_in("manifests/plain.yaml"), kustomized(&in_repository("manifests/example"))]
    {
        let verdict = conform(&objects, schemas.path());
        assert!(verdict.is_ok(), "{verdict:?}");
    }
}

#[test]
fn what_kustomize_makes_for_older_servers_conforms_to_their_schemas() {
    let folder = kustomization(&["../example"], &["../components/before-1.36"]);
    let objects = kustomized(&folder.path().join("it"));
    for release in RELEASES {
        let verdict = conform(&objects, schemas(release).path());
        assert!(verdict.is_ok(), "{release}: {verdict:?}");
    }
}

#[test]
fn names_of_digits_are_texts() {
    let chart = chart("baton");
    let settings = ["--namespace=77", "--set=demo.enabled=true", "--kube-version=1.36.3"];
    for helm in Helm::BOTH {
        let rendered =
            helm.run(&[&["template", "2024", chart.to_str().unwrap()], &settings[..]].concat());
        let objects = objects(&rendered.unwrap());
        let verdict = conform(&objects, schemas("1.36.3").path());
        assert!(verdict.is_ok(), "{helm:?}: {verdict:?}");
    }
}

/// Strict in two ways: it refuses unknown fields, and Pods that are not as Pod Security `restricted` asks.
#[test]
fn a_real_api_server_takes_all_of_it_in_a_restricted_namespace() {
    let namespace = ApiServer::shared().namespace();
    namespace.restrict();
    let in_namespace = format!("--namespace={}", namespace.name);
    let mut objects = rendered(&[
        "--set=demo.enabled=true,elections.reports.serviceAccountName=shop",
        &in_namespace,
    ]);
    objects.extend(objects_in("manifests/plain.yaml"));
    // What a controller would make of a Deployment, and of a namespace.
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    let pods: Vec<_> =
        objects.iter().filter(|object| object["kind"] == "Deployment").map(pod).collect();
    assert_eq!(pods.len(), 3);
    for object in [account].iter().chain(&objects).chain(&pods) {
        let taken = create(&namespace.admin, &namespace.name, object);
        assert!(taken.is_ok(), "{taken:?} for {object:#}");
    }
    let mut careless = pods[0].clone();
    careless["metadata"]["name"] = "careless".into();
    careless["spec"]["initContainers"][0]["securityContext"]
        .as_object_mut()
        .unwrap()
        .remove("seccompProfile");
    let refusal = create(&namespace.admin, &namespace.name, &careless).unwrap_err().to_string();
    assert!(refusal.contains("violates PodSecurity \"restricted:latest\""), "{refusal}");
}
