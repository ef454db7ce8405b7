//! Texts that try to leave their place in the rendered YAML, as the value of every key that the
//! schemas of the charts have.
//!
//! A schema refuses a hostile value, or the value arrives whole, in its own place, and Kubernetes'
//! schemas accept the objects. Each value is set for all keys at once, and again without the keys
//! that the schema refused.

use super::application::{Application, IN_THE_POD, library_readme};
use super::schemas::schemas;
use super::tools::{Helm, assert_refused, chart, conform};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// Values that YAML, a template, or CEL may read as something else than a string.
const TEXTS: [&str; 26] = [
    "x\ninjected: true",
    "x\n      injected: true",
    "x\n---\ninjected: true",
    "x\"\ninjected: true",
    "x'\ninjected: true",
    "1\ninjected: true",
    "x: y",
    "x # y",
    "- x",
    "{injected: true}",
    "[x]",
    "*x",
    "&x y",
    "!!int 1",
    "@x",
    "`x`",
    "%x",
    "x\"y'",
    "x\\ny",
    "{{ fail `x` }}",
    "\t",
    "yes",
    "null",
    "1e3",
    "0x1f",
    "http://localhost/\"'{{x}}#",
];

/// Numbers that overflow, are no count, or that Helm writes with an exponent.
fn numbers() -> [Value; 4] {
    [json!(-1), json!(0.5), json!(1e30), json!(10_000_000)]
}

/// Kinds of Prometheus' operator, which Kubernetes' own schemas lack.
const EXTENSIONS: [&str; 2] = ["PodMonitor", "PrometheusRule"];

/// Stands for the hostile text as a key.
const HOSTILE_KEY: &str = "\0";

#[test]
fn hostile_values_stay_in_their_place() {
    let peers = json!([{"ipBlock": {"cidr": "10.96.0.1/32"}}]);
    let placement = json!({"nodeSelector": {"disk": "fast"}, "tolerations": [{"key": "fast"}]});
    let mut all = json!({
        "elections": {"orders": {
            "namespace": "sales", "serviceAccountName": "shop", "podLabels": {"app": "shop"},
            "alert": true, "service": {"port": 80, "portName": "web", "targetPort": 8080},
        }},
        "serviceAccount": {"create": true, "annotations": {"team": "sales"}},
        "podMonitor": {"enabled": true},
        "prometheusRule": {"enabled": true, "runbookUrl": "https://wiki.test"},
        "dashboard": {"enabled": true}, "flowSchema": {"enabled": true},
        "networkPolicy": {"enabled": true, "metricsFrom": peers, "apiServerTo": peers},
        "podDisruptionBudget": {"enabled": true}, "injection": {"enabled": true},
        "config": {"fitUrl": "http://localhost/", "logLevel": "info", "endpointSlice": "orders"},
    });
    all["demo"] = merged(&placement, &json!({"enabled": true, "ledger": placement}));
    let chart = chart("baton");
    let subject = Subject { chart, schema: schema("baton"), place: &[] };
    subject.check(&over("lease", &all));
    let without_injection = merged(&all, &json!({"injection": {"enabled": false}}));
    subject.check(&over("zookeeper", &without_injection));
    subject.check(&over("etcd", &without_injection));
}

#[test]
fn hostile_settings_of_a_sidecar_stay_in_their_place() {
    let sidecar = Application::built(&library_readme(IN_THE_POD));
    let exec = super::exec::application(&[]);
    let url = json!({"fitUrl": "http://localhost/", "endpointSlice": "orders"});
    // `baton exec` refuses a fitUrl.
    let slice = json!({"endpointSlice": "orders"});
    for (application, config) in [(sidecar, url), (exec, slice)] {
        let schema = schema("baton-sidecar");
        let subject = Subject { chart: application.chart(), schema, place: &["baton"] };
        for backend in ["lease", "zookeeper", "etcd"] {
            subject.check(&over(backend, &json!({"config": config})));
        }
    }
}

#[test]
fn hostile_name_of_an_election_is_refused() {
    for text in TEXTS.into_iter().filter(|text| text.contains(|c: char| !c.is_alphanumeric())) {
        let elections = json!({text: {"serviceAccountName": "shop"}});
        let setting = format!("--set-json=elections={elections}");
        assert_refused(&chart("baton"), &setting, &["propertyName"]);
    }
}

/// A chart with a schema.
struct Subject<'a> {
    chart: PathBuf,
    schema: Value,
    /// Where its values are among those of the release.
    place: &'a [&'a str],
}

impl Subject<'_> {
    /// Checks every hostile value with these values of the chart.
    fn check(&self, values: &Value) {
        let objects = self.render(values).expect("the values are valid");
        let (known, schemas) = (Known::new(&objects), schemas("1.36.3"));
        let keys: Vec<_> = keys(&self.schema, &self.schema)
            .into_iter()
            // A setting of another store is refused for that reason.
            .filter(|key| {
                !["zookeeper", "etcd"].contains(&&*key[0]) || values.get(&key[0]).is_some()
            })
            .collect();
        assert!(keys.len() > 30, "{keys:?}");
        for hostile in TEXTS.map(Value::from).into_iter().chain(numbers()) {
            let mut keys = keys.clone();
            keys.retain(|key| {
                hostile.is_string() || key.last().is_some_and(|key| key != HOSTILE_KEY)
            });
            let keys = self.accepted(values, keys, &hostile);
            let judge = |keys: &[Key]| self.judge(&known, &schemas, values, keys, &hostile);
            if judge(&keys).is_err() {
                // A template refused one of them: the others are checked one by one.
                for key in keys {
                    let _refused = judge(&[key]);
                }
            }
        }
    }

    /// Checks the objects with a hostile value at each of these paths, unless the chart refuses it.
    fn judge(
        &self,
        known: &Known,
        schemas: &TempDir,
        values: &Value,
        keys: &[Key],
        hostile: &Value,
    ) -> Result<(), String> {
        let mut objects = self.render(&with(values, keys, hostile))?;
        known.check(&objects, hostile);
        // The chart leaves the fields of objects such as tolerations to the server.
        let is_ours = |key: &&Key| !key.iter().rev().skip(1).any(|part| part == "0");
        let ours: Vec<_> = keys.iter().filter(is_ours).cloned().collect();
        if ours.len() < keys.len() {
            objects = self.render(&with(values, &ours, hostile))?;
        }
        objects.retain(|object| !EXTENSIONS.contains(&kind(object)));
        let report = conform(&objects, schemas.path());
        assert!(report.is_ok(), "{hostile} at {ours:?}: {report:?}");
        Ok(())
    }

    /// The keys for which the schema accepts this value.
    fn accepted(&self, values: &Value, mut keys: Vec<Key>, hostile: &Value) -> Vec<Key> {
        while let Err(error) = self.render(&with(values, &keys, hostile)) {
            let before = keys.len();
            keys.retain(|key| !error.contains(&format!("at '/{}': ", key.join("/"))));
            if keys.len() == before {
                break;
            }
        }
        keys
    }

    fn render(&self, values: &Value) -> Result<Vec<Value>, String> {
        let file = tempfile::NamedTempFile::with_suffix(".json").unwrap();
        let nested =
            self.place.iter().rev().fold(values.clone(), |inner, key| json!({(*key): inner}));
        fs::write(file.path(), nested.to_string()).unwrap();
        Helm::Four.template(&self.chart, &[&format!("--values={}", file.path().display())])
    }
}

/// The path of a value.
type Key = Vec<String>;

/// The paths of all values that a schema describes.
fn keys(root: &Value, schema: &Value) -> Vec<Key> {
    if let Some(target) = schema["$ref"].as_str() {
        return keys(root, root.pointer(target.trim_start_matches('#')).unwrap());
    }
    let below = |key: &str, schema: &Value| -> Vec<Key> {
        let below = keys(root, schema).into_iter();
        below.map(|rest| [vec![key.to_owned()], rest].concat()).collect()
    };
    let mut found = Vec::new();
    for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
        // Helm's own keys, which no template reads.
        if !["global", "baton-sidecar"].contains(&key.as_str()) {
            found.extend(below(key, schema));
        }
    }
    match (&schema["additionalProperties"], schema.get("propertyNames")) {
        (Value::Object(_), Some(_)) => {
            found.extend(below("orders", &schema["additionalProperties"]));
        }
        (Value::Object(_), None) => {
            found.extend(below("key", &schema["additionalProperties"]));
            found.push(vec![HOSTILE_KEY.to_owned()]);
        }
        _ => {}
    }
    if schema["type"] == "array" {
        found.extend(below("0", &schema["items"]));
    }
    if *schema == json!({"type": "object"}) {
        found.push(vec!["key".to_owned()]);
        found.push(vec![HOSTILE_KEY.to_owned()]);
    }
    if found.is_empty() { vec![Key::new()] } else { found }
}

/// These values with a hostile one at each of these paths.
fn with(values: &Value, keys: &[Key], hostile: &Value) -> Value {
    let mut values = values.clone();
    for key in keys {
        let mut place = &mut values;
        for part in key {
            if part == "0" {
                let list = place.as_array().is_some_and(|list| !list.is_empty());
                if !list {
                    *place = json!([null]);
                }
                place = &mut place[0];
                continue;
            }
            if !place.is_object() {
                *place = Value::Object(Map::new());
            }
            let name = match hostile.as_str() {
                Some(text) if part == HOSTILE_KEY => text,
                _ => part.as_str(),
            };
            place = &mut place[name];
        }
        // As a value, 1 is both a label's and a quantity.
        *place = if key.last().is_some_and(|key| key == HOSTILE_KEY) {
            "1".into()
        } else {
            hostile.clone()
        };
    }
    values
}

/// The keys and scalars that a chart renders without hostile values.
struct Known {
    kinds: Vec<String>,
    keys: BTreeSet<String>,
    scalars: BTreeSet<String>,
}

impl Known {
    fn new(objects: &[Value]) -> Self {
        let (mut keys, mut scalars) = (BTreeSet::new(), BTreeSet::new());
        for object in objects {
            visit(
                object,
                &mut |key| {
                    keys.insert(key.to_owned());
                },
                &mut |scalar| {
                    scalars.insert(scalar.to_string());
                },
            );
        }
        keys.extend(["key", "1"].map(str::to_owned));
        scalars.extend(["\"1\"", "1"].map(str::to_owned));
        Self { kinds: kinds(objects), keys, scalars }
    }

    /// Checks that each new key and scalar is the hostile value, or contains it whole.
    fn check(&self, objects: &[Value], hostile: &Value) {
        assert_eq!(kinds(objects), self.kinds, "{hostile}");
        let text = hostile.as_str().unwrap_or_default();
        // As JSON within an expression, where Go escapes `&` too.
        let escaped = hostile.to_string().replace('&', "\\u0026");
        let escaped = escaped.trim_matches('"');
        let contains = |found: &str| found.contains(text) || found.contains(escaped);
        for object in objects {
            visit(
                object,
                &mut |key| {
                    let is_known =
                        self.keys.contains(key) || !text.is_empty() && key.contains(text);
                    assert!(is_known, "{hostile} made the key {key:?} in {object:#}");
                },
                &mut |scalar| {
                    let is_known = self.scalars.contains(&scalar.to_string())
                        || scalar.as_f64().is_some_and(|number| hostile.as_f64() == Some(number))
                        || scalar
                            .as_str()
                            .is_some_and(|found| hostile.is_number() || contains(found));
                    assert!(is_known, "{hostile} became {scalar} in {object:#}");
                },
            );
        }
    }
}

fn kind(object: &Value) -> &str {
    object["kind"].as_str().unwrap_or_default()
}

fn kinds(objects: &[Value]) -> Vec<String> {
    objects.iter().map(|object| kind(object).to_owned()).collect()
}

fn visit(value: &Value, key: &mut impl FnMut(&str), scalar: &mut impl FnMut(&Value)) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                key(name);
                visit(field, key, scalar);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| visit(item, key, scalar)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => scalar(value),
    }
}

fn schema(name: &str) -> Value {
    let text = fs::read(chart(name).join("values.schema.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn over(backend: &str, values: &Value) -> Value {
    let store = match backend {
        "zookeeper" => json!({"backend": backend, "zookeeper": {
            "servers": "zk:2181", "path": "/a", "tickTime": "3s",
            "authSecret": "a", "caSecret": "b", "certificateSecret": "c",
        }}),
        "etcd" => json!({"backend": backend, "etcd": {
            "endpoints": "https://etcd:2379", "prefix": "/a",
            "userSecret": "a", "caSecret": "b", "certificateSecret": "c",
        }}),
        _ => json!({"backend": backend}),
    };
    merged(values, &store)
}

fn merged(values: &Value, others: &Value) -> Value {
    let mut values = values.as_object().unwrap().clone();
    values.extend(others.as_object().unwrap().clone());
    values.into()
}
