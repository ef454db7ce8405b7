//! Objects as a real API server takes them: kept, or only judged.

use crate::rig::Access;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Resource as _};
use serde_json::Value;

/// Kinds that the charts have, and that are in no namespace.
pub(super) const OF_THE_CLUSTER: [&str; 7] = [
    "CustomResourceDefinition",
    "FlowSchema",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "PriorityLevelConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

/// Creates an object; unknown fields are refused.
pub(super) fn create(admin: &Access, namespace: &str, object: &Value) -> kube::Result<Value> {
    post(admin, namespace, object, "fieldValidation=Strict")
}

/// What the server would keep of it after admission, which cannot tell this from a creation.
pub(super) fn judged(admin: &Access, namespace: &str, object: &Value) -> Result<Value, String> {
    post(admin, namespace, object, "fieldValidation=Strict&dryRun=All")
        .map_err(|error| error.to_string())
}

/// The Pod that a controller makes of a workload.
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

/// The resource of objects of this kind, as `apiVersion` and `kind` name it.
pub(super) fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

fn post(admin: &Access, namespace: &str, object: &Value, how: &str) -> kube::Result<Value> {
    let word = |field: &str| object[field].as_str().unwrap();
    let resource = resource(word("apiVersion"), word("kind"));
    let namespace = (!OF_THE_CLUSTER.contains(&word("kind"))).then_some(namespace);
    let path = format!("{}?{how}", DynamicObject::url_path(&resource, namespace));
    let request = hyper::Request::post(path).header("Content-Type", "application/json");
    let request = request.body(object.to_string().into_bytes()).expect("it is a path");
    admin.call(async |client| client.request(request).await)
}
