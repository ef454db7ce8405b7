//! What the chart can put around elections: a queue of their own at the API server, room in the network, a budget for drains,
//! service accounts. All of it is off by default.

use super::server::{OF_THE_CLUSTER, create, judged};
use super::tools::{chart, find, refused, rendered};
use crate::rig::{Access, ApiServer, eventually};
use kube::client::Body;
use serde_json::{Value, json};
use std::time::Duration;

const ELECTION: &str =
    "--set=elections.orders.serviceAccountName=shop,elections.orders.podLabels.app=shop";

/// Each value, and the kinds that it brings.
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
fn each_is_off_by_default_and_one_value_each() {
    let kinds = |settings: &[&str]| -> Vec<String> {
        let objects = rendered(settings);
        let mut kinds: Vec<_> =
            objects.iter().map(|object| object["kind"].as_str().unwrap().to_owned()).collect();
        kinds.sort_unstable();
        kinds
    };
    assert_eq!(kinds(&[ELECTION]), ["Role", "RoleBinding"]);
    for (value, brings) in FEATURES {
        let mut expected: Vec<_> =
            brings.iter().chain(&["Role", "RoleBinding"]).map(|&kind| kind.to_owned()).collect();
        expected.sort_unstable();
        assert_eq!(kinds(&[ELECTION, &format!("--set={value}=true")]), expected, "{value}");
    }
}

#[test]
fn a_real_api_server_takes_what_is_put_around_elections() {
    let namespace = ApiServer::shared().namespace();
    let in_namespace = format!("--namespace={}", namespace.name);
    let all = "--set=flowSchema.enabled=true,networkPolicy.enabled=true,podDisruptionBudget.enabled=true,serviceAccount.create=true";
    let from = "--set-json=networkPolicy.metricsFrom=[{\"namespaceSelector\":{\"matchLabels\":{\"name\":\"monitoring\"}}}]";
    let others =
        "--set=serviceAccount.annotations.team=sales,networkPolicy.metricsPorts={4041,4051}";
    let objects = rendered(&[ELECTION, all, from, others, &in_namespace]);
    assert_eq!(objects.len(), 7);
    for object in &objects {
        let taken = judged(&namespace.admin, &namespace.name, object);
        assert!(taken.is_ok(), "{taken:?} for {object:#}");
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
}

/// The server says of each answer by which schema it was let in.
#[test]
fn a_candidates_requests_go_by_the_flow_schema_and_no_others() {
    let namespace = ApiServer::shared().namespace();
    let [shop, neighbour] = ["shop", "neighbour"].map(|name| namespace.account(name, &["orders"]));
    let in_namespace = format!("--namespace={}", namespace.name);
    let objects = rendered(&[ELECTION, "--set=flowSchema.enabled=true", &in_namespace]);
    let [level, schema] = ["PriorityLevelConfiguration", "FlowSchema"].map(|kind| {
        let mut object = find(&objects, kind, "test-renewals").clone();
        // Of this test alone: they are the whole server's.
        object["metadata"]["name"] = namespace.name.clone().into();
        if kind == "FlowSchema" {
            object["spec"]["priorityLevelConfiguration"]["name"] = namespace.name.clone().into();
        }
        create(&namespace.admin, &namespace.name, &object).unwrap()
    });
    let uids = |object: &Value| object["metadata"]["uid"].as_str().unwrap().to_owned();
    let ours = Some([uids(&schema), uids(&level)]);
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/orders", namespace.name);
    eventually(Duration::from_secs(30), "the schema is obeyed", || {
        let_in_by(&shop.access, &lease) == ours
    });
    assert_ne!(let_in_by(&neighbour.access, &lease), ours, "another account of the same namespace");
    assert_ne!(let_in_by(&shop.access, "/version"), ours, "another resource");
}

/// Pods that two budgets select can never be evicted.
#[test]
fn pods_of_several_elections_have_one_budget() {
    let pods = |namespace: &str, app: &str| json!({"namespace": namespace, "serviceAccountName": "shop", "podLabels": {"app": app, "tier": "back"}});
    let elections = json!({
        "bills": pods("sales", "bills"), "orders": pods("sales", "shop"), "reports": pods("sales", "shop"),
        "stock": pods("stores", "shop"),
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
fn what_cannot_be_put_around_an_election_is_said() {
    let chart = chart("baton");
    refused(&chart, "--set=flowSchema.enabled=true", &["flowSchema.enabled needs candidates"]);
    for value in ["networkPolicy.enabled", "podDisruptionBudget.enabled"] {
        let setting = format!("--set={value}=true,elections.orders.serviceAccountName=shop");
        refused(&chart, &setting, &[value, "set elections.orders.podLabels"]);
    }
}

#[test]
fn an_account_of_several_elections_is_made_once_and_default_never() {
    let several = "--set=serviceAccount.create=true,elections.orders.serviceAccountName=shop,\
                   elections.reports.serviceAccountName=shop,elections.bills.serviceAccountName=default";
    let objects = rendered(&[several]);
    find(&objects, "ServiceAccount", "shop");
    assert_eq!(objects.iter().filter(|object| object["kind"] == "ServiceAccount").count(), 1);
    assert!(
        objects.iter().all(|object| !OF_THE_CLUSTER.contains(&object["kind"].as_str().unwrap()))
    );
}

/// The schema and the priority level by which an account's request was let in.
fn let_in_by(access: &Access, path: &str) -> Option<[String; 2]> {
    let request = hyper::Request::get(path).body(Body::empty()).expect("it is a path");
    let answer = access.call(async |client| client.send(request).await).unwrap();
    let header = |name: &str| Some(answer.headers().get(name)?.to_str().unwrap().to_owned());
    Some([header("x-kubernetes-pf-flowschema-uid")?, header("x-kubernetes-pf-prioritylevel-uid")?])
}
