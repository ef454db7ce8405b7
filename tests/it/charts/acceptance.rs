//! Schemas of several Kubernetes releases, and a real API server, accept the rendered objects.

use super::schemas::{RELEASES, schemas};
use super::server::{create, pod};
use super::tools::{
    Helm, chart, conform, in_repository, kustomization, kustomized, objects, objects_in, rendered,
};
use super::zookeeper::ENSEMBLE;
use crate::rig::ApiServer;
use serde_json::json;

/// An election with all optional objects around it.
const HARDENED: &str = "--set=flowSchema.enabled=true,networkPolicy.enabled=true,\
                        podDisruptionBudget.enabled=true,elections.orders.podLabels.app=shop,\
                        elections.orders.serviceAccountName=shop";

/// Values of `charts/baton`, one feature each.
const FEATURES: [&[&str]; 9] = [
    &["--set=dashboard.enabled=true,serviceAccount.create=true", HARDENED],
    &[
        "--set=elections.orders.namespace=sales,elections.orders.serviceAccountName=shop",
        "--set=elections.reports.serviceAccountName=auditor",
    ],
    &["--set=elections.orders.serviceAccountName=shop,elections.orders.service.port=80"],
    &["--set=demo.enabled=true"],
    &["--set=demo.enabled=true", ENSEMBLE],
    &[
        "--set=demo.enabled=true,demo.replicas=5",
        "--set=config.leaseDuration=30s,config.requirePolling=1m,config.logLevel=debug",
    ],
    &[
        "--set=demo.enabled=true,image.registry=",
        "--set=image.digest=sha256:\
         0000000000000000000000000000000000000000000000000000000000000000",
    ],
    &[
        "--set=demo.enabled=true,demo.ledger.nodeSelector.disk=ssd",
        "--set-json=demo.tolerations=[{\"operator\":\"Exists\"}]",
    ],
    &["--set=demo.enabled=true,restartApplication=never,resources.limits.cpu=1"],
];

#[test]
fn charts_pass_the_linters_of_both_helm_versions() {
    for helm in Helm::BOTH {
        for name in ["baton", "baton-sidecar"] {
            let linted = helm.run(&["lint", "--strict", chart(name).to_str().unwrap()]);
            assert!(linted.is_ok(), "{helm:?}: {linted:?}");
        }
    }
}

#[test]
fn charts_conform_to_the_schemas_of_every_release() {
    for release in RELEASES {
        let schemas = schemas(release);
        let server = format!("--kube-version={release}");
        for feature in FEATURES {
            let objects = rendered(&[feature, &[&server]].concat());
            assert!(!objects.is_empty());
            let report = conform(&objects, schemas.path());
            assert!(report.is_ok(), "{release} with {feature:?}: {report:?}");
        }
    }
}

#[test]
fn injection_policies_conform_to_1_36_and_not_to_1_35() {
    let objects = rendered(&["--set=injection.enabled=true"]);
    assert_eq!(objects.len(), 4);
    assert!(conform(&objects, schemas("1.36.3").path()).is_ok());
    // In 1.35, the API was only a beta.
    let report = conform(&objects, schemas("1.35.4").path()).unwrap_err();
    assert!(report.contains("MutatingAdmissionPolicy"), "{report}");
}

/// `helm install` learns from the server what it has on.
#[test]
fn injection_policies_are_beta_where_a_server_has_the_beta_on() {
    let beta = "admissionregistration.k8s.io/v1beta1";
    let has_beta = format!("--api-versions={beta}/MutatingAdmissionPolicy");
    let on_1_36 = rendered(&["--set=injection.enabled=true,restartApplication=never"]);
    for release in ["1.34.4", "1.35.4"] {
        let server = format!("--kube-version={release}");
        let mut objects = rendered(&["--set=injection.enabled=true", &has_beta, &server]);
        assert!(conform(&objects, schemas(release).path()).is_ok(), "{release}");
        for object in &mut objects {
            let is_mutating = object["kind"].as_str().unwrap().starts_with("Mutating");
            if is_mutating {
                assert_eq!(object["apiVersion"], beta);
                object["apiVersion"] = "admissionregistration.k8s.io/v1".into();
            }
        }
        assert_eq!(objects, on_1_36, "{release}: only the version differs");
    }
}

#[test]
fn schema_refuses_a_field_that_its_release_lacks() {
    // The API has the field since 1.34, but accepts it on a sidecar only since 1.36.
    let objects = rendered(&["--set=demo.enabled=true,restartApplication=always"]);
    let report = conform(&objects, schemas("1.33.13").path()).unwrap_err();
    assert!(report.contains("restartPolicyRules"), "{report}");
}

#[test]
fn manifests_conform_to_the_schemas_of_their_release() {
    let schemas = schemas("1.36.3");
    for objects in
        [objects_in("manifests/plain.yaml"), kustomized(&in_repository("manifests/example"))]
    {
        let report = conform(&objects, schemas.path());
        assert!(report.is_ok(), "{report:?}");
    }
}

#[test]
fn component_for_older_servers_conforms_to_their_schemas() {
    let folder = kustomization(&["../example"], &["../components/before-1.36"]);
    let objects = kustomized(&folder.path().join("it"));
    for release in RELEASES {
        let report = conform(&objects, schemas(release).path());
        assert!(report.is_ok(), "{release}: {report:?}");
    }
}

#[test]
fn names_of_digits_are_rendered_as_strings() {
    let chart = chart("baton");
    let settings = ["--namespace=77", "--set=demo.enabled=true", "--kube-version=1.36.3"];
    for helm in Helm::BOTH {
        let rendered =
            helm.run(&[&["template", "2024", chart.to_str().unwrap()], &settings[..]].concat());
        let objects = objects(&rendered.unwrap());
        let report = conform(&objects, schemas("1.36.3").path());
        assert!(report.is_ok(), "{helm:?}: {report:?}");
    }
}

/// The server refuses unknown fields, and Pods that violate Pod Security `restricted`.
#[test]
fn restricted_namespace_accepts_demo_and_manifests() {
    let namespace = ApiServer::shared().namespace();
    namespace.restrict();
    let in_namespace = format!("--namespace={}", namespace.name);
    let mut objects = rendered(&[
        "--set=demo.enabled=true,elections.reports.serviceAccountName=shop",
        &in_namespace,
    ]);
    objects.extend(objects_in("manifests/plain.yaml"));
    // Objects that controllers would create for a namespace and for a Deployment.
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    let pods: Vec<_> =
        objects.iter().filter(|object| object["kind"] == "Deployment").map(pod).collect();
    assert_eq!(pods.len(), 3);
    for object in [account].iter().chain(&objects).chain(&pods) {
        let created = create(&namespace.admin, &namespace.name, object);
        assert!(created.is_ok(), "{created:?} for {object:#}");
    }
    let mut insecure = pods[0].clone();
    insecure["metadata"]["name"] = "careless".into();
    insecure["spec"]["initContainers"][0]["securityContext"]
        .as_object_mut()
        .unwrap()
        .remove("seccompProfile");
    let refusal = create(&namespace.admin, &namespace.name, &insecure).unwrap_err().to_string();
    assert!(refusal.contains("violates PodSecurity \"restricted:latest\""), "{refusal}");
}
