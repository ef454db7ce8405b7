//! Requests to a real API server: creating objects, and dry runs.

use crate::rig::Access;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Resource as _};
use serde_json::Value;

/// The cluster-scoped kinds in the charts, and of Kyverno's webhooks.
pub(super) const CLUSTER_SCOPED: [&str; 8] = [
    "CustomResourceDefinition",
    "FlowSchema",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "PriorityLevelConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
];

/// Creates an object. The server refuses unknown fields.
pub(super) fn create(admin: &Access, namespace: &str, object: &Value) -> kube::Result<Value> {
    post(admin, namespace, object, "fieldValidation=Strict")
}

/// The object as the server would store it after admission, or the server's refusal.
pub(super) fn dry_run(admin: &Access, namespace: &str, object: &Value) -> Result<Value, String> {
    post(admin, namespace, object, "fieldValidation=Strict&dryRun=All")
        .map_err(|error| error.to_string())
}

/// The Pod that a controller would create for a workload.
pub(super) fn pod(workload: &Value) -> Value {
    let spec = if workload["kind"] == "CronJob" {
        &workload["spec"]["jobTemplate"]["spec"]
    } else {
        &workload["spec"]
    };
    let mut pod = spec["template"].clone();
    pod["metadata"]["name"] = workload["metadata"]["name"].clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod
}

/// The API resource with this `apiVersion` and `kind`.
pub(super) fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

fn post(admin: &Access, namespace: &str, object: &Value, query: &str) -> kube::Result<Value> {
    let word = |field: &str| object[field].as_str().unwrap();
    let resource = resource(word("apiVersion"), word("kind"));
    let namespace = (!CLUSTER_SCOPED.contains(&word("kind"))).then_some(namespace);
    let path = format!("{}?{query}", DynamicObject::url_path(&resource, namespace));
    let request = hyper::Request::post(path).header("Content-Type", "application/json");
    let request = request.body(object.to_string().into_bytes()).expect("the path is valid");
    admin.call(async |client| client.request(request).await)
}
