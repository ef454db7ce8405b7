//! The sidecar as a container of a Pod, for `baton inject`.
//!
//! Pure. Charts, manifests and the API server's policy have the same one; a test compares them, field by field.

use crate::cli::RestartApplication;
use crate::process::exit::Exit;
use serde_json::{Value, json};

/// What the container is called, by which it is known everywhere.
pub const NAME: &str = "baton";

/// The flags that a Pod's annotations can set: those that depend neither on where the election is held nor on the Pod.
pub const FLAGS: [&str; 8] = [
    "answer-validity",
    "lease-duration",
    "log-format",
    "log-level",
    "max-clock-drift",
    "renew-deadline",
    "require-polling",
    "retry-period",
];

const STATE: &str = "baton-state";
const STATE_DIRECTORY: &str = "/var/lib/baton";

/// The volume that keeps how the sidecar's last run ended: it outlives a restart of the container, and not its Pod.
pub fn volume() -> Value {
    json!({"name": STATE, "emptyDir": {"sizeLimit": "1Mi"}})
}

/// The container of a candidate of `election`, with `flags` as their names and values.
pub fn container(
    image: &str,
    restart: RestartApplication,
    election: &str,
    flags: &[(&str, &str)],
) -> Value {
    let mut container = json!({
        "name": NAME,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "restartPolicy": "Always",
        "env": environment(restart, election, flags),
        "ports": [{"name": "baton", "containerPort": 4040}, {"name": "baton-metrics", "containerPort": 4041}],
        "lifecycle": {"preStop": {"exec": {"command": ["/baton", "stopping"]}}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        // No CPU limit: a throttled sidecar renews late.
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "32Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
            "runAsGroup": 65532,
            "runAsNonRoot": true,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": STATE, "mountPath": STATE_DIRECTORY}],
    });
    if restart == RestartApplication::Always {
        let alone = [Exit::Clean, Exit::Usage, Exit::Fault, Exit::Refused].map(Exit::code);
        container["restartPolicyRules"] = json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "NotIn", "values": alone}}]);
    }
    container
}

fn environment(restart: RestartApplication, election: &str, flags: &[(&str, &str)]) -> Vec<Value> {
    let text = |name: &str, value: &str| json!({"name": name, "value": value});
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let mut environment = vec![text("BATON_ELECTION", election)];
    if restart == RestartApplication::Never {
        environment.push(text("BATON_ON_LOST", "stay"));
    }
    environment.push(text("BATON_STATE_DIRECTORY", STATE_DIRECTORY));
    for (flag, value) in flags {
        environment.push(text(&format!("BATON_{}", flag.replace('-', "_").to_uppercase()), value));
    }
    environment.push(field("POD_NAME", "metadata.name"));
    environment.push(field("POD_NAMESPACE", "metadata.namespace"));
    environment
}
