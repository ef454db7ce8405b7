//! The sidecar's container, for `baton inject`.
//!
//! Pure. Start with [`container()`]. Charts, manifests, and the admission policy contain the same
//! container; a test compares them field by field.

use crate::cli::RestartApplication;
use crate::process::exit::Exit;
use serde_json::{Value, json};

/// The container's name.
pub const NAME: &str = "baton";

/// The flags that annotations of a Pod may set: those that depend on neither the store nor the Pod.
pub const FLAGS: [&str; 17] = [
    "answer-validity",
    "endpoint-port",
    "endpoint-slice",
    "fit-failures",
    "fit-period",
    "fit-timeout",
    "fit-url",
    "lease-duration",
    "lease-events",
    "log-format",
    "log-level",
    "max-clock-drift",
    "renew-deadline",
    "require-polling",
    "retry-period",
    "stand-after",
    STOPPING_LIMIT,
];

/// How long a withdrawal by the preStop hook lasts if no SIGTERM follows.
pub const STOPPING_LIMIT: &str = "stopping-limit";
/// How much longer than the Pod's grace period that must be.
pub const STOPPING_MARGIN_SECONDS: u64 = 60;
/// The program's default.
pub const DEFAULT_STOPPING_SECONDS: u64 = 600;

/// The volume's name.
pub const STATE: &str = "baton-state";
const STATE_DIRECTORY: &str = "/var/lib/baton";

/// The volume that records how the last run ended. It outlives the container, but not the Pod.
pub fn volume() -> Value {
    json!({"name": STATE, "emptyDir": {"sizeLimit": "1Mi"}})
}

/// The container of a candidate of `election`; `flags` are names and values. `grace_seconds` is the
/// Pod's `terminationGracePeriodSeconds`, if it is set.
pub fn container(
    image: &str,
    restart: RestartApplication,
    election: &str,
    flags: &[(&str, &str)],
    grace_seconds: Option<u64>,
) -> Value {
    let mut container = json!({
        "name": NAME,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "restartPolicy": "Always",
        "env": environment(restart, election, flags, grace_seconds),
        "ports": [
            {"name": "baton", "containerPort": 4040},
            {"name": "baton-metrics", "containerPort": 4041},
        ],
        "lifecycle": {"preStop": {"exec": {"command": ["/baton", "stopping"]}}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        // No CPU limit: a throttled sidecar renews late.
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "32Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
            "runAsGroup": 40404,
            "runAsNonRoot": true,
            "runAsUser": 40404,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": STATE, "mountPath": STATE_DIRECTORY}],
    });
    if restart == RestartApplication::Always {
        let codes_without_restart =
            [Exit::Clean, Exit::Usage, Exit::Fault, Exit::Refused].map(Exit::code);
        container["restartPolicyRules"] = json!([{
            "action": "RestartAllContainers",
            "exitCodes": {"operator": "NotIn", "values": codes_without_restart},
        }]);
    }
    container
}

/// The environment variable of a flag.
pub fn variable(flag: &str) -> String {
    format!("BATON_{}", flag.replace('-', "_").to_uppercase())
}

fn environment(
    restart: RestartApplication,
    election: &str,
    flags: &[(&str, &str)],
    grace_seconds: Option<u64>,
) -> Vec<Value> {
    let text = |name: &str, value: &str| json!({"name": name, "value": value});
    let field = |name: &str, path: &str| {
        let source = json!({"fieldRef": {"fieldPath": path}});
        json!({"name": name, "valueFrom": source})
    };
    let mut environment = vec![text("BATON_ELECTION", election)];
    if restart == RestartApplication::Never {
        environment.push(text("BATON_ON_LOST", "stay"));
    }
    environment.push(text("BATON_STATE_DIRECTORY", STATE_DIRECTORY));
    let limit = grace_seconds.unwrap_or_default().saturating_add(STOPPING_MARGIN_SECONDS);
    let is_set = flags.iter().any(|(flag, _)| *flag == STOPPING_LIMIT);
    if limit > DEFAULT_STOPPING_SECONDS && !is_set {
        environment.push(text("BATON_STOPPING_LIMIT", &format!("{limit}s")));
    }
    for (flag, value) in flags {
        environment.push(text(&variable(flag), value));
    }
    environment.push(field("POD_NAME", "metadata.name"));
    environment.push(field("POD_NAMESPACE", "metadata.namespace"));
    environment.push(field("POD_IPS", "status.podIPs"));
    environment
}
