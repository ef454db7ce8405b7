//! Pods in which a sidecar would be unsafe or could not run.
//!
//! Pure. Start with [`unsuitable`]. The chart's admission policy refuses the same Pods in the same
//! words; a test compares them.

use crate::kubernetes::container;
use serde_json::{Map, Value};

/// Why a Pod cannot have a sidecar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsuitable {
    /// The sidecar's loopback is the node's.
    #[error(
        "it uses the host's network, where every process of the node could withdraw its leader: \
         remove hostNetwork, or the label"
    )]
    HostNetwork,
    /// Kubernetes mounts no token.
    #[error(
        "it gets no service account token, which the sidecar needs: set \
         automountServiceAccountToken to true in the Pod's spec"
    )]
    NoToken,
    /// The volume may outlive the Pod or be shared with others.
    #[error(
        "its volume baton-state is no emptyDir, but the sidecar keeps its state there: rename the \
         volume"
    )]
    StateVolume,
    /// The image is for Linux.
    #[error("it is for Windows, but the sidecar's image is for Linux: remove the label")]
    Windows,
}

/// Every reason why a Pod with this spec cannot have a sidecar.
pub(super) fn unsuitable(spec: &Value) -> Vec<Unsuitable> {
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let mut state = volumes.filter(|volume| volume["name"] == container::STATE);
    let is_windows =
        spec["os"]["name"] == "windows" || spec["nodeSelector"]["kubernetes.io/os"] == "windows";
    let reasons = [
        (spec["hostNetwork"] == true, Unsuitable::HostNetwork),
        (spec["automountServiceAccountToken"] == false, Unsuitable::NoToken),
        (!state.all(is_empty_dir), Unsuitable::StateVolume),
        (is_windows, Unsuitable::Windows),
    ];
    reasons.into_iter().filter(|(applies, _)| *applies).map(|(_, reason)| reason).collect()
}

/// Without a source, a volume is an emptyDir.
fn is_empty_dir(volume: &Value) -> bool {
    let sources = |volume: &Map<String, Value>| volume.keys().filter(|key| *key != "name").count();
    volume.get("emptyDir").is_some()
        || volume.as_object().is_some_and(|fields| sources(fields) == 0)
}
