//! Labeled Pods, and what they hold after admission.
//!
//! Pure. Start with [`labeled_pod`].

use serde_json::{Value, json};

/// A Pod of the election `orders`, labeled with this prefix, with these fields in its spec.
pub(super) fn labeled_pod(prefix: &str, spec: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "shop",
            "labels": {format!("{prefix}/inject"): "enabled"},
            "annotations": {format!("{prefix}/election"): "orders"},
        },
        "spec": {"containers": [{
            "name": "shop", "image": "localhost/shop:1",
            "securityContext": {
                "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
                "runAsNonRoot": true, "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        }]},
    });
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    pod
}

/// The sidecar of a Pod for comparison: without its election and its token, and with sorted
/// variables.
pub(super) fn container(pod: &Value) -> Value {
    let mut container = pod["spec"]["initContainers"][0].clone();
    assert_eq!(container["name"], "baton", "{pod:#}");
    let environment = container["env"].as_array_mut().unwrap();
    environment.retain(|variable| variable["name"] != "BATON_ELECTION");
    environment.sort_by_key(|variable| variable["name"].to_string());
    container["volumeMounts"]
        .as_array_mut()
        .unwrap()
        .retain(|mount| mount["name"] == "baton-state");
    container
}

/// The volume of the sidecar's state directory.
pub(super) fn state_volume(pod: &Value) -> &Value {
    let volumes = pod["spec"]["volumes"].as_array().unwrap().iter();
    let found: Vec<_> = volumes.filter(|volume| volume["name"] == "baton-state").collect();
    assert_eq!(found.len(), 1, "{pod:#}");
    found[0]
}

pub(super) fn names(items: &Value) -> Vec<&str> {
    items.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect()
}
