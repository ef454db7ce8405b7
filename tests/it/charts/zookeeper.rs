//! Elections over ZooKeeper instead of a Lease: how Pods reach the servers, and which values
//! conflict.

use super::server::dry_run;
use super::sidecar::{baton, environment};
use super::tools::{Helm, assert_refused, chart, find, rendered, sidecar};
use crate::rig::ApiServer;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

/// An ensemble with every setting.
pub(super) const ENSEMBLE: &str = "--set=backend=zookeeper,\
    zookeeper.servers=zk-0.zk:2281\\,zk-1.zk:2281/apps,zookeeper.path=/shop/orders,\
    zookeeper.tickTime=1s,zookeeper.authSecret=shop-zookeeper,\
    zookeeper.caSecret=zookeeper-ca,zookeeper.certificateSecret=shop-tls";

/// An ensemble without credentials and TLS.
const OPEN: &str = "--set=backend=zookeeper,zookeeper.servers=zk:2181";

const DEMO: &str = "--set=demo.enabled=true";

#[test]
fn program_accepts_the_ensemble_and_the_mounted_files() {
    let objects = rendered(&[DEMO, ENSEMBLE]);
    let deployment = find(&objects, "Deployment", "test-baton-demo");
    let environment = environment(sidecar(deployment));
    let (is_valid, drawing) = check_config(&environment);
    assert!(is_valid, "{drawing}");
    assert!(drawing.contains("election test-baton-demo in zookeeper"), "{drawing}");
    let values = ["SERVERS", "PATH", "TICK_TIME"]
        .map(|flag| environment[&format!("BATON_ZOOKEEPER_{flag}")].as_str());
    assert_eq!(values, ["zk-0.zk:2281,zk-1.zk:2281/apps", "/shop/orders", "1s"]);
    let help = baton(&["run", "--help"], &BTreeMap::new()).1;
    let flags = regex::Regex::new("BATON_ZOOKEEPER_[A-Z_]+").unwrap();
    let flags: BTreeSet<_> = flags.find_iter(&help).map(|flag| flag.as_str()).collect();
    let variables: BTreeSet<_> =
        environment.keys().map(String::as_str).filter(|name| name.contains("ZOOKEEPER")).collect();
    assert_eq!(variables, flags, "every flag has a value");

    let mounts = sidecar(deployment)["volumeMounts"].as_array().unwrap();
    let folder = "/etc/baton/zookeeper";
    assert_eq!(
        mounts[1],
        json!({"name": "baton-zookeeper", "mountPath": folder, "readOnly": true})
    );
    let volume = &deployment["spec"]["template"]["spec"]["volumes"][1];
    assert_eq!(volume["name"], "baton-zookeeper");
    let mut secrets = BTreeMap::new();
    for source in volume["projected"]["sources"].as_array().unwrap() {
        for item in source["secret"]["items"].as_array().unwrap() {
            secrets.insert(
                format!("{folder}/{}", item["path"].as_str().unwrap()),
                &source["secret"]["name"],
            );
        }
    }
    let named = |flag: &str| secrets[&environment[&format!("BATON_ZOOKEEPER_{flag}_FILE")]];
    assert_eq!(
        ["AUTH", "CA", "CERT", "KEY"].map(named),
        ["shop-zookeeper", "zookeeper-ca", "shop-tls", "shop-tls"]
    );
    assert_eq!(secrets.len(), 4);
}

/// Runs `check-config` in this environment, with a file for each variable that names one.
fn check_config(environment: &BTreeMap<String, String>) -> (bool, String) {
    let folder = TempDir::new().unwrap();
    let mut mounted = environment.clone();
    for (name, path) in mounted.iter_mut().filter(|(name, _)| name.ends_with("_FILE")) {
        let file = folder.path().join(name);
        fs::write(&file, "mounted").unwrap();
        *path = file.display().to_string();
    }
    baton(&["check-config"], &mounted)
}

#[test]
fn no_rights_are_granted_and_no_token_is_mounted() {
    for ensemble in [ENSEMBLE, OPEN] {
        let objects = rendered(&[DEMO, ensemble]);
        let kinds: BTreeSet<_> =
            objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, BTreeSet::from(["Deployment", "Pod", "Service"]), "with {ensemble}");
        for name in ["test-baton-demo", "test-baton-demo-ledger"] {
            let pod = &find(&objects, "Deployment", name)["spec"]["template"]["spec"];
            assert_eq!(
                (&pod["automountServiceAccountToken"], &pod["serviceAccountName"]),
                (&json!(false), &Value::Null)
            );
        }
    }
    // The rights of other elections do not depend on the demo's store.
    find(&rendered(&[OPEN, "--set=elections.orders.serviceAccountName=shop"]), "Role", "orders");
}

#[test]
fn container_differs_from_a_lease_only_in_zookeeper_settings() {
    let container = |settings: &[&str]| {
        let objects = rendered(settings);
        let mut container = sidecar(find(&objects, "Deployment", "test-baton-demo")).clone();
        for list in ["env", "volumeMounts"] {
            let items = container[list].as_array_mut().unwrap();
            items.retain(|item| {
                let name = item["name"].as_str().unwrap().to_lowercase();
                !name.contains("zookeeper") && name != "baton_backend"
            });
        }
        container
    };
    assert_eq!(container(&[DEMO, ENSEMBLE]), container(&[DEMO]));
    let open = rendered(&[DEMO, OPEN]);
    let pod = &find(&open, "Deployment", "test-baton-demo")["spec"]["template"]["spec"];
    assert_eq!(
        pod["volumes"].as_array().unwrap().len(),
        1,
        "without secrets, only the state directory is mounted"
    );
    assert_eq!(pod["initContainers"][0]["volumeMounts"].as_array().unwrap().len(), 1);
}

#[test]
fn library_chart_supports_an_ensemble() {
    let folder = TempDir::new().unwrap();
    fs::create_dir_all(folder.path().join("charts")).unwrap();
    fs::create_dir_all(folder.path().join("templates")).unwrap();
    symlink(chart("baton-sidecar"), folder.path().join("charts/baton-sidecar")).unwrap();
    let dependency =
        "dependencies:\n  - name: baton-sidecar\n    alias: baton\n    version: 0.1.0\n";
    fs::write(
        folder.path().join("Chart.yaml"),
        format!("apiVersion: v2\nname: shop\nversion: 1.0.0\n{dependency}"),
    )
    .unwrap();
    let pod = "kind: Pod\nmetadata:\n  name: shop\nspec:\n  \
               {{- include \"baton-sidecar.pod\" (list . .Values.baton) | nindent 2 }}\n\
               ---\n{{ include \"baton-sidecar.rbac\" (list . .Values.baton) }}\n";
    fs::write(folder.path().join("templates/pod.yaml"), pod).unwrap();
    let readme = fs::read_to_string(chart("baton-sidecar").join("README.md")).unwrap();
    let values = readme
        .split("```yaml\n# values.yaml, over ZooKeeper\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    fs::write(folder.path().join("values.yaml"), values).unwrap();
    for helm in Helm::BOTH {
        let rendered = helm.template(folder.path(), &["--set=baton.suffix=two"]).unwrap();
        assert_eq!(rendered.len(), 1, "{helm:?} rendered rights: {rendered:#?}");
        let pod = &find(&rendered, "Pod", "shop")["spec"];
        let volumes: Vec<_> =
            pod["volumes"].as_array().unwrap().iter().map(|volume| &volume["name"]).collect();
        assert_eq!(volumes, ["baton-state-two", "baton-zookeeper-two"]);
        assert_eq!(pod["initContainers"][0]["volumeMounts"][1]["name"], "baton-zookeeper-two");
        let (is_valid, output) = check_config(&environment(&pod["initContainers"][0]));
        assert!(is_valid, "{output}");
    }
    assert_refused(
        folder.path(),
        "--set=baton.backend=lease",
        &["zookeeper.", "is set, but backend is lease"],
    );
}

#[test]
fn restricted_namespace_accepts_the_demo() {
    let namespace = ApiServer::shared().namespace();
    namespace.restrict();
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    super::server::create(&namespace.admin, &namespace.name, &account).unwrap();
    let in_namespace = format!("--namespace={}", namespace.name);
    for object in rendered(&[DEMO, ENSEMBLE, &in_namespace]) {
        let admitted = dry_run(&namespace.admin, &namespace.name, &object);
        assert!(admitted.is_ok(), "{admitted:?} for {object:#}");
        if object["kind"] == "Deployment" {
            let admitted = dry_run(&namespace.admin, &namespace.name, &super::server::pod(&object));
            assert!(admitted.is_ok(), "{admitted:?} for a Pod of {object:#}");
        }
    }
}

#[test]
fn conflicting_values_are_refused_with_a_remedy() {
    let refusals = [
        ("--set=backend=zookeeper", ["no server is named", "set zookeeper.servers"]),
        (
            "--set=zookeeper.servers=zk:2181",
            ["zookeeper.servers is set, but backend is lease", "set backend to zookeeper"],
        ),
        (
            "--set=zookeeper.authSecret=shop",
            ["zookeeper.authSecret is set, but backend is lease", "set backend to zookeeper"],
        ),
        (
            &format!("{OPEN},zookeeper.certificateSecret=tls"),
            ["needs zookeeper.caSecret", "turns TLS on"],
        ),
        (
            &format!("{OPEN},injection.enabled=true"),
            ["injection.enabled works with Leases only", "chart baton-sidecar"],
        ),
        ("--set=backend=file", ["/backend", "zookeeper"]),
        (
            "--set=backend=zookeeper,zookeeper.servers=zk:2181 zk:2182",
            ["/zookeeper/servers", "zk:2182"],
        ),
        (&format!("{OPEN},zookeeper.path=shop"), ["/zookeeper/path", "shop"]),
        (&format!("{OPEN},zookeeper.tickTime=2 s"), ["/zookeeper/tickTime", "2 s"]),
        (&format!("{OPEN},zookeeper.authSecret=Shop"), ["/zookeeper/authSecret", "Shop"]),
        (&format!("{OPEN},zookeeper.keySecret=shop"), ["/zookeeper", "keySecret"]),
    ];
    for (setting, words) in refusals {
        assert_refused(&chart("baton"), setting, &words);
    }
}

/// Durations, a drift, and a tick, as values of the chart and as flags. A tick comes first.
const TIMINGS: [&str; 11] = [
    "",
    "leaseDuration=12s,renewDeadline=8s",
    "leaseDuration=4s,renewDeadline=2s,retryPeriod=1s",
    "leaseDuration=4s,renewDeadline=3s,retryPeriod=500ms",
    "tickTime=10s",
    "tickTime=5s,leaseDuration=10s,renewDeadline=7s,retryPeriod=1s",
    "tickTime=500ms,leaseDuration=2s,renewDeadline=1s,retryPeriod=200ms",
    "leaseDuration=30s,renewDeadline=20s,maxClockDrift=30%",
    "leaseDuration=1s,renewDeadline=700ms,retryPeriod=100ms,maxClockDrift=5%",
    "tickTime=1h",
    // Refused only because the drift stretches the lag.
    "leaseDuration=3s,renewDeadline=800ms,retryPeriod=200ms",
];

#[test]
fn charts_and_program_refuse_the_same_session_timings() {
    let mut refused = 0;
    for timing in TIMINGS {
        let [by_chart, by_program] = [chart_refusal(timing), program_refusal(timing)];
        assert_eq!(
            by_chart.is_some(),
            by_program.is_some(),
            "{timing}: {by_chart:?}, {by_program:?}"
        );
        let Some(error) = by_chart else { continue };
        refused += 1;
        let suggested = super::refusals::suggested(&error);
        let kept = timing.split(',').filter(|setting| {
            ["tickTime", "maxClockDrift"].iter().any(|key| setting.starts_with(key))
        });
        let suggested = kept.chain([suggested.as_str()]).collect::<Vec<_>>().join(",");
        assert_eq!(chart_refusal(&suggested), None, "{timing}");
        assert_eq!(program_refusal(&suggested), None, "{timing}");
    }
    assert_eq!(refused, 6, "some timings pass and some are refused");
}

/// The chart's error for a timing, if it refuses it.
fn chart_refusal(timing: &str) -> Option<String> {
    let settings = pairs(timing).map(|(key, value)| {
        let under = if key == "tickTime" { "zookeeper" } else { "config" };
        format!("--set={under}.{key}={value}")
    });
    let settings: Vec<_> = settings.collect();
    let settings: Vec<_> = [OPEN].into_iter().chain(settings.iter().map(String::as_str)).collect();
    Helm::Four.template(&chart("baton"), &settings).err()
}

/// The program's error for the same timing, if it refuses it.
fn program_refusal(timing: &str) -> Option<String> {
    let mut flags = vec![
        "check-config".to_owned(),
        "--election=orders".to_owned(),
        "--backend=zookeeper".to_owned(),
    ];
    flags.push("--zookeeper-servers=zk:2181".to_owned());
    flags.extend(pairs(timing).map(|(key, value)| {
        let flag = if key == "tickTime" {
            "zookeeper-tick-time".to_owned()
        } else {
            super::refusals::kebab(key)
        };
        format!("--{flag}={value}")
    }));
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let (is_valid, output) = baton(&flags, &BTreeMap::new());
    (!is_valid).then_some(output)
}

fn pairs(timing: &str) -> impl Iterator<Item = (&str, &str)> {
    timing.split(',').filter_map(|setting| setting.split_once('='))
}
