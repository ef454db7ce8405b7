//! YAML in, YAML out: every Pod template that is labelled for it gets its sidecar. What `baton inject` does.
//!
//! Pure. It does to manifests what the chart's policy has an API server do to Pods. A document in which nothing is labelled
//! goes out byte for byte; one that gets a sidecar is written anew, and loses the comments within it.

mod outcome;

pub use outcome::{NearMiss, Summary};

use crate::cli::{Inject, Settings, Surroundings};
use crate::config::{Config, ConfigError};
use crate::kubernetes::container;
use crate::kubernetes::container::FLAGS;
use outcome::{is_refusal, near_miss};
use serde_json::{Map, Value};

/// Why a Pod template cannot have its sidecar.
#[derive(Debug, thiserror::Error)]
pub enum Mistake {
    /// Not a document that a template could be in.
    #[error("document {number} is not YAML")]
    NotYaml {
        /// Which of them, the first being 1.
        number: usize,
        /// What is wrong with it.
        source: Box<serde_saphyr::Error>,
    },
    /// A label without its annotation.
    #[error(
        "{whose} is labelled {prefix}/inject=enabled, but no election is named: set the annotation {prefix}/election of the same Pod \
         or Pod template"
    )]
    NoElection {
        /// The object that the template is in.
        whose: String,
        /// What label and annotations begin with.
        prefix: String,
    },
    /// An annotation that sets nothing.
    #[error("{whose}: no flag can be set by the annotation {annotation}: there are {}", FLAGS.join(", "))]
    NoFlag {
        /// The object that the template is in.
        whose: String,
        /// As it is written.
        annotation: String,
    },
    /// What the sidecar itself would refuse.
    #[error("{whose} asks for what its sidecar would refuse")]
    Refused {
        /// The object that the template is in.
        whose: String,
        /// What is wrong.
        source: ConfigError,
    },
    /// A near miss, which `--strict` refuses.
    #[error(transparent)]
    NearMiss(NearMiss),
}

/// The output, and the messages about it.
#[derive(Debug)]
pub struct Injected {
    /// The documents.
    pub text: String,
    /// How many templates there were, and how many got a sidecar.
    pub summary: Summary,
    /// Templates that look as if they should have got one.
    pub near_misses: Vec<NearMiss>,
}

/// The documents of `text`, with a sidecar in each Pod template that is labelled for one and has none; or all that keeps one
/// from it.
pub fn inject(text: &str, options: &Inject) -> Result<Injected, Vec<Mistake>> {
    let mut injected = String::with_capacity(text.len());
    let (summary, mistakes, near_misses) = (Summary::default(), Vec::new(), Vec::new());
    let mut injector = Injector { options, mistakes, near_misses, summary };
    for (index, document) in documents(text).into_iter().enumerate() {
        match injector.document(document) {
            Ok(document) => injected.push_str(&document),
            Err(source) => injector
                .mistakes
                .push(Mistake::NotYaml { number: index + 1, source: Box::new(source) }),
        }
    }
    let Injector { mut mistakes, mut near_misses, summary, .. } = injector;
    if options.strict {
        mistakes.extend(near_misses.drain(..).map(Mistake::NearMiss));
    }
    if mistakes.is_empty() {
        Ok(Injected { text: injected, summary, near_misses })
    } else {
        Err(mistakes)
    }
}

struct Injector<'a> {
    options: &'a Inject,
    mistakes: Vec<Mistake>,
    near_misses: Vec<NearMiss>,
    summary: Summary,
}

impl Injector<'_> {
    fn document(&mut self, text: &str) -> Result<String, serde_saphyr::Error> {
        // As kubectl reads YAML: 0644 is octal, and `yes` is true.
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

    /// Looks at a value and all within it, which belongs to the object `whose`; whether anything was changed.
    fn visit(&mut self, value: &mut Value, whose: &str) -> bool {
        match value {
            Value::Object(fields) => {
                let whose = name(fields).unwrap_or_else(|| whose.to_owned());
                let mut changed = has_containers(fields) && self.template(fields, &whose);
                let labelled_before = self.labelled();
                let templates_before = self.summary.templates;
                for field in fields.values_mut() {
                    changed |= self.visit(field, &whose);
                }
                let has_templates = self.summary.templates > templates_before;
                if has_templates && self.labelled() == labelled_before {
                    self.look_at_workload(fields, whose);
                }
                changed
            }
            Value::Array(items) => {
                items.iter_mut().fold(false, |changed, item| self.visit(item, whose) | changed)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }

    /// Counts a Pod, or the Pod template of any kind of workload, and injects it if it is labeled.
    /// Returns whether it was changed.
    fn template(&mut self, fields: &mut Map<String, Value>, whose: &str) -> bool {
        self.summary.templates += 1;
        if self.label(fields) != Some(&"enabled".into()) {
            self.near_misses.extend(near_miss(fields, whose, &self.options.prefix));
            return false;
        }
        let lists = ["initContainers", "containers"]
            .map(|list| at(fields, "spec", list).and_then(Value::as_array));
        if lists.into_iter().flatten().flatten().any(|one| one["name"] == container::NAME) {
            self.summary.had_one += 1;
            return false;
        }
        let changed = self.inject(fields, whose);
        self.summary.injected += usize::from(changed);
        changed
    }

    /// Reports a label on a workload if none of its templates has it.
    fn look_at_workload(&mut self, fields: &Map<String, Value>, whose: String) {
        if self.label(fields).is_some_and(|value| !is_refusal(value)) {
            self.near_misses.push(NearMiss::OnWorkload { whose, label: self.key("inject") });
        }
    }

    /// How many templates had the label so far, or will be reported as lacking it.
    fn labelled(&self) -> usize {
        self.summary.injected + self.summary.had_one + self.mistakes.len() + self.near_misses.len()
    }

    fn label<'a>(&self, fields: &'a Map<String, Value>) -> Option<&'a Value> {
        at(fields, "metadata", "labels")?.get(self.key("inject"))
    }

    /// Puts a sidecar into a Pod, first among its init containers, or says why not.
    fn inject(&mut self, pod: &mut Map<String, Value>, whose: &str) -> bool {
        let before = self.mistakes.len();
        let annotations = at(pod, "metadata", "annotations")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        let election =
            annotations.get(&self.key("election")).and_then(Value::as_str).unwrap_or_default();
        let flags = self.flags(&annotations, whose);
        if election.is_empty() {
            self.mistakes.push(Mistake::NoElection {
                whose: whose.to_owned(),
                prefix: self.options.prefix.clone(),
            });
        } else if let Err(refused) = check(election, &flags) {
            let refused = refused
                .into_iter()
                .map(|source| Mistake::Refused { whose: whose.to_owned(), source });
            self.mistakes.extend(refused);
        }
        if self.mistakes.len() > before {
            return false;
        }
        let container = container::container(
            &self.options.image,
            self.options.restart_application,
            election,
            &flags,
        );
        let spec = pod.get_mut("spec").and_then(Value::as_object_mut).expect("it has containers");
        list(spec, "initContainers").insert(0, container);
        let volume = container::volume();
        let volumes = list(spec, "volumes");
        if !volumes.iter().any(|other| other["name"] == volume["name"]) {
            volumes.push(volume);
        }
        true
    }

    fn flags<'a>(
        &mut self,
        annotations: &'a Map<String, Value>,
        whose: &str,
    ) -> Vec<(&'a str, &'a str)> {
        let ours = self.key("config.");
        let mut flags = Vec::new();
        for (annotation, value) in annotations {
            let Some(flag) = annotation.strip_prefix(&ours) else { continue };
            match value.as_str() {
                // An empty one is as good as none, as in the environment.
                Some("") if FLAGS.contains(&flag) => {}
                Some(value) if FLAGS.contains(&flag) => flags.push((flag, value)),
                Some(_) | None => self.mistakes.push(Mistake::NoFlag {
                    whose: whose.to_owned(),
                    annotation: format!("{annotation}: {value}"),
                }),
            }
        }
        flags
    }

    fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.options.prefix)
    }
}

/// What the sidecar will say to what it is told.
fn check(election: &str, flags: &[(&str, &str)]) -> Result<(), Vec<ConfigError>> {
    let flag =
        |name| flags.iter().find(|(flag, _)| *flag == name).map(|(_, value)| (*value).to_owned());
    let settings = Settings {
        election: Some(election.to_owned()),
        answer_validity: flag("answer-validity"),
        lease_duration: flag("lease-duration"),
        log_format: flag("log-format"),
        log_level: flag("log-level"),
        max_clock_drift: flag("max-clock-drift"),
        renew_deadline: flag("renew-deadline"),
        require_polling: flag("require-polling"),
        retry_period: flag("retry-period"),
        ..Settings::default()
    };
    let surroundings = Surroundings {
        in_kubernetes: true,
        host_name: election.to_owned(),
        ..Surroundings::default()
    };
    Config::new(&settings, &surroundings).map(drop)
}

/// The documents of a stream, each with the marker before it. A line that begins with three dashes is one wherever it stands.
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

/// How much of a document comes before its content: a marker, comments, empty lines.
fn length_of_head(text: &str) -> usize {
    let no_content = |line: &&str| matches!(line.trim(), "---" | "") || line.starts_with('#');
    text.split_inclusive('\n').take_while(no_content).map(str::len).sum()
}

/// What an object is called: `Deployment orders`.
fn name(fields: &Map<String, Value>) -> Option<String> {
    let name = at(fields, "metadata", "name").or_else(|| at(fields, "metadata", "generateName"))?;
    Some(format!("{} {}", fields.get("kind")?.as_str()?, name.as_str()?))
}

fn at<'a>(fields: &'a Map<String, Value>, outer: &str, inner: &str) -> Option<&'a Value> {
    fields.get(outer)?.get(inner)
}

/// Whether this is a Pod or the template of one.
fn has_containers(fields: &Map<String, Value>) -> bool {
    at(fields, "spec", "containers").is_some_and(Value::is_array)
}

/// A list of a Pod, which is made where it is missing.
fn list<'a>(spec: &'a mut Map<String, Value>, name: &str) -> &'a mut Vec<Value> {
    let list = spec.entry(name).or_insert_with(|| Value::Array(Vec::new()));
    if !list.is_array() {
        *list = Value::Array(Vec::new());
    }
    list.as_array_mut().expect("it is one now")
}

#[cfg(test)]
mod tests;
