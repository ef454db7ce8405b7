//! Optional objects around elections: API priority and fairness, network policies, disruption
//! budgets, and service accounts. All are off by default.

use super::server::{CLUSTER_SCOPED, create, dry_run};
use super::tools::{Helm, assert_refused, chart, find, rendered};
use crate::rig::{Access, ApiServer, eventually};
use kube::client::Body;
use serde_json::{Value, json};
use std::time::Duration;

const ELECTION: &str =
    "--set=elections.orders.serviceAccountName=shop,elections.orders.podLabels.app=shop";

/// Each value, and the kinds of objects that it adds.
const FEATURES: [(&str, &[&str]); 7] = [
    ("dashboard.enabled", &["ConfigMap"]),
    ("flowSchema.enabled", &["PriorityLevelConfiguration", "FlowSchema"]),
    ("networkPolicy.enabled", &["NetworkPolicy"]),
    ("podDisruptionBudget.enabled", &["PodDisruptionBudget"]),
    ("podMonitor.enabled", &["PodMonitor"]),
    ("prometheusRule.enabled", &["PrometheusRule"]),
    ("serviceAccount.create", &["ServiceAccount"]),
];

#[test]
fn each_feature_is_off_by_default_and_has_one_value() {
    let kinds = |settings: &[&str]| -> Vec<String> {
        let objects = rendered(settings);
        let mut kinds: Vec<_> =
            objects.iter().map(|object| object["kind"].as_str().unwrap().to_owned()).collect();
        kinds.sort_unstable();
        kinds
    };
    assert_eq!(kinds(&[ELECTION]), ["Role", "RoleBinding"]);
    for (value, adds) in FEATURES {
        let mut expected: Vec<_> =
            adds.iter().chain(&["Role", "RoleBinding"]).map(|&kind| kind.to_owned()).collect();
        expected.sort_unstable();
        assert_eq!(kinds(&[ELECTION, &format!("--set={value}=true")]), expected, "{value}");
    }
}

#[test]
fn api_server_accepts_all_optional_objects() {
    let namespace = ApiServer::shared().namespace();
    let in_namespace = format!("--namespace={}", namespace.name);
    let all = "--set=flowSchema.enabled=true,networkPolicy.enabled=true,\
               podDisruptionBudget.enabled=true,serviceAccount.create=true";
    let from = "--set-json=networkPolicy.metricsFrom=\
                [{\"namespaceSelector\":{\"matchLabels\":{\"name\":\"monitoring\"}}}]";
    let to = "--set-json=networkPolicy.apiServerTo=[{\"ipBlock\":{\"cidr\":\"10.96.0.1/32\"}}]";
    let others =
        "--set=serviceAccount.annotations.team=sales,networkPolicy.metricsPorts={4041,4051}";
    let objects = rendered(&[ELECTION, all, from, to, others, &in_namespace]);
    assert_eq!(objects.len(), 7);
    for object in &objects {
        let admitted = dry_run(&namespace.admin, &namespace.name, object);
        assert!(admitted.is_ok(), "{admitted:?} for {object:#}");
    }
    assert_eq!(
        find(&objects, "ServiceAccount", "shop")["metadata"]["annotations"]["team"],
        "sales"
    );
    let policy = &find(&objects, "NetworkPolicy", "orders-sidecar")["spec"];
    assert_eq!(policy["podSelector"]["matchLabels"], json!({"app": "shop"}));
    assert_eq!(
        policy["ingress"][0]["from"][0]["namespaceSelector"]["matchLabels"]["name"],
        "monitoring"
    );
    assert_eq!(policy["ingress"][0]["ports"], json!([{"port": 4041}, {"port": 4051}]));
    assert_eq!(policy["egress"][0]["to"], json!([{"ipBlock": {"cidr": "10.96.0.1/32"}}]));
    assert_eq!(policy["egress"][0]["ports"], json!([{"port": 443}, {"port": 6443}]));
}

#[test]
fn notes_warn_of_a_policy_that_allows_every_address() {
    let chart = chart("baton");
    let notes = |settings: &[&str]| {
        let install = ["install", "test", chart.to_str().unwrap(), "--dry-run=client", ELECTION];
        // Helm 3 needs a cluster even for this.
        let output = Helm::Four.run(&[&install[..], settings].concat()).unwrap();
        output.split_once("NOTES:\n").expect("it has notes").1.to_owned()
    };
    let enabled = "--set=networkPolicy.enabled=true";
    let [to, from] = ["apiServerTo", "metricsFrom"].map(|key| format!("networkPolicy.{key}"));
    let warned = notes(&[enabled]);
    assert!(warned.contains(&format!("Warning: {to} is empty")), "{warned}");
    assert!(warned.contains(&format!("Warning: {from} is empty")), "{warned}");
    let set = |key| format!("--set-json={key}=[{{\"ipBlock\":{{\"cidr\":\"10.96.0.1/32\"}}}}]");
    let silent = notes(&[enabled, &set(to), &set(from)]);
    assert!(!silent.contains("Warning"), "{silent}");
    assert!(!notes(&[]).contains("Warning"), "it is off");
}

#[test]
fn budget_is_a_number_or_a_percentage() {
    let most = |value: &str| {
        let setting = format!("--set-json=podDisruptionBudget.maxUnavailable={value}");
        let objects = rendered(&[ELECTION, "--set=podDisruptionBudget.enabled=true", &setting]);
        find(&objects, "PodDisruptionBudget", "orders")["spec"]["maxUnavailable"].clone()
    };
    assert_eq!(most("2"), 2);
    assert_eq!(most("\"25%\""), "25%");
    for value in ["\"1\"", "\"101%\"", "-1", "\"1\\n  injected: true\""] {
        let setting = format!("--set-json=podDisruptionBudget.maxUnavailable={value}");
        assert_refused(&chart("baton"), &setting, &["/podDisruptionBudget/maxUnavailable"]);
    }
}

/// Each answer of the server names the flow schema of its request.
#[test]
fn flow_schema_matches_only_requests_of_candidates() {
    let namespace = ApiServer::shared().namespace();
    let [shop, neighbour] = ["shop", "neighbour"].map(|name| namespace.account(name, &["orders"]));
    let in_namespace = format!("--namespace={}", namespace.name);
    let objects = rendered(&[ELECTION, "--set=flowSchema.enabled=true", &in_namespace]);
    let [level, schema] = ["PriorityLevelConfiguration", "FlowSchema"].map(|kind| {
        let mut object = find(&objects, kind, "test-renewals").clone();
        // The objects are cluster-scoped, so this test needs its own names.
        object["metadata"]["name"] = namespace.name.clone().into();
        if kind == "FlowSchema" {
            object["spec"]["priorityLevelConfiguration"]["name"] = namespace.name.clone().into();
        }
        create(&namespace.admin, &namespace.name, &object).unwrap()
    });
    let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap().to_owned();
    let expected = Some([uid(&schema), uid(&level)]);
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/orders", namespace.name);
    eventually(Duration::from_secs(30), "the flow schema is in effect", || {
        flow_schema_of(&shop.access, &lease) == expected
    });
    assert_ne!(flow_schema_of(&neighbour.access, &lease), expected, "another service account");
    assert_ne!(flow_schema_of(&shop.access, "/version"), expected, "another resource");
}

/// Pods that two budgets select can never be evicted.
#[test]
fn pods_of_several_elections_share_one_budget() {
    let pods = |namespace: &str, app: &str| {
        let labels = json!({"app": app, "tier": "back"});
        json!({"namespace": namespace, "serviceAccountName": "shop", "podLabels": labels})
    };
    let elections = json!({
        "bills": pods("sales", "bills"), "orders": pods("sales", "shop"),
        "reports": pods("sales", "shop"), "stock": pods("stores", "shop"),
    });
    let objects = rendered(&[
        "--set=podDisruptionBudget.enabled=true",
        &format!("--set-json=elections={elections}"),
    ]);
    let budgets = objects.iter().filter(|object| object["kind"] == "PodDisruptionBudget");
    let budgets: Vec<_> =
        budgets.map(|budget| budget["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(budgets, ["bills", "orders", "stock"]);
}

#[test]
fn feature_without_its_selector_is_refused() {
    let chart = chart("baton");
    assert_refused(
        &chart,
        "--set=flowSchema.enabled=true",
        &["flowSchema.enabled needs candidates"],
    );
    for value in ["networkPolicy.enabled", "podDisruptionBudget.enabled"] {
        let setting = format!("--set={value}=true,elections.orders.serviceAccountName=shop");
        assert_refused(&chart, &setting, &[value, "set elections.orders.podLabels"]);
    }
}

#[test]
fn shared_service_account_is_created_once_and_default_never() {
    let several = "--set=serviceAccount.create=true,elections.orders.serviceAccountName=shop,\
                   elections.reports.serviceAccountName=shop,\
                   elections.bills.serviceAccountName=default";
    let objects = rendered(&[several]);
    find(&objects, "ServiceAccount", "shop");
    assert_eq!(objects.iter().filter(|object| object["kind"] == "ServiceAccount").count(), 1);
    assert!(
        objects.iter().all(|object| !CLUSTER_SCOPED.contains(&object["kind"].as_str().unwrap()))
    );
}

/// The UIDs of the flow schema and the priority level of a request to this path.
fn flow_schema_of(access: &Access, path: &str) -> Option<[String; 2]> {
    let request = hyper::Request::get(path).body(Body::empty()).expect("the path is valid");
    let answer = access.call(async |client| client.send(request).await).unwrap();
    let header = |name: &str| Some(answer.headers().get(name)?.to_str().unwrap().to_owned());
    Some([header("x-kubernetes-pf-flowschema-uid")?, header("x-kubernetes-pf-prioritylevel-uid")?])
}
