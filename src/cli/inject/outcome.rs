//! The outcome of `baton inject`: how many templates got a sidecar, and near misses.
//!
//! Pure. Start with [`Summary`] and [`NearMiss`].

use serde_json::{Map, Value};
use std::fmt;

/// Counts of Pod templates; displays as one line.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Pods and Pod templates.
    pub templates: usize,
    /// Templates that got a sidecar.
    pub injected: usize,
    /// Labeled templates that already had a sidecar.
    pub had_sidecar: usize,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { templates, injected, had_sidecar } = self;
        write!(f, "{injected} of {templates} templates injected")?;
        if *had_sidecar > 0 { write!(f, ", {had_sidecar} already had a sidecar") } else { Ok(()) }
    }
}

/// A label or annotation that seems meant to add a sidecar, but does not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NearMiss {
    /// The label has another value.
    #[error(
        "{owner}: the label {label} is {value}, which adds no sidecar: set it to enabled or \
         disabled"
    )]
    Value {
        /// The object that the template is in.
        owner: String,
        /// The label.
        label: String,
        /// Its value, as JSON.
        value: String,
    },
    /// The label is among the annotations.
    #[error(
        "{owner}: {label} is an annotation but must be a label: move it to the labels of the same \
         metadata"
    )]
    Annotation {
        /// The object that the template is in.
        owner: String,
        /// The label.
        label: String,
    },
    /// There is an election but no label.
    #[error(
        "{owner} has the annotation {annotation}, but the label {label}: enabled is missing: add \
         it to the same metadata"
    )]
    Unlabeled {
        /// The object that the template is in.
        owner: String,
        /// The annotation.
        annotation: String,
        /// The label.
        label: String,
    },
    /// The label is on a workload instead of its template.
    #[error(
        "{owner}: the label {label} is on the object but must be on its Pod template: move it to \
         spec.template.metadata.labels"
    )]
    OnWorkload {
        /// The object.
        owner: String,
        /// The label.
        label: String,
    },
}

/// The near miss of a template that gets no sidecar, if it is one. `prefix` is that of the label
/// and annotations.
pub(super) fn near_miss(
    template: &Map<String, Value>,
    owner: &str,
    prefix: &str,
) -> Option<NearMiss> {
    let (label, annotation) = (format!("{prefix}/inject"), format!("{prefix}/election"));
    let metadata = |list: &str, key: &str| template.get("metadata")?.get(list)?.get(key).cloned();
    let owner = owner.to_owned();
    match metadata("labels", &label) {
        Some(value) if is_opt_out(&value) => None,
        Some(value) => Some(NearMiss::Value { owner, label, value: value.to_string() }),
        None if metadata("annotations", &label).is_some_and(|value| !is_opt_out(&value)) => {
            Some(NearMiss::Annotation { owner, label })
        }
        None => metadata("annotations", &annotation).map(|_| NearMiss::Unlabeled {
            owner,
            annotation,
            label,
        }),
    }
}

/// Whether a label's value opts out of the sidecar.
pub(super) fn is_opt_out(value: &Value) -> bool {
    match value {
        Value::String(text) => matches!(text.as_str(), "disabled" | "false" | "no"),
        Value::Bool(enabled) => !enabled,
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => false,
    }
}
