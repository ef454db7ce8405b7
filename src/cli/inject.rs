//! Adds the sidecar to every labeled Pod template in a stream of YAML, for `baton inject`.
//!
//! Pure. Start with [`inject`]. It does to manifests what the chart's admission policy does to
//! Pods. A document that gets no sidecar keeps its bytes; one that does is rewritten without its
//! comments.

mod flags;
mod kyverno;
mod outcome;
mod unsuitable;

pub use flags::{Inject, RestartApplication};
pub use outcome::{NearMiss, Summary};
pub use unsuitable::Unsuitable;

use crate::cli::{Environment, RoutingFlags, Settings};
use crate::config::{Config, ConfigError};
use crate::kubernetes::container;
use crate::kubernetes::container::FLAGS;
use outcome::{is_opt_out, near_miss};
use serde_json::{Map, Value};
use unsuitable::unsuitable;

/// Why a Pod template cannot get a sidecar.
#[derive(Debug, thiserror::Error)]
pub enum InjectError {
    /// A document is not YAML.
    #[error("document {number} is not YAML")]
    NotYaml {
        /// The position of the document, from 1.
        number: usize,
        /// The parser's error.
        source: Box<serde_saphyr::Error>,
    },
    /// A label without the annotation.
    #[error(
        "{owner} has the label {prefix}/inject: enabled but names no election: add the annotation \
         {prefix}/election: NAME to the same Pod or Pod template"
    )]
    NoElection {
        /// The object that the template is in.
        owner: String,
        /// The prefix of the label and annotations.
        prefix: String,
    },
    /// An annotation that sets no flag.
    #[error(
        "{owner}: the annotation {annotation} sets no flag: use one of {}, with a string as its \
         value",
        FLAGS.join(", ")
    )]
    NoFlag {
        /// The object that the template is in.
        owner: String,
        /// The annotation and its value.
        annotation: String,
    },
    /// A value that the sidecar would refuse.
    #[error("the sidecar of {owner} would refuse its configuration")]
    Refused {
        /// The object that the template is in.
        owner: String,
        /// The sidecar's error.
        source: ConfigError,
    },
    /// A Pod in which a sidecar would be unsafe or could not run.
    #[error("{owner} cannot have a sidecar")]
    Unsuitable {
        /// The object that the template is in.
        owner: String,
        /// Why.
        source: Unsuitable,
    },
    /// A near miss, with `--strict`.
    #[error(transparent)]
    NearMiss(NearMiss),
}

/// The output of [`inject`], and what to report about it.
#[derive(Debug)]
pub struct Injected {
    /// The documents.
    pub text: String,
    /// How many templates got a sidecar.
    pub summary: Summary,
    /// Templates that seem meant for a sidecar but got none.
    pub near_misses: Vec<NearMiss>,
}

/// Adds a sidecar to each labeled Pod template in `text` that has none. Returns every error if any
/// template cannot get its sidecar.
pub fn inject(text: &str, options: &Inject) -> Result<Injected, Vec<InjectError>> {
    let mut injected = String::with_capacity(text.len());
    let (summary, errors, near_misses) = (Summary::default(), Vec::new(), Vec::new());
    let mut injector = Injector { options, errors, near_misses, summary };
    for (index, document) in documents(text).into_iter().enumerate() {
        match injector.document(document) {
            Ok(document) => injected.push_str(&document),
            Err(source) => injector
                .errors
                .push(InjectError::NotYaml { number: index + 1, source: Box::new(source) }),
        }
    }
    let Injector { mut errors, mut near_misses, summary, .. } = injector;
    if options.strict {
        errors.extend(near_misses.drain(..).map(InjectError::NearMiss));
    }
    if errors.is_empty() {
        Ok(Injected { text: injected, summary, near_misses })
    } else {
        Err(errors)
    }
}

/// The Kyverno policy that does to Pods what [`inject`] does to manifests, as YAML.
pub fn kyverno_policy(options: &Inject) -> String {
    serde_saphyr::to_string(&kyverno::policy(options)).expect("JSON can be written as YAML")
}

struct Injector<'a> {
    options: &'a Inject,
    errors: Vec<InjectError>,
    near_misses: Vec<NearMiss>,
    summary: Summary,
}

impl Injector<'_> {
    fn document(&mut self, text: &str) -> Result<String, serde_saphyr::Error> {
        // kubectl reads YAML this way: 0644 is octal, and `yes` is true.
        let as_kubectl = serde_saphyr::options! { legacy_octal_numbers: true };
        let (head, body) = text.split_at(length_of_head(text));
        if body.is_empty() {
            return Ok(text.to_owned());
        }
        let mut value: Value = serde_saphyr::from_str_with_options(body, as_kubectl)?;
        if !self.visit(&mut value, "a Pod template") {
            return Ok(text.to_owned());
        }
        let body = serde_saphyr::to_string(&value).expect("JSON can be written as YAML");
        Ok(format!("{head}{}\n", body.trim_end()))
    }

    /// Adds sidecars to the templates within `value`, which belongs to the object `owner`. Returns
    /// whether anything changed.
    fn visit(&mut self, value: &mut Value, owner: &str) -> bool {
        match value {
            Value::Object(fields) => {
                let owner = kind_and_name(fields).unwrap_or_else(|| owner.to_owned());
                let mut changed = has_containers(fields) && self.template(fields, &owner);
                let labeled_before = self.labeled();
                let templates_before = self.summary.templates;
                for field in fields.values_mut() {
                    changed |= self.visit(field, &owner);
                }
                let has_templates = self.summary.templates > templates_before;
                if has_templates && self.labeled() == labeled_before {
                    self.check_workload(fields, owner);
                }
                changed
            }
            Value::Array(items) => {
                items.iter_mut().fold(false, |changed, item| self.visit(item, owner) | changed)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }

    /// Counts a Pod or Pod template, and adds a sidecar if it is labeled and has none. Returns
    /// whether it changed.
    fn template(&mut self, fields: &mut Map<String, Value>, owner: &str) -> bool {
        self.summary.templates += 1;
        if self.label(fields) != Some(&"enabled".into()) {
            self.near_misses.extend(near_miss(fields, owner, &self.options.prefix));
            return false;
        }
        let lists = ["initContainers", "containers"]
            .map(|list| nested(fields, "spec", list).and_then(Value::as_array));
        if lists.into_iter().flatten().flatten().any(|item| item["name"] == container::NAME) {
            self.summary.had_sidecar += 1;
            return false;
        }
        let changed = self.inject(fields, owner);
        self.summary.injected += usize::from(changed);
        changed
    }

    /// Reports the label on a workload whose templates all lack it.
    fn check_workload(&mut self, fields: &Map<String, Value>, owner: String) {
        if self.label(fields).is_some_and(|value| !is_opt_out(value)) {
            self.near_misses.push(NearMiss::OnWorkload { owner, label: self.key("inject") });
        }
    }

    /// How many templates so far are labeled or near misses.
    fn labeled(&self) -> usize {
        self.summary.injected
            + self.summary.had_sidecar
            + self.errors.len()
            + self.near_misses.len()
    }

    fn label<'a>(&self, fields: &'a Map<String, Value>) -> Option<&'a Value> {
        nested(fields, "metadata", "labels")?.get(self.key("inject"))
    }

    /// Adds the sidecar as the first init container, or reports why it cannot. Returns whether it
    /// did.
    fn inject(&mut self, pod: &mut Map<String, Value>, owner: &str) -> bool {
        let before = self.errors.len();
        let annotations = nested(pod, "metadata", "annotations")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        let election =
            annotations.get(&self.key("election")).and_then(Value::as_str).unwrap_or_default();
        let flags = self.flags(&annotations, owner);
        if election.is_empty() {
            self.errors.push(InjectError::NoElection {
                owner: owner.to_owned(),
                prefix: self.options.prefix.clone(),
            });
        } else if let Err(refused) = check_config(election, &flags) {
            let refused = refused
                .into_iter()
                .map(|source| InjectError::Refused { owner: owner.to_owned(), source });
            self.errors.extend(refused);
        }
        let reasons = pod.get("spec").map(unsuitable).unwrap_or_default().into_iter();
        let owner = || owner.to_owned();
        self.errors
            .extend(reasons.map(|source| InjectError::Unsuitable { owner: owner(), source }));
        if self.errors.len() > before {
            return false;
        }
        let container = container::container(
            &self.options.image,
            self.options.restart_application,
            election,
            &flags,
            nested(pod, "spec", "terminationGracePeriodSeconds").and_then(Value::as_u64),
        );
        let spec = pod.get_mut("spec").and_then(Value::as_object_mut).expect("a Pod has a spec");
        list_mut(spec, "initContainers").insert(0, container);
        let volume = container::volume();
        let volumes = list_mut(spec, "volumes");
        if !volumes.iter().any(|other| other["name"] == volume["name"]) {
            volumes.push(volume);
        }
        true
    }

    /// The flags that annotations set. Reports annotations that set none.
    fn flags<'a>(
        &mut self,
        annotations: &'a Map<String, Value>,
        owner: &str,
    ) -> Vec<(&'a str, &'a str)> {
        let prefix = self.key("config.");
        let mut flags = Vec::new();
        for (annotation, value) in annotations {
            let Some(flag) = annotation.strip_prefix(&prefix) else { continue };
            match value.as_str() {
                // An empty value sets nothing, as in the environment.
                Some("") if FLAGS.contains(&flag) => {}
                Some(value) if FLAGS.contains(&flag) => flags.push((flag, value)),
                Some(_) | None => self.errors.push(InjectError::NoFlag {
                    owner: owner.to_owned(),
                    annotation: format!("{annotation}: {value}"),
                }),
            }
        }
        flags
    }

    /// The key of a label or annotation of ours.
    fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.options.prefix)
    }
}

/// Checks the configuration as the sidecar will at its start.
fn check_config(election: &str, flags: &[(&str, &str)]) -> Result<(), Vec<ConfigError>> {
    let flag =
        |name| flags.iter().find(|(flag, _)| *flag == name).map(|(_, value)| (*value).to_owned());
    let settings = Settings {
        election: Some(election.to_owned()),
        answer_validity: flag("answer-validity"),
        fit_failures: flag("fit-failures"),
        fit_period: flag("fit-period"),
        fit_timeout: flag("fit-timeout"),
        fit_url: flag("fit-url"),
        lease_duration: flag("lease-duration"),
        lease_events: flag("lease-events"),
        log_format: flag("log-format"),
        log_level: flag("log-level"),
        max_clock_drift: flag("max-clock-drift"),
        renew_deadline: flag("renew-deadline"),
        require_polling: flag("require-polling"),
        retry_period: flag("retry-period"),
        stand_after: flag("stand-after"),
        stopping_limit: flag("stopping-limit"),
        routing: RoutingFlags {
            slice: flag("endpoint-slice"),
            port: flag("endpoint-port"),
            addresses: None,
        },
        ..Settings::default()
    };
    let environment = Environment {
        in_kubernetes: true,
        host_name: election.to_owned(),
        // Kubernetes sets the Pod's own.
        pod_ips: Some("10.0.0.1".to_owned()),
        ..Environment::default()
    };
    Config::new(&settings, &environment).map(drop)
}

/// Splits a stream into documents, each with the marker before it. In YAML, a line that starts with
/// three dashes is a marker even within a string.
fn documents(text: &str) -> Vec<&str> {
    let mut documents = Vec::new();
    let (mut begin, mut end) = (0, 0);
    for line in text.split_inclusive('\n') {
        if is_marker(line) && end > begin {
            documents.push(&text[begin..end]);
            begin = end;
        }
        end += line.len();
    }
    documents.push(&text[begin..]);
    documents
}

fn is_marker(line: &str) -> bool {
    line.strip_prefix("---")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// The length of the marker, comments, and empty lines before a document's content.
fn length_of_head(text: &str) -> usize {
    let no_content = |line: &&str| matches!(line.trim(), "---" | "") || line.starts_with('#');
    text.split_inclusive('\n').take_while(no_content).map(str::len).sum()
}

/// An object's kind and name, such as `Deployment orders`.
fn kind_and_name(fields: &Map<String, Value>) -> Option<String> {
    let name = nested(fields, "metadata", "name")
        .or_else(|| nested(fields, "metadata", "generateName"))?;
    Some(format!("{} {}", fields.get("kind")?.as_str()?, name.as_str()?))
}

fn nested<'a>(fields: &'a Map<String, Value>, outer: &str, inner: &str) -> Option<&'a Value> {
    fields.get(outer)?.get(inner)
}

/// Whether these are the fields of a Pod or Pod template.
fn has_containers(fields: &Map<String, Value>) -> bool {
    nested(fields, "spec", "containers").is_some_and(Value::is_array)
}

/// A list in a Pod's spec, created if it is missing.
fn list_mut<'a>(spec: &'a mut Map<String, Value>, name: &str) -> &'a mut Vec<Value> {
    let list = spec.entry(name).or_insert_with(|| Value::Array(Vec::new()));
    if !list.is_array() {
        *list = Value::Array(Vec::new());
    }
    list.as_array_mut().expect("it is a list now")
}

#[cfg(test)]
mod tests;
