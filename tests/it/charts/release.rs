//! A release on a real API server without a kubelet: install, upgrade, and uninstall.

use super::tools::{Helm, chart};
use crate::rig::{ApiServer, Namespace};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, ObjectMeta};
use std::collections::BTreeSet;

/// The kinds of objects in a release's namespace. Helm stores its releases in Secrets.
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

/// The Lease of the demo in the release `test`.
const LEASE: &str = "test-baton-demo";

#[test]
fn upgrade_follows_the_values_and_uninstall_removes_everything() {
    for helm in Helm::BOTH {
        let namespace = ApiServer::shared().namespace();
        let release = Release { name: "test", helm, namespace: &namespace };
        let notes =
            release.helm("install", "demo.enabled=true,elections.orders.serviceAccountName=shop");
        let objects = contents(&namespace);
        assert!(
            objects.contains("Deployment test-baton-demo") && objects.contains("Role orders"),
            "{objects:?}"
        );
        for name in ["get lease test-baton-demo", "services/test-baton-demo-ledger:http"] {
            assert!(notes.contains(name), "{name} is not in {notes}");
        }
        // Sidecars write their Lease, and keep renewing it during an upgrade.
        let renewed = release.put_lease();

        release.helm(
            "upgrade",
            "demo.enabled=true,demo.replicas=5,elections.reports.serviceAccountName=shop",
        );
        let objects = contents(&namespace);
        assert!(objects.contains("Role reports"), "{objects:?}");
        assert!(
            !objects.contains("Role orders") && !objects.contains("RoleBinding orders"),
            "{objects:?}"
        );
        assert_eq!(release.lease(), Some(renewed), "Helm did not change it");

        release.uninstall();
        assert_eq!(contents(&namespace), BTreeSet::new(), "{helm:?}");
    }
}

#[test]
fn disabling_the_demo_deletes_only_its_own_lease() {
    for helm in Helm::BOTH {
        let namespace = ApiServer::shared().namespace();
        let release = Release { name: "test", helm, namespace: &namespace };
        release.helm("install", "demo.enabled=true");
        release.put_lease();
        release.helm("upgrade", "demo.enabled=false");
        let mut objects = contents(&namespace);
        objects.retain(|object| !object.starts_with("Secret sh.helm.release."));
        assert_eq!(objects, BTreeSet::new(), "{helm:?}");

        let foreign = release.put_lease();
        release.helm("upgrade", "demo.enabled=false,demo.replicas=5");
        release.uninstall();
        assert_eq!(release.lease(), Some(foreign), "{helm:?}");
    }
}

#[test]
fn moving_the_demo_to_zookeeper_deletes_its_lease_and_role() {
    for helm in Helm::BOTH {
        let namespace = ApiServer::shared().namespace();
        let release = Release { name: "test", helm, namespace: &namespace };
        release.helm("install", "demo.enabled=true");
        release.put_lease();
        let over_zookeeper = "demo.enabled=true,backend=zookeeper,zookeeper.servers=zk:2181";
        let notes = release.helm("upgrade", over_zookeeper);
        assert!(notes.contains("/baton status") && !notes.contains("get lease"), "{notes}");
        assert_eq!(release.lease(), None, "{helm:?}");
        let objects = contents(&namespace);
        let gone = ["ServiceAccount", "Role"]
            .map(|kind| objects.iter().any(|object| object.starts_with(kind)));
        assert_eq!(gone, [false; 2], "{objects:?}");
        release.uninstall();
        assert_eq!(contents(&namespace), BTreeSet::new(), "{helm:?}");
    }
}

#[test]
fn release_without_a_demo_keeps_a_lease_of_the_same_name() {
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
fn command_in_the_notes_adds_the_demo_and_keeps_elections() {
    for helm in Helm::BOTH {
        let namespace = ApiServer::shared().namespace();
        let release = Release { name: "test", helm, namespace: &namespace };
        let notes = release.helm("install", "elections.orders.serviceAccountName=shop");
        let (_, command) =
            notes.split_once("helm upgrade ").expect("the notes contain the command");
        let command = command.trim().replace("CHART", chart("baton").to_str().unwrap());
        release.run(&[&["upgrade"], &command.split(' ').collect::<Vec<_>>()[..]].concat());
        let objects = contents(&namespace);
        assert!(
            objects.contains("Deployment test-baton-demo") && objects.contains("Role orders"),
            "{objects:?}"
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
    /// Installs or upgrades the release with these values, without those of earlier revisions: the
    /// notes.
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
        let result = self.helm.run(&[arguments, &[&kubeconfig, &in_namespace]].concat());
        result.unwrap_or_else(|error| panic!("{:?} {arguments:?}: {error}", self.helm))
    }

    /// Writes the demo's Lease, as a sidecar would. Helm does not manage it.
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

/// The objects in a namespace, for example `Role orders`.
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
