//! The Service that leads to the leader: its objects and rights, and what remains of a leader's
//! endpoints after upgrades, on a real API server with a real sidecar.

use super::application::{Application, library_readme};
use super::server::resource;
use super::sidecar::{baton, environment};
use super::tools::{Helm, assert_refused, chart, find, in_repository, objects, rendered, sidecar};
use crate::rig::{Leases, Rig, Start, Store as _, eventually, throughout};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// Rights and a Service, for an election of the rig's account.
const ROUTED: &str = "elections.orders.serviceAccountName=shop,elections.orders.service.port=80";

/// A release in the rig's namespace.
struct Release<'a> {
    rig: &'a Rig<Leases>,
    helm: Helm,
}

impl Release<'_> {
    /// Runs Helm with the chart and these values.
    fn run(&self, arguments: &[&str], values: &str) {
        let namespace = &self.rig.store.namespace;
        let kubeconfig = format!("--kubeconfig={}", namespace.admin.kubeconfig().display());
        let in_namespace = format!("--namespace={}", namespace.name);
        let chart = chart("baton");
        let common = ["test", chart.to_str().unwrap(), "--set", values, &kubeconfig, &in_namespace];
        let result = self.helm.run(&[arguments, &common[..]].concat());
        result.unwrap_or_else(|error| panic!("{:?} {arguments:?}: {error}", self.helm));
    }

    fn object(&self, kind: &str, name: &str) -> Option<DynamicObject> {
        let version = match kind {
            "EndpointSlice" => "discovery.k8s.io/v1",
            _ => "v1",
        };
        let resource = resource(version, kind);
        let found = self.rig.store.namespace.admin.call(async |client| {
            Api::<DynamicObject>::default_namespaced_with(client, &resource).get_opt(name).await
        });
        found.unwrap()
    }

    /// The endpoints in the slice of a family.
    fn endpoints(&self, name: &str) -> Value {
        self.object("EndpointSlice", name)
            .map(|slice| slice.data["endpoints"].clone())
            .unwrap_or_default()
    }

    fn leads_to_the_leader(&self) -> bool {
        let found = |name| self.endpoints(name)[0]["addresses"].clone();
        [found("orders-ipv4"), found("orders-ipv6")] == [json!(["10.0.0.1"]), json!(["fd00::1"])]
    }
}

fn routed(rig: &Rig<Leases>) -> Start<'_, Leases> {
    rig.candidate("leader")
        .flag("--endpoint-slice", "orders")
        .flag("--endpoint-port", "8080")
        .flag("--endpoint-addresses", "10.0.0.1,fd00::1")
}

/// Helm 3 merges on the client's side; Helm 4 on the server's, unless it is told otherwise.
#[test]
fn upgrades_keep_the_endpoints_of_the_leader() {
    let merges: [(Helm, &[&str]); 3] = [
        (Helm::Three, &[]),
        (Helm::Four, &["--server-side=true"]),
        (Helm::Four, &["--server-side=false"]),
    ];
    for (helm, merge) in merges {
        let rig = Rig::over(Leases::fresh(), Leases::CALM);
        let release = Release { rig: &rig, helm };
        release.run(&[&["install"], merge].concat(), ROUTED);
        let leader = routed(&rig).start();
        assert_eq!(rig.leader().identity, leader.identity);
        eventually(PATIENCE, "the Service leads to the leader", || release.leads_to_the_leader());

        let changed = ROUTED.replace("port=80", "port=81");
        for values in [ROUTED, &changed, ROUTED] {
            release.run(&[&["upgrade"], merge].concat(), values);
            assert!(release.leads_to_the_leader(), "{helm:?} {merge:?} changed the endpoints");
        }
        let port = release.object("Service", "orders").unwrap().data["spec"]["ports"][0].clone();
        assert_eq!(port["port"], 80);
        let written = leader.events("endpoint_published").len();
        throughout(rig.timing.lease_duration, "it has nothing to repair", || {
            leader.events("endpoint_published").len() == written && release.leads_to_the_leader()
        });
        release.run(&["upgrade"], "elections.orders.serviceAccountName=shop");
        assert!(release.object("EndpointSlice", "orders-ipv4").is_none(), "{helm:?}");
        assert!(release.object("Service", "orders").is_none(), "{helm:?}");
    }
}

/// Argo CD excludes EndpointSlices by default, so the sidecars create them. If it is told to manage
/// them, it applies the manifests as below, or as Helm 3 does.
#[test]
fn argo_cd_leaves_the_endpoints_alone() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let release = Release { rig: &rig, helm: Helm::Four };
    release
        .run(&["install"], &format!("{ROUTED},elections.orders.service.sidecarsCreateSlices=true"));
    assert!(release.object("EndpointSlice", "orders-ipv4").is_none(), "the chart has none");
    let leader = routed(&rig).start();
    assert_eq!(rig.leader().identity, leader.identity);
    eventually(PATIENCE, "the Service leads to the leader", || release.leads_to_the_leader());

    let manifests = rendered(&["--set", ROUTED]);
    for name in ["orders-ipv4", "orders-ipv6"] {
        let mut manifest = find(&manifests, "EndpointSlice", name).clone();
        manifest["metadata"].as_object_mut().unwrap().remove("namespace");
        let applied = rig.store.namespace.admin.call(async |client| {
            let slices = resource("discovery.k8s.io/v1", "EndpointSlice");
            Api::<DynamicObject>::default_namespaced_with(client, &slices)
                .patch(
                    name,
                    &PatchParams::apply("argocd-controller").force(),
                    &Patch::Apply(&manifest),
                )
                .await
        });
        applied.unwrap();
    }
    assert!(release.leads_to_the_leader());
}

#[test]
fn charts_grant_the_rights_to_slices_that_baton_rbac_prints() {
    let objects_of_the_chart = rendered(&["--set", ROUTED, "--namespace=tests"]);
    let arguments = ["rbac", "--election=orders", "--service-account=shop", "--namespace=tests"];
    let (_, printed) =
        baton(&[&arguments[..], &["--endpoint-slice=orders"]].concat(), &BTreeMap::new());
    assert!(printed.contains("cannot limit the right to create"), "{printed}");
    let printed = objects(&printed);
    let role = find(&objects_of_the_chart, "Role", "orders");
    assert_eq!(role["rules"], find(&printed, "Role", "orders")["rules"]);

    let creating =
        rendered(&["--set", ROUTED, "--set=elections.orders.service.sidecarsCreateSlices=true"]);
    let rules = find(&creating, "Role", "orders")["rules"].as_array().unwrap();
    let create = json!({
        "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["create"],
    });
    assert_eq!(rules.last(), Some(&create));
    assert!(creating.iter().all(|object| object["kind"] != "EndpointSlice"));
}

#[test]
fn library_configures_its_sidecar_for_the_service() {
    let application =
        Application::new(&library_readme("templates/deployment.yaml, in the Pod's spec"));
    for file in ["values.yaml", "templates/baton.yaml"] {
        let title = format!("```yaml\n# {file}, with a Service for the leader\n");
        let guide = fs::read_to_string(in_repository("docs/guides/routing.md")).unwrap();
        let (_, block) = guide.split_once(&title).unwrap_or_else(|| panic!("no block {title}"));
        application.write(file, block.split("```").next().unwrap());
    }
    application.build();
    let objects = application.render();
    let mut environment = environment(sidecar(find(&objects, "Deployment", "shop")));
    assert_eq!(environment["POD_IPS"], "status.podIPs");
    environment.insert("POD_IPS".to_owned(), "10.0.0.1,fd00::1".to_owned());
    assert_eq!(environment["BATON_ENDPOINT_SLICE"], "orders");
    assert_eq!(environment["BATON_ENDPOINT_PORT"], "8080");
    let (is_valid, text) = baton(&["check-config"], &environment);
    assert!(is_valid, "{text}");
    let ports = &find(&objects, "Service", "orders")["spec"]["ports"];
    assert_eq!(ports, &json!([{"port": 80, "targetPort": 8080}]));
    let slice = find(&objects, "EndpointSlice", "orders-ipv6");
    assert_eq!(slice["addressType"], "IPv6");
    let written = ["endpoints", "ports"].map(|field| slice.get(field));
    assert_eq!(written, [None, None], "the leader writes them");
}

#[test]
fn election_that_cannot_name_a_service_is_refused() {
    for election in ["1st", "orders\\.v2"] {
        let values = ROUTED.replace("orders", election);
        assert_refused(
            &chart("baton"),
            &format!("--set={values}"),
            &["no Service can have the name"],
        );
    }
}
