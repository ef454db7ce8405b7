//! Schemas of Kubernetes objects for kubeconform, one file per kind.
//!
//! They are generated from the OpenAPI document of a release (`api/openapi-spec/swagger.json` in
//! its sources). Unlike there, unknown fields are errors, as under strict validation by a server.

use super::tools::built;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fs;
use tempfile::TempDir;

/// The releases that the charts support. Only the last one accepts `restartPolicyRules` on a
/// sidecar.
pub(super) const RELEASES: [&str; 4] = ["1.33.13", "1.34.4", "1.35.4", "1.36.3"];

/// A folder with the schemas of one release.
pub(super) fn schemas(release: &str) -> TempDir {
    let text = fs::read(built(&format!("v{release}.json"))).unwrap();
    let document: Value = serde_json::from_slice(&text).unwrap();
    let definitions = document["definitions"].as_object().unwrap();
    let folder = TempDir::new().unwrap();
    for (name, definition) in definitions {
        for kind in definition["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
            let schema =
                json!({"$ref": reference(name), "definitions": reachable(definitions, name)});
            fs::write(folder.path().join(file_name(kind)), schema.to_string()).unwrap();
        }
    }
    folder
}

/// kubeconform's name of the file: `deployment-apps-v1.json`, `role-rbac-v1.json`,
/// `service-v1.json`.
fn file_name(kind: &Value) -> String {
    let word = |field: &str| kind[field].as_str().unwrap().to_lowercase();
    let group = word("group");
    let group =
        group.split('.').next().filter(|group| !group.is_empty()).map(|group| format!("{group}-"));
    format!("{}-{}{}.json", word("kind"), group.unwrap_or_default(), word("version"))
}

fn reference(name: &str) -> String {
    format!("#/definitions/{name}")
}

/// A definition and all definitions that it refers to, each made strict.
fn reachable(definitions: &Map<String, Value>, from: &str) -> Map<String, Value> {
    let mut found = Map::new();
    let mut next = BTreeSet::from([from.to_owned()]);
    while let Some(name) = next.pop_first() {
        let definition = &definitions[&name];
        references(definition, &mut next);
        found.insert(name, strict(definition));
        next.retain(|name| !found.contains_key(name));
    }
    found
}

fn references(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(target)) = fields.get("$ref") {
                into.extend(target.strip_prefix("#/definitions/").map(str::to_owned));
            }
            fields.values().for_each(|field| references(field, into));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn strict(definition: &Value) -> Value {
    // OpenAPI 2 cannot express that these two are either strings or numbers.
    let accepts_numbers = definition["format"] == "int-or-string"
        || definition["description"]
            .as_str()
            .is_some_and(|text| text.starts_with("Quantity is a fixed-point"));
    if accepts_numbers {
        return json!({"type": ["string", "number"]});
    }
    let mut definition = definition.clone();
    if definition["properties"].get("addressType").is_some() {
        // Until 1.35, the document called `endpoints` required, but no server does.
        definition["required"] = json!(["addressType"]);
    }
    if definition.get("properties").is_some() && definition.get("additionalProperties").is_none() {
        definition["additionalProperties"] = false.into();
    }
    definition
}
