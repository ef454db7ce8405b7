//! A Kyverno policy that adds the sidecar to labeled Pods, for `baton inject --kyverno`.
//!
//! Pure. Start with [`policy`]. It makes the same container as [`super::inject`] and the chart's
//! admission policy, and refuses the same Pods in the same words; a test compares them. Its
//! expressions are `JMESPath`: <https://kyverno.io/docs/policy-types/cluster-policy/jmespath/>.

use super::Unsuitable;
use crate::cli::Inject;
use crate::kubernetes::container;
use serde_json::{Value, json};

/// A `ClusterPolicy`. It matches Pods only, when they are created, so that a workload keeps its
/// template.
pub(super) fn policy(options: &Inject) -> Value {
    let mut rules = vec![add_volume(&options.prefix), add_sidecar(options)];
    rules.extend(refusals(&options.prefix));
    for rule in &mut rules {
        rule["match"] = json!({"any": [{"resources": {
            "kinds": ["Pod"],
            "operations": ["CREATE"],
            "selector": {"matchLabels": {format!("{}/inject", options.prefix): "enabled"}},
        }}]});
    }
    let label = Value::from(format!("{}/inject", options.prefix));
    let labels = "object.metadata.labels";
    let is_labeled =
        format!("has({labels}) && {label} in {labels} && {labels}[{label}] == \"enabled\"");
    json!({
        "apiVersion": "kyverno.io/v1",
        "kind": "ClusterPolicy",
        "metadata": {
            "name": format!("{}-inject", options.prefix.replace('/', "-")),
            "annotations": {"pod-policies.kyverno.io/autogen-controllers": "none"},
        },
        "spec": {
            "background": false,
            // A labeled Pod is never created without its sidecar. If Kyverno is down, the API server
            // refuses labeled Pods, but no others.
            "webhookConfiguration": {
                "failurePolicy": "Fail",
                "matchConditions": [{"name": "is-labeled", "expression": is_labeled}],
            },
            "validationFailureAction": "Enforce",
            "rules": rules,
        },
    })
}

/// The rule that adds the sidecar's volume, unless the Pod has one of that name.
fn add_volume(prefix: &str) -> Value {
    let mut conditions = exemptions(prefix);
    conditions.push(condition(HAS_STATE, false));
    json!({
        "name": "add-the-state-volume",
        "preconditions": {"all": conditions},
        "mutate": {"patchStrategicMerge": {"spec": {"volumes": [container::volume()]}}},
    })
}

/// The rule that adds the sidecar.
fn add_sidecar(options: &Inject) -> Value {
    let Inject { image, restart_application, prefix, .. } = options;
    let mut container = container::container(image, *restart_application, "", &[], None);
    let mut fixed = container["env"].take();
    if let Some(variables) = fixed.as_array_mut() {
        variables.retain(|variable| variable["name"] != "BATON_ELECTION");
    }
    container["env"] = variable("environment");
    let flags = container::FLAGS.map(|flag| {
        let default =
            if flag == container::STOPPING_LIMIT { stopping_limit() } else { "''".into() };
        let annotated = annotation(prefix, &format!("config.{flag}"));
        format!("{{name: '{}', value: {annotated} || {default}}}", container::variable(flag))
    });
    json!({
        "name": "add-the-sidecar",
        "context": [
            context("election", &format!("{} || ''", annotation(prefix, "election"))),
            context("flags", &format!("[{}]", flags.join(", "))),
            {"name": "fixed", "variable": {"value": fixed}},
            context(
                "environment",
                "[[{name: 'BATON_ELECTION', value: election}], fixed, flags[?value]][]",
            ),
        ],
        "preconditions": {"all": exemptions(prefix)},
        // New items of a list come first.
        "mutate": {"patchStrategicMerge": {"spec": {"initContainers": [container]}}},
    })
}

/// Conditions that hold for a Pod that gets a sidecar. The others have one, or are refused.
fn exemptions(prefix: &str) -> Vec<Value> {
    let is_unnamed = format!("({} || '') == ''", annotation(prefix, "election"));
    [HAS_SIDECAR, HAS_HOST_NETWORK, HAS_OTHER_STATE, IS_FOR_WINDOWS, &is_unnamed]
        .map(|expression| condition(expression, false))
        .to_vec()
}

/// The rules that refuse a Pod, with the reason. They see the Pod with its sidecar.
fn refusals(prefix: &str) -> Vec<Value> {
    let election = annotation(prefix, "election");
    let config = format!("{prefix}/config.");
    let known = container::FLAGS.map(|flag| format!("'{config}{flag}'")).join(", ");
    let labeled = format!("the Pod is labeled {prefix}/inject=enabled");
    let unsuitable = |reason: Unsuitable| format!("{labeled} but cannot have a sidecar: {reason}");
    let unnamed = format!("!({HAS_SIDECAR}) && ({election} || '') == ''");
    let misnamed = format!(
        "!regex_match('^{LABEL}([.]{LABEL})*$', ({election} || 'none')) \
         || length({election} || 'none') > `253`"
    );
    let unknown = format!(
        "keys(request.object.metadata.annotations || `{{}}`)\
         [?starts_with(@, '{config}') && !contains([{known}], @)]"
    );
    let no_sidecar = format!("!({HAS_SIDECAR})");
    [
        (
            "name-an-election",
            unnamed,
            format!(
                "{labeled}, but no election is named: set the annotation {prefix}/election on the \
                 Pod, or on the Pod template of its workload"
            ),
        ),
        (
            "name-a-lease",
            misnamed,
            format!(
                "the annotation {prefix}/election cannot name a Lease: use lower-case letters, \
                 digits, '-', and '.'"
            ),
        ),
        (
            "set-known-flags",
            format!("length({unknown}) > `0`"),
            format!(
                "no flag can be set by an annotation {config}* of the Pod: use one of {}",
                container::FLAGS.join(", ")
            ),
        ),
        ("use-the-pod-network", HAS_HOST_NETWORK.into(), unsuitable(Unsuitable::HostNetwork)),
        ("keep-the-state-volume", HAS_OTHER_STATE.into(), unsuitable(Unsuitable::StateVolume)),
        ("run-on-linux", IS_FOR_WINDOWS.into(), unsuitable(Unsuitable::Windows)),
        ("mount-the-token", HAS_NO_TOKEN.into(), unsuitable(Unsuitable::NoToken)),
        (
            // Last, since an unsuitable Pod gets no sidecar either.
            "have-the-sidecar",
            no_sidecar,
            format!("{labeled}, but was given no container `{}`", container::NAME),
        ),
    ]
    .map(|(name, applies, message)| {
        let conditions = [condition(&applies, true)];
        json!({
            "name": name,
            "validate": {"message": message, "deny": {"conditions": {"any": conditions}}},
        })
    })
    .to_vec()
}

/// A DNS-1123 label, in RE2.
const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const HAS_SIDECAR: &str = "contains([request.object.spec.initContainers[].name || `[]`, \
                           request.object.spec.containers[].name][], 'baton')";
const HAS_HOST_NETWORK: &str = "request.object.spec.hostNetwork || `false`";
const HAS_STATE: &str = "contains((request.object.spec.volumes[].name || `[]`), 'baton-state')";
/// An empty object counts as false, so this looks for the key.
const HAS_OTHER_STATE: &str = "length((request.object.spec.volumes || `[]`)[?name == 'baton-state' \
                               && !contains(keys(@), 'emptyDir')]) > `0`";
const IS_FOR_WINDOWS: &str = "(request.object.spec.os.name || '') == 'windows' || \
                              (request.object.spec.nodeSelector.\"kubernetes.io/os\" || '') == \
                              'windows'";
/// Whether the API server has mounted no token into the sidecar. It does so for every container,
/// unless the Pod or its account turns that off; a store other than Leases needs none.
const HAS_NO_TOKEN: &str = "length(([request.object.spec.initContainers || `[]`, \
                            request.object.spec.containers][])[?name == 'baton' \
                            && !contains((env[].name || `[]`), 'BATON_BACKEND') \
                            && !contains((volumeMounts[].mountPath || `[]`), \
                            '/var/run/secrets/kubernetes.io/serviceaccount')]) > `0`";

/// The program's default, or longer for a Pod with a longer grace period. After another rule has
/// changed the Pod, Kyverno holds its numbers as integers, which `JMESPath` cannot compare.
fn stopping_limit() -> String {
    let grace = "to_number(to_string(request.object.spec.terminationGracePeriodSeconds || `30`))";
    let longest = container::DEFAULT_STOPPING_SECONDS - container::STOPPING_MARGIN_SECONDS;
    let margin = container::STOPPING_MARGIN_SECONDS;
    format!("({grace} > `{longest}` && join('', [to_string(add({grace}, `{margin}`)), 's'])) || ''")
}

/// The value of an annotation of ours.
fn annotation(prefix: &str, name: &str) -> String {
    let key = Value::from(format!("{prefix}/{name}"));
    format!("request.object.metadata.annotations.{key}")
}

/// A variable of a rule.
fn context(name: &str, expression: &str) -> Value {
    json!({"name": name, "variable": {"jmesPath": expression}})
}

/// The value of a variable or expression, with its own type.
fn variable(expression: &str) -> Value {
    format!("{{{{ {expression} }}}}").into()
}

fn condition(expression: &str, value: bool) -> Value {
    json!({"key": variable(expression), "operator": "Equals", "value": value})
}
