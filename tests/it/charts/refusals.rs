//! Values that the charts refuse before they reach a cluster, and the error messages.
//!
//! The schema checks keys, types, and patterns. The template checks durations against each other,
//! and has to agree with the program.

use super::tools::{Helm, assert_refused, chart, in_repository, rendered};
use std::fs;
use std::process::Command;

/// Durations and a drift, as values of the chart and as flags.
const TIMINGS: [&str; 18] = [
    "",
    "leaseDuration=12s",
    "renewDeadline=12s",
    "leaseDuration=20s,maxClockDrift=20%",
    "leaseDuration=15s,renewDeadline=10s,maxClockDrift=20%",
    "leaseDuration=15001ms,renewDeadline=10s,maxClockDrift=20%",
    "maxClockDrift=0%,leaseDuration=10s",
    "maxClockDrift=0%,leaseDuration=10001ms",
    "maxClockDrift=8.3%",
    "maxClockDrift=99.9%",
    "retryPeriod=8s",
    "leaseDuration=300ms,renewDeadline=200ms,retryPeriod=50ms",
    "leaseDuration=300ms,renewDeadline=199ms,retryPeriod=50ms",
    "leaseDuration=1h30m,renewDeadline=1h,retryPeriod=9ms,answerValidity=1s",
    "answerValidity=0s",
    "answerValidity=6s",
    "answerValidity=5333ms",
    "renewDeadline=99999999s99999999s99999999s99999999s",
];

#[test]
fn charts_and_program_refuse_the_same_timings() {
    let mut refused = 0;
    for timing in TIMINGS {
        let by_program = program_refusal(timing);
        let by_chart = chart_refusal(timing);
        assert_eq!(
            by_chart.is_some(),
            by_program.is_some(),
            "{timing}: {by_chart:?}, {by_program:?}"
        );
        let Some(error) = by_chart else { continue };
        refused += 1;
        let drift = timing.split(',').find(|setting| setting.starts_with("maxClockDrift"));
        let suggested = suggested(&error);
        let suggested = [suggested.as_str()].into_iter().chain(drift).collect::<Vec<_>>().join(",");
        assert_eq!(chart_refusal(&suggested), None, "{timing}");
        assert_eq!(program_refusal(&suggested), None, "{timing}");
    }
    assert_eq!(refused, 10, "some timings pass and some are refused");
}

#[test]
fn unsafe_timing_is_refused_without_any_sidecar() {
    let inequality = "renewDeadline × (1 + maxClockDrift) must be less than \
                      leaseDuration × (1 − maxClockDrift), but 10s × (1 + 10%) is not less than \
                      12s × (1 − 10%)";
    assert_refused(&chart("baton"), "--set=config.leaseDuration=12s", &[inequality]);
}

#[test]
fn too_short_require_polling_is_refused() {
    let error = chart_refusal("requirePolling=3s").unwrap();
    assert!(
        error.contains("at least answerValidity + retryPeriod, but 3s is less than 2s + 2s"),
        "{error}"
    );
    assert_eq!(chart_refusal("requirePolling=4s"), None);
}

#[test]
fn preference_above_the_lease_or_over_zookeeper_is_refused() {
    let error = chart_refusal("standAfter=15001ms").unwrap();
    assert!(error.contains("at most leaseDuration, but 15001ms is more than 15s"), "{error}");
    for setting in ["standAfter=15s", "standAfter=0s", "standAfter=20s,leaseDuration=30s"] {
        assert_eq!(chart_refusal(setting), None, "{setting}");
        assert_eq!(program_refusal(setting), None, "{setting}");
    }
    let over_zookeeper = "--set=elections.orders.serviceAccountName=shop,backend=zookeeper,\
                          zookeeper.servers=zk:2181,config.standAfter=2s";
    assert_refused(&chart("baton"), over_zookeeper, &["config.standAfter", "backend zookeeper"]);
}

#[test]
fn fitness_that_the_program_refuses_is_refused() {
    let url = "fitUrl=http://localhost:8080/fit";
    for (settings, error) in [
        ("fitPeriod=50ms", "config.fitPeriod must be at least 100ms, but is 50ms"),
        ("fitTimeout=3s", "config.fitTimeout must be at most fitPeriod, but 3s is more than 2s"),
        ("fitFailures=1001", "/config/fitFailures"),
    ] {
        let refused = chart_refusal(&format!("{url},{settings}")).unwrap();
        assert!(refused.contains(error), "{refused}");
    }
    for url in ["http://10.0.0.1/", "http://shop:8080/", "https://localhost/"] {
        assert!(chart_refusal(&format!("fitUrl={url}")).unwrap().contains("/config/fitUrl"));
    }
    for url in ["http://127.0.0.1", "http://[::1]:80/fit?deep=1", url.trim_start_matches("fitUrl=")]
    {
        assert_eq!(chart_refusal(&format!("fitUrl={url},fitPeriod=500ms")), None, "{url}");
    }
}

#[test]
fn schema_errors_name_the_value() {
    let refusals = [
        ("--set=demo.enable=true", ["/demo", "enable"]),
        ("--set=imagee.tag=1", ["imagee", "not allowed"]),
        ("--set=image.tags=1", ["/image", "tags"]),
        ("--set=config.leaseduration=15s", ["/config", "leaseduration"]),
        ("--set=config.leaseDuration=15", ["/config/leaseDuration", "string"]),
        ("--set=config.leaseDuration=15 s", ["/config/leaseDuration", "15 s"]),
        ("--set=config.maxClockDrift=100%", ["/config/maxClockDrift", "100%"]),
        ("--set=config.logLevel=loud", ["/config/logLevel", "debug"]),
        ("--set=restartApplication=maybe", ["/restartApplication", "never"]),
        ("--set=kubeVersionOverride=latest", ["/kubeVersionOverride", "latest"]),
        ("--set=image.digest=sha256:1", ["/image/digest", "sha256:1"]),
        ("--set=image.pullPolicy=Sometimes", ["/image/pullPolicy", "IfNotPresent"]),
        ("--set=demo.replicas=0", ["/demo/replicas", "1"]),
        ("--set=elections.Orders.namespace=sales", ["propertyName", "Orders"]),
        ("--set=elections.orders.namespaces=sales", ["/elections/orders", "namespaces"]),
        (
            "--set=elections.orders.serviceAccountName=Shop",
            ["/elections/orders/serviceAccountName", "Shop"],
        ),
        ("--set-json=elections=[\"orders\"]", ["/elections", "object"]),
        ("--set-json=elections={\"orders\":{}}", ["/elections/orders", "serviceAccountName"]),
        ("--set=elections.orders.namespace=a.b", ["/elections/orders/namespace", "a.b"]),
        // A product of such durations overflows.
        ("--set=config.renewDeadline=999999h999999h999999h", ["/config/renewDeadline", "999999h"]),
        ("--set=resources.requests.cpu=lots", ["/resources/requests/cpu", "lots"]),
        ("--set=resources.limits.memory=-1", ["/resources/limits/memory", "-1"]),
        ("--set=image.tag=a b", ["/image/tag", "a b"]),
        ("--set=image.registry=a b", ["/image/registry", "a b"]),
        ("--set=demo.image.repository=", ["/demo/image/repository", "''"]),
        ("--set-json=demo.nodeSelector={\"a\":1}", ["/demo/nodeSelector/a", "string"]),
        (
            "--set-json=demo.ledger.nodeSelector={\"a\":1}",
            ["/demo/ledger/nodeSelector/a", "string"],
        ),
        ("--set-json=demo.tolerations=[1]", ["/demo/tolerations/0", "object"]),
    ];
    for (setting, words) in refusals {
        assert_refused(&chart("baton"), setting, &words);
    }
}

#[test]
fn explicit_restart_values_override_the_version() {
    let has_restart_rules = |settings: &[&str]| {
        let objects = rendered(&[&["--set=demo.enabled=true"], settings].concat());
        let text = serde_json::to_string(&objects).unwrap();
        assert_ne!(
            text.contains("restartPolicyRules"),
            text.contains("BATON_ON_LOST"),
            "exactly one of both: {text}"
        );
        text.contains("restartPolicyRules")
    };
    assert!(!has_restart_rules(&["--kube-version=v1.35.9"]));
    assert!(has_restart_rules(&["--kube-version=v1.36.0"]));
    assert!(
        has_restart_rules(&["--kube-version=v1.36.0-eks-4a8c2f"]),
        "a vendor's suffix is no pre-release"
    );
    assert!(has_restart_rules(&["--kube-version=v1.35.9", "--set=kubeVersionOverride=1.36"]));
    assert!(!has_restart_rules(&[
        "--kube-version=v1.36.0",
        "--set=kubeVersionOverride=v1.35.4-gke.100"
    ]));
    assert!(has_restart_rules(&["--kube-version=v1.35.9", "--set=restartApplication=always"]));
    assert!(!has_restart_rules(&["--kube-version=v1.36.0", "--set=restartApplication=never"]));
    assert_refused(&chart("baton"), "--kube-version=v1.28.9", &[">=1.29.0-0"]);
}

#[test]
fn guides_name_helms_flag_for_the_version() {
    for file in [
        "docs/guides/helm.md",
        "charts/baton-sidecar/README.md",
        "charts/baton/values.yaml",
        "charts/baton-sidecar/values.yaml",
    ] {
        let text = fs::read_to_string(in_repository(file)).unwrap();
        assert!(text.contains("kubeVersionOverride") && text.contains("--kube-version"), "{file}");
    }
}

/// The chart's error for the settings `a=1s,b=2s` of `config`, if it refuses them.
fn chart_refusal(config: &str) -> Option<String> {
    let settings: Vec<_> = config.split(',').filter(|setting| !setting.is_empty()).collect();
    let settings: Vec<_> =
        settings.iter().map(|setting| format!("--set-string=config.{setting}")).collect();
    let settings: Vec<_> = settings.iter().map(String::as_str).collect();
    Helm::Four.template(&chart("baton"), &settings).err()
}

/// Durations that pass, as `leaseDuration=15s,…`: the output of the command in the chart's refusal.
pub(super) fn suggested(error: &str) -> String {
    let command = error.split("run: baton ").nth(1).unwrap().lines().next().unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_baton"));
    let output = program.env_clear().args(command.split(' ')).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    let keys = ["leaseDuration", "renewDeadline", "retryPeriod", "answerValidity"];
    let durations = keys.map(|key| {
        let flag = format!("--{}=", kebab(key));
        let value = errors.split(&flag).nth(1).unwrap_or_else(|| panic!("no {flag} in {errors}"));
        format!("{key}={}", value.split_whitespace().next().unwrap())
    });
    durations.join(",")
}

/// The error of `baton check-config` for the same settings, if it refuses them.
fn program_refusal(config: &str) -> Option<String> {
    let mut program = Command::new(env!("CARGO_BIN_EXE_baton"));
    program.env_clear().args(["check-config", "--election=orders", "--backend=lease"]);
    for (key, value) in config.split(',').filter_map(|setting| setting.split_once('=')) {
        program.arg(format!("--{}={value}", kebab(key)));
    }
    let output = program.output().unwrap();
    (!output.status.success()).then(|| String::from_utf8(output.stderr).unwrap())
}

/// Converts `leaseDuration` to the flag's spelling, `lease-duration`.
pub(super) fn kebab(camel: &str) -> String {
    camel
        .chars()
        .flat_map(|c| c.is_uppercase().then_some('-').into_iter().chain(c.to_lowercase()))
        .collect()
}
