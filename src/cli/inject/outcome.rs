//! The outcome of an injection: how many templates got a sidecar, and which look as if they should
//! have.
//!
//! Pure.

use serde_json::{Map, Value};
use std::fmt;

/// How many templates there were.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Pods and Pod templates.
    pub templates: usize,
    /// Those that got a sidecar.
    pub injected: usize,
    /// Those that have the label, and had a sidecar before.
    pub had_one: usize,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { templates, injected, had_one } = self;
        write!(f, "{injected} of {templates} templates injected")?;
        if *had_one > 0 { write!(f, ", {had_one} had a sidecar before") } else { Ok(()) }
    }
}

/// Something that looks as if a template was meant to get a sidecar, and gives it none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NearMiss {
    /// The label with another value.
    #[error(
        "{whose}: the label {label} is {value}, which injects nothing: set it to enabled, or to disabled if you mean that"
    )]
    Value {
        /// The object that the template is in.
        whose: String,
        /// The label.
        label: String,
        /// Its value, as JSON.
        value: String,
    },
    /// The label among the annotations.
    #[error(
        "{whose}: {label} is an annotation, and counts as a label only: move it to the labels of the same metadata"
    )]
    Annotation {
        /// The object that the template is in.
        whose: String,
        /// The label.
        label: String,
    },
    /// An election without the label.
    #[error(
        "{whose}: the annotation {annotation} names an election, but the label {label}: enabled is missing beside it"
    )]
    Unlabelled {
        /// The object that the template is in.
        whose: String,
        /// The annotation.
        annotation: String,
        /// The label.
        label: String,
    },
    /// The label on a workload, whose template has none.
    #[error(
        "{whose}: the label {label} is on the object and not on its Pod template: move it to spec.template.metadata.labels"
    )]
    OnWorkload {
        /// The object.
        whose: String,
        /// The label.
        label: String,
    },
}

/// Why a template that looks as if it should have a sidecar gets none. `prefix` begins its label.
pub(super) fn near_miss(
    template: &Map<String, Value>,
    whose: &str,
    prefix: &str,
) -> Option<NearMiss> {
    let (label, annotation) = (format!("{prefix}/inject"), format!("{prefix}/election"));
    let metadata = |list: &str, key: &str| template.get("metadata")?.get(list)?.get(key).cloned();
    let whose = whose.to_owned();
    match metadata("labels", &label) {
        Some(value) if is_refusal(&value) => None,
        Some(value) => Some(NearMiss::Value { whose, label, value: value.to_string() }),
        None if metadata("annotations", &label).is_some_and(|value| !is_refusal(&value)) => {
            Some(NearMiss::Annotation { whose, label })
        }
        None => metadata("annotations", &annotation).map(|_| NearMiss::Unlabelled {
            whose,
            annotation,
            label,
        }),
    }
}

/// Whether a label says that nothing is to be injected.
pub(super) fn is_refusal(value: &Value) -> bool {
    match value {
        Value::String(text) => matches!(text.as_str(), "disabled" | "false" | "no"),
        Value::Bool(wanted) => !wanted,
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => false,
    }
}
