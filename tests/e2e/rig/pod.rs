//! A Pod as the API server returns it.

use serde_json::Value;
use std::fmt;

/// A snapshot of a Pod.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pod(pub(super) Value);

impl Pod {
    pub(crate) fn name(&self) -> &str {
        self.0["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// The value of a label.
    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        self.0["metadata"]["labels"][name].as_str()
    }

    /// The node's name, empty until the Pod is scheduled.
    pub(crate) fn node(&self) -> &str {
        self.0["spec"]["nodeName"].as_str().unwrap_or_default()
    }

    /// `Running`, `Succeeded`, or another phase.
    pub(crate) fn phase(&self) -> &str {
        self.0["status"]["phase"].as_str().unwrap_or_default()
    }

    pub(crate) fn is_ready(&self) -> bool {
        let mut conditions = self.0["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    }

    pub(crate) fn is_terminating(&self) -> bool {
        self.0["metadata"]["deletionTimestamp"].is_string()
    }

    /// How often a container was restarted.
    pub(crate) fn restarts(&self, container: &str) -> u64 {
        self.container(container)["restartCount"].as_u64().unwrap_or_default()
    }

    /// The status of a container, or null.
    pub(crate) fn container(&self, name: &str) -> &Value {
        self.containers().find(|container| container["name"] == name).unwrap_or(&Value::Null)
    }

    /// The names of the init containers, in start order.
    pub(crate) fn init_containers(&self) -> Vec<String> {
        let containers = self.0["spec"]["initContainers"].as_array().into_iter().flatten();
        containers
            .map(|container| container["name"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    fn containers(&self) -> impl Iterator<Item = &Value> {
        let statuses = ["initContainerStatuses", "containerStatuses"];
        statuses.into_iter().filter_map(|list| self.0["status"][list].as_array()).flatten()
    }
}

impl fmt::Display for Pod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {:?}", self.phase(), self.node())?;
        write!(f, "{}", if self.is_terminating() { ", terminating" } else { "" })?;
        for container in self.containers() {
            let (name, restarts) =
                (container["name"].as_str().unwrap_or_default(), &container["restartCount"]);
            let state = container["state"].as_object().and_then(|state| state.iter().next());
            let Some((state, detail)) = state else { continue };
            write!(f, "; {name} {state}")?;
            for more in ["reason", "exitCode"] {
                match &detail[more] {
                    Value::String(text) => write!(f, " {text}")?,
                    Value::Number(number) => write!(f, " {number}")?,
                    Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {}
                }
            }
            write!(f, ", restarted {restarts} times")?;
        }
        Ok(())
    }
}
