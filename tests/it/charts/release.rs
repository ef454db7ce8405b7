//! A release on a real API server, with no kubelet behind it: installed, upgraded, and gone without a trace.

use super::tools::{Helm, chart};
use crate::rig::{ApiServer, Namespace};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, ObjectMeta};
use std::collections::BTreeSet;

/// What a namespace of a release can have in it, as far as it matters here; Helm keeps its books in Secrets.
const KINDS: [(&str, &str, &str); 9] = [
    ("", "v1", "ServiceAccount"),
    ("", "v1", "Service"),
    ("", "v1", "Secret"),
    ("", "v1", "ConfigMap"),
    ("", "v1", "Pod"),
    ("apps", "v1", "Deployment"),
    ("rbac.authorization.k8s.io", "v1", "Role"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding"),
    ("coordination.k8s.io", "v1", "Lease"),
];

#[test]
fn a_release_follows_its_values_and_leaves_nothing() {
    for helm in Helm::BOTH {
        let namespace = ApiServer::shared().namespace();
        let release = |arguments: &[&str]| {
            let kubeconfig = format!("--kubeconfig={}", namespace.admin.kubeconfig().display());
            let in_namespace = format!("--namespace={}", namespace.name);
            let done = helm.run(&[arguments, &[&kubeconfig, &in_namespace]].concat());
            done.unwrap_or_else(|complaint| panic!("{helm:?} {arguments:?}: {complaint}"))
        };
        let chart = chart("baton");
        let chart = chart.to_str().unwrap();
        let has = |object: &str| contents(&namespace).contains(object);

        let notes =
            release(&["install", "test", chart, "--set=demo.enabled=true,elections.orders.serviceAccountName=shop"]);
        assert!(has("Deployment test-baton-demo") && has("Role orders"), "{:?}", contents(&namespace));
        for name in ["get lease test-baton-demo", "services/test-baton-demo-ledger:http"] {
            assert!(notes.contains(name), "{name} is not in {notes}");
        }
        // The sidecars write their Lease, and go on renewing it while a release is upgraded.
        let renewed = LeaseSpec { holder_identity: Some("a_1".to_owned()), ..LeaseSpec::default() };
        let metadata = ObjectMeta { name: Some("test-baton-demo".to_owned()), ..ObjectMeta::default() };
        namespace.admin.put(&Lease { metadata, spec: Some(renewed.clone()) }).unwrap();

        release(&[
            "upgrade",
            "test",
            chart,
            "--set=demo.enabled=true,demo.replicas=5,elections.reports.serviceAccountName=shop",
        ]);
        assert!(has("Role reports") && !has("Role orders") && !has("RoleBinding orders"), "{:?}", contents(&namespace));
        let lease = namespace.admin.lease("test-baton-demo").unwrap().unwrap();
        assert_eq!(lease.spec, Some(renewed), "Helm has let it alone");

        release(&["uninstall", "test"]);
        assert_eq!(contents(&namespace), BTreeSet::new(), "{helm:?}");
    }
}

/// What is in a namespace: `Role orders`.
fn contents(namespace: &Namespace) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (group, version, kind) in KINDS {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let list = namespace.admin.call(async |client| {
            Api::<DynamicObject>::default_namespaced_with(client, &resource).list(&ListParams::default()).await
        });
        found.extend(list.unwrap().into_iter().map(|object| format!("{kind} {}", object.name_any())));
    }
    found
}
