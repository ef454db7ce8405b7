//! The sidecar's configuration and rights in the chart, compared with the program.

use super::tools::{chart, find, objects, objects_in, rendered, sidecar};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

/// Flags without a setting in `config`: the chart sets them itself, a Pod does not need them, ports
/// or volumes depend on them, or they are under `etcd` or `zookeeper`.
const OTHER_FLAGS: [&str; 26] = [
    "backend",
    "context",
    "directory",
    "election",
    "endpoint-addresses",
    "identity-prefix",
    "kubeconfig",
    "listen",
    "namespace",
    "on-lost",
    "probe-listen",
    "state-directory",
    "status-file",
    "etcd-ca-file",
    "etcd-cert-file",
    "etcd-endpoints",
    "etcd-key-file",
    "etcd-prefix",
    "etcd-user-file",
    "zookeeper-auth-file",
    "zookeeper-ca-file",
    "zookeeper-cert-file",
    "zookeeper-key-file",
    "zookeeper-path",
    "zookeeper-servers",
    "zookeeper-tick-time",
];

#[test]
fn chart_settings_are_the_programs_flags() {
    let schema: Value = serde_json::from_slice(
        &fs::read(chart("baton-sidecar").join("values.schema.json")).unwrap(),
    )
    .unwrap();
    let settings = schema["definitions"]["config"]["properties"].as_object().unwrap().keys();
    let settings: BTreeSet<_> = settings.map(|key| variable(key)).collect();
    let help = baton(&["run", "--help"], &BTreeMap::new()).1;
    let flags = regex::Regex::new(r"env: (BATON_[A-Z_]+)=").unwrap();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let others: BTreeSet<_> = OTHER_FLAGS
        .iter()
        .map(|flag| format!("BATON_{}", flag.replace('-', "_").to_uppercase()))
        .collect();
    let flags: BTreeSet<_> = flags.captures_iter(&help).map(|found| found[1].to_owned()).collect();
    assert_eq!(settings, &flags - &others);
    let annotated = baton::kubernetes::container::FLAGS
        .map(|flag| format!("BATON_{}", flag.replace('-', "_").to_uppercase()));
    assert_eq!(settings, BTreeSet::from(annotated), "annotations set the same flags");
    let policy = serde_json::to_string(&rendered(&["--set=injection.enabled=true"])).unwrap();
    let annotations =
        baton::kubernetes::container::FLAGS.map(|flag| format!("\\\"baton/config.{flag}\\\""));
    assert!(
        annotations.iter().all(|annotation| policy.matches(annotation.as_str()).count() == 2),
        "an annotation is not in both policies: {policy}"
    );
    assert!(others.is_subset(&flags));
}

#[test]
fn program_accepts_the_charts_environment() {
    let config = "config.leaseDuration=30s,config.renewDeadline=20s,config.retryPeriod=4s,\
                  config.answerValidity=3s,config.maxClockDrift=5%,config.requirePolling=1m,\
                  config.logFormat=text,config.logLevel=debug";
    let settings = format!("--set=demo.enabled=true,restartApplication=never,{config}");
    let environment =
        environment(sidecar(find(&rendered(&[&settings]), "Deployment", "test-baton-demo")));
    let (is_valid, drawing) = baton(&["check-config"], &environment);
    assert!(is_valid, "{drawing}");
    for word in
        ["election test-baton-demo in lease", "30s", "is good for 3s", "by 5%", "--on-lost=stay"]
    {
        assert!(drawing.contains(word), "{word} is not in {drawing}");
    }
    assert_eq!(environment["BATON_REQUIRE_POLLING"], "1m");
    assert_eq!(environment["BATON_LOG_FORMAT"], "text");
}

#[test]
fn chart_has_the_programs_defaults() {
    let environment = environment(sidecar(find(
        &rendered(&["--set=demo.enabled=true"]),
        "Deployment",
        "test-baton-demo",
    )));
    let names: Vec<_> = environment.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "BATON_ELECTION",
            "BATON_STATE_DIRECTORY",
            "KUBERNETES_SERVICE_HOST",
            "POD_IPS",
            "POD_NAME",
            "POD_NAMESPACE"
        ]
    );
    let (is_valid, drawing) = baton(&["check-config"], &environment);
    assert!(
        is_valid && drawing.contains("2s           8s           10s          15s"),
        "{drawing}"
    );
}

/// Where containers share their processes, those of one user can signal each other.
#[test]
fn sidecar_has_a_user_of_its_own() {
    let objects = rendered(&["--set=demo.enabled=true"]);
    let workload = find(&objects, "Deployment", "test-baton-demo");
    let user = &sidecar(workload)["securityContext"]["runAsUser"];
    let application = &workload["spec"]["template"]["spec"]["containers"][0];
    assert_ne!(user, &application["securityContext"]["runAsUser"]);
    for common in [1000, 1001, 65532, 65534] {
        assert_ne!(user, common);
    }
}

#[test]
fn sidecar_command_matches_the_image() {
    let objects = rendered(&["--set=demo.enabled=true"]);
    let sidecar = sidecar(find(&objects, "Deployment", "test-baton-demo"));
    let dockerfile = fs::read_to_string(chart("..").join("Dockerfile")).unwrap();
    assert!(dockerfile.contains("ENTRYPOINT [\"/baton\"]"), "{dockerfile}");
    let user = &sidecar["securityContext"]["runAsUser"];
    assert!(dockerfile.contains(&format!("USER {user}:{user}\nENTRYPOINT [\"/baton\"]")), "{user}");
    assert_eq!(&sidecar["securityContext"]["runAsGroup"], user);
    assert_eq!(sidecar["lifecycle"]["preStop"]["exec"]["command"], json!(["/baton", "stopping"]));
    assert!(baton(&["stopping", "--help"], &BTreeMap::new()).0);
    for unwanted in ["command", "args", "livenessProbe", "readinessProbe", "startupProbe"] {
        assert!(sidecar.get(unwanted).is_none(), "{unwanted}");
    }
    assert!(sidecar["resources"]["limits"].get("cpu").is_none(), "a throttled sidecar renews late");
}

#[test]
fn restart_rule_spares_exit_codes_of_sidecars_that_never_led() {
    use baton::process::exit::Exit;
    let objects = rendered(&["--set=demo.enabled=true", "--kube-version=1.36.0"]);
    let rule = &sidecar(find(&objects, "Deployment", "test-baton-demo"))["restartPolicyRules"];
    let never_led = [Exit::Clean, Exit::Usage, Exit::Fault, Exit::Refused].map(Exit::code);
    let codes = json!({"operator": "NotIn", "values": never_led});
    assert_eq!(rule, &json!([{"action": "RestartAllContainers", "exitCodes": codes}]));
}

#[test]
fn chart_grants_the_rights_that_baton_rbac_prints() {
    let settings =
        "--set=elections.orders.namespace=sales,elections.orders.serviceAccountName=shop";
    let rendered = rendered(&[
        settings,
        "--set=elections.reports.serviceAccountName=auditor",
        "--set=elections.reports.leaseEvents=true",
        "--set=demo.enabled=true",
    ]);
    let elections = [
        ("orders", "shop", "sales"),
        ("reports", "auditor", "tests"),
        ("test-baton-demo", "test-baton-demo", "tests"),
    ];
    for (election, account, namespace) in elections {
        let mut arguments = vec![
            "rbac",
            "--election",
            election,
            "--service-account",
            account,
            "--namespace",
            namespace,
        ];
        arguments.extend((election == "reports").then_some("--events"));
        let printed = objects(&baton(&arguments, &BTreeMap::new()).1);
        assert_eq!(printed.len(), 2);
        for expected in printed {
            let mut granted = find(&rendered, expected["kind"].as_str().unwrap(), election).clone();
            granted["metadata"].as_object_mut().unwrap().remove("labels");
            assert_eq!(granted, expected);
        }
    }
    let roles = rendered.iter().filter(|object| object["kind"].as_str().unwrap().contains("Role"));
    assert_eq!(roles.count(), 2 * elections.len());
}

#[test]
fn manifests_grant_the_rights_that_baton_rbac_prints() {
    let printed = objects(
        &baton(&["rbac", "--election", "orders", "--service-account", "orders"], &BTreeMap::new())
            .1,
    );
    for file in ["manifests/plain.yaml", "manifests/example/rights.yaml"] {
        let mut granted = objects_in(file);
        granted.retain(|object| object["kind"].as_str().unwrap().starts_with("Role"));
        assert_eq!(granted, printed, "{file}");
    }
}

#[test]
fn helm_test_expects_the_number_of_replicas() {
    let objects = rendered(&["--set=demo.enabled=true,demo.replicas=5"]);
    let arguments = &find(&objects, "Pod", "test-baton-demo-test")["spec"]["containers"][0]["args"];
    assert!(arguments.to_string().contains(r#""--count","5""#), "{arguments}");
}

/// The container's environment, with the variable that kubelet adds.
pub(super) fn environment(container: &Value) -> BTreeMap<String, String> {
    let mut environment =
        BTreeMap::from([("KUBERNETES_SERVICE_HOST".to_owned(), "10.0.0.1".to_owned())]);
    for variable in container["env"].as_array().unwrap() {
        let field = variable["valueFrom"]["fieldRef"]["fieldPath"].as_str();
        let value = variable["value"]
            .as_str()
            .or(field)
            .unwrap_or_else(|| panic!("{variable} has neither a value nor a field"));
        let previous =
            environment.insert(variable["name"].as_str().unwrap().to_owned(), value.to_owned());
        assert_eq!(previous, None, "{variable} is set twice");
    }
    environment
}

/// Runs the program: whether it succeeded, and its stdout and stderr.
pub(super) fn baton(arguments: &[&str], environment: &BTreeMap<String, String>) -> (bool, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_baton"));
    let output = program.env_clear().envs(environment).args(arguments).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

/// Converts `leaseDuration` to the variable's spelling, `BATON_LEASE_DURATION`.
fn variable(camel: &str) -> String {
    let spelled = camel
        .chars()
        .flat_map(|c| c.is_uppercase().then_some('_').into_iter().chain(c.to_uppercase()));
    format!("BATON_{}", spelled.collect::<String>())
}
