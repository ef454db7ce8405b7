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

/// What the demo of the release `test` elects over.
const LEASE: &str = "test-baton-demo";

#[test]
fn a_release_follows_its_values_and_leaves_nothing() {
    for helm in Helm::BOTH {
        let namespace = ApiServer::shared().namespace();
        let release = Release { name: "test", helm, namespace: &namespace };
        let notes =
            release.helm("install", "demo.enabled=true,elections.orders.serviceAccountName=shop");
        let here = contents(&namespace);
        assert!(
            here.contains("Deployment test-baton-demo") && here.contains("Role orders"),
            "{here:?}"
        );
        for name in ["get lease test-baton-demo", "services/test-baton-demo-ledger:http"] {
            assert!(notes.contains(name), "{name} is not in {notes}");
        }
        // The sidecars write their Lease, and go on renewing it while a release is upgraded.
        let renewed = release.put_lease();

        release.helm(
            "upgrade",
            "demo.enabled=true,demo.replicas=5,elections.reports.serviceAccountName=shop",
        );
        let here = contents(&namespace);
        assert!(here.contains("Role reports"), "{here:?}");
        assert!(!here.contains("Role orders") && !here.contains("RoleBinding orders"), "{here:?}");
        assert_eq!(release.lease(), Some(renewed), "Helm has let it alone");

        release.uninstall();
        assert_eq!(contents(&namespace), BTreeSet::new(), "{helm:?}");
    }
}

#[test]
fn a_demo_that_is_turned_off_takes_its_lease_along_and_nobody_elses() {
    for helm in Helm::BOTH {
        let namespace = ApiServer::shared().namespace();
        let release = Release { name: "test", helm, namespace: &namespace };
        release.helm("install", "demo.enabled=true");
        release.put_lease();
        release.helm("upgrade", "demo.enabled=false");
        let mut here = contents(&namespace);
        here.retain(|object| !object.starts_with("Secret sh.helm.release."));
        assert_eq!(here, BTreeSet::new(), "{helm:?}");

        let foreign = release.put_lease();
        release.helm("upgrade", "demo.enabled=false,demo.replicas=5");
        release.uninstall();
        assert_eq!(release.lease(), Some(foreign), "{helm:?}");
    }
}

#[test]
fn a_demo_that_moves_to_an_ensemble_takes_its_lease_and_its_rights_along() {
    for helm in Helm::BOTH {
        let namespace = ApiServer::shared().namespace();
        let release = Release { name: "test", helm, namespace: &namespace };
        release.helm("install", "demo.enabled=true");
        release.put_lease();
        let over_zookeeper = "demo.enabled=true,backend=zookeeper,zookeeper.servers=zk:2181";
        let notes = release.helm("upgrade", over_zookeeper);
        assert!(notes.contains("/baton status") && !notes.contains("get lease"), "{notes}");
        assert_eq!(release.lease(), None, "{helm:?}");
        let here = contents(&namespace);
        let gone = ["ServiceAccount", "Role"]
            .map(|kind| here.iter().any(|object| object.starts_with(kind)));
        assert_eq!(gone, [false; 2], "{here:?}");
        release.uninstall();
        assert_eq!(contents(&namespace), BTreeSet::new(), "{helm:?}");
    }
}

#[test]
fn a_release_without_a_demo_spares_the_lease_of_one_whose_demo_is_called_as_its_own_would_be() {
    for helm in Helm::BOTH {
        let namespace = ApiServer::shared().namespace();
        let [other, release] =
            ["test-baton", "test"].map(|name| Release { name, helm, namespace: &namespace });
        other.helm("install", "demo.enabled=true");
        let live = other.put_lease();
        for verb in ["install", "upgrade"] {
            release.helm(verb, "demo.enabled=false");
            assert_eq!(release.lease().as_ref(), Some(&live), "{helm:?}, {verb}");
        }
        release.uninstall();
        assert_eq!(release.lease(), Some(live), "{helm:?}");
    }
}

#[test]
fn the_notes_of_a_release_without_a_demo_say_how_to_see_it_and_keep_what_is_there() {
    for helm in Helm::BOTH {
        let namespace = ApiServer::shared().namespace();
        let release = Release { name: "test", helm, namespace: &namespace };
        let notes = release.helm("install", "elections.orders.serviceAccountName=shop");
        let (_, command) = notes.split_once("helm upgrade ").expect("the notes name it");
        let command = command.trim().replace("CHART", chart("baton").to_str().unwrap());
        release.run(&[&["upgrade"], &command.split(' ').collect::<Vec<_>>()[..]].concat());
        let here = contents(&namespace);
        assert!(
            here.contains("Deployment test-baton-demo") && here.contains("Role orders"),
            "{here:?}"
        );
    }
}

/// A release of our chart.
struct Release<'a> {
    name: &'static str,
    helm: Helm,
    namespace: &'a Namespace,
}

impl Release<'_> {
    /// Installs or upgrades it to these values, and nothing of earlier ones.
    #[track_caller]
    fn helm(&self, verb: &str, values: &str) -> String {
        self.run(&[verb, self.name, chart("baton").to_str().unwrap(), "--set", values])
    }

    #[track_caller]
    fn uninstall(&self) {
        self.run(&["uninstall", self.name]);
    }

    #[track_caller]
    fn run(&self, arguments: &[&str]) -> String {
        let kubeconfig = format!("--kubeconfig={}", self.namespace.admin.kubeconfig().display());
        let in_namespace = format!("--namespace={}", self.namespace.name);
        let done = self.helm.run(&[arguments, &[&kubeconfig, &in_namespace]].concat());
        done.unwrap_or_else(|complaint| panic!("{:?} {arguments:?}: {complaint}", self.helm))
    }

    /// Writes the Lease of the demo's name, which Helm knows nothing of.
    fn put_lease(&self) -> LeaseSpec {
        let spec = LeaseSpec { holder_identity: Some("a_1".to_owned()), ..LeaseSpec::default() };
        let metadata = ObjectMeta { name: Some(LEASE.to_owned()), ..ObjectMeta::default() };
        self.namespace.admin.put(&Lease { metadata, spec: Some(spec.clone()) }).unwrap();
        spec
    }

    fn lease(&self) -> Option<LeaseSpec> {
        self.namespace.admin.lease(LEASE).unwrap()?.spec
    }
}

/// What is in a namespace: `Role orders`.
fn contents(namespace: &Namespace) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (group, version, kind) in KINDS {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let list = namespace.admin.call(async |client| {
            Api::<DynamicObject>::default_namespaced_with(client, &resource)
                .list(&ListParams::default())
                .await
        });
        found.extend(
            list.unwrap().into_iter().map(|object| format!("{kind} {}", object.name_any())),
        );
    }
    found
}
