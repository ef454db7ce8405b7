//! Elections over etcd instead of a Lease: how Pods reach the members, and which values conflict.

use super::sidecar::{baton, environment};
use super::tools::{assert_refused, chart, find, rendered, sidecar};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use tempfile::TempDir;

/// A cluster with every setting.
const CLUSTER: &str = "--set=backend=etcd,\
    etcd.endpoints=https://etcd-0.etcd:2379\\,https://etcd-1.etcd:2379,etcd.prefix=/shop,\
    etcd.userSecret=shop-etcd,etcd.caSecret=etcd-ca,etcd.certificateSecret=shop-tls";

/// A cluster without users and TLS.
const OPEN: &str = "--set=backend=etcd,etcd.endpoints=http://etcd:2379";

const DEMO: &str = "--set=demo.enabled=true";

#[test]
fn program_accepts_the_cluster_and_the_mounted_files() {
    let objects = rendered(&[DEMO, CLUSTER]);
    let deployment = find(&objects, "Deployment", "test-baton-demo");
    let environment = environment(sidecar(deployment));
    let help = baton(&["run", "--help"], &BTreeMap::new()).1;
    let flags = regex::Regex::new("BATON_ETCD_[A-Z_]+").unwrap();
    let flags: BTreeSet<_> = flags.find_iter(&help).map(|flag| flag.as_str()).collect();
    let variables: BTreeSet<_> =
        environment.keys().map(String::as_str).filter(|name| name.contains("ETCD")).collect();
    assert_eq!(variables, flags, "every flag has a value");
    let (is_valid, drawing) = check_config(&environment);
    assert!(is_valid, "{drawing}");
    assert!(drawing.contains("election test-baton-demo in etcd"), "{drawing}");

    let mount = &sidecar(deployment)["volumeMounts"][1];
    let folder = "/etc/baton/etcd";
    assert_eq!(*mount, json!({"name": "baton-etcd", "mountPath": folder, "readOnly": true}));
    let volume = &deployment["spec"]["template"]["spec"]["volumes"][1];
    assert_eq!(volume["name"], "baton-etcd");
    let mut secrets = BTreeMap::new();
    for source in volume["projected"]["sources"].as_array().unwrap() {
        for item in source["secret"]["items"].as_array().unwrap() {
            let path = format!("{folder}/{}", item["path"].as_str().unwrap());
            secrets.insert(path, &source["secret"]["name"]);
        }
    }
    let named = |flag: &str| secrets[&environment[&format!("BATON_ETCD_{flag}_FILE")]];
    let expected = ["shop-etcd", "etcd-ca", "shop-tls", "shop-tls"];
    assert_eq!(["USER", "CA", "CERT", "KEY"].map(named), expected);
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
    for cluster in [CLUSTER, OPEN] {
        let objects = rendered(&[DEMO, cluster]);
        let kinds: BTreeSet<_> =
            objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, BTreeSet::from(["Deployment", "Pod", "Service"]), "with {cluster}");
        let pod = &find(&objects, "Deployment", "test-baton-demo")["spec"]["template"]["spec"];
        assert_eq!(
            (&pod["automountServiceAccountToken"], &pod["serviceAccountName"]),
            (&json!(false), &Value::Null)
        );
    }
}

#[test]
fn container_differs_from_a_lease_only_in_etcd_settings() {
    let container = |settings: &[&str]| {
        let objects = rendered(settings);
        let mut container = sidecar(find(&objects, "Deployment", "test-baton-demo")).clone();
        for list in ["env", "volumeMounts"] {
            let items = container[list].as_array_mut().unwrap();
            items.retain(|item| {
                let name = item["name"].as_str().unwrap().to_lowercase();
                !name.contains("etcd") && name != "baton_backend"
            });
        }
        container
    };
    assert_eq!(container(&[DEMO, CLUSTER]), container(&[DEMO]));
    assert_eq!(container(&[DEMO, OPEN]), container(&[DEMO]));
}

#[test]
fn conflicting_values_are_refused_with_a_remedy() {
    let refusals = [
        ("--set=backend=etcd", ["no member is named", "set etcd.endpoints"]),
        (
            "--set=etcd.endpoints=http://etcd:2379",
            ["etcd.endpoints is set, but backend is lease", "set backend to etcd"],
        ),
        (
            "--set=backend=zookeeper,zookeeper.servers=zk:2181,etcd.userSecret=shop",
            ["etcd.userSecret is set, but backend is zookeeper", "set backend to etcd"],
        ),
        (
            &format!("{OPEN},zookeeper.servers=zk:2181"),
            ["zookeeper.servers is set, but backend is etcd", "set backend to zookeeper"],
        ),
        (
            "--set=backend=etcd,etcd.endpoints=https://etcd:2379",
            ["need etcd.caSecret", "verify the members' certificates"],
        ),
        (&format!("{OPEN},etcd.caSecret=ca"), ["do nothing with http://", "write https://"]),
        (
            &format!("{OPEN},injection.enabled=true"),
            ["injection.enabled works with Leases only", "chart baton-sidecar"],
        ),
        ("--set=backend=etcd,etcd.endpoints=etcd:2379", ["/etcd/endpoints", "etcd:2379"]),
        (
            "--set=backend=etcd,etcd.endpoints=http://a\\,https://b",
            ["/etcd/endpoints", "https://b"],
        ),
        (&format!("{OPEN},etcd.prefix=/shop/"), ["/etcd/prefix", "/shop/"]),
        (&format!("{OPEN},etcd.userSecret=Shop"), ["/etcd/userSecret", "Shop"]),
    ];
    for (setting, words) in refusals {
        assert_refused(&chart("baton"), setting, &words);
    }
}

#[test]
fn chart_and_program_refuse_the_same_durations() {
    for (values, is_valid) in [
        ("leaseDuration=15s,renewDeadline=10s", true),
        ("leaseDuration=12s,renewDeadline=10s", false),
    ] {
        let settings: Vec<_> = values.split(',').map(|value| format!("config.{value}")).collect();
        let setting = format!("{OPEN},demo.enabled=true,{}", settings.join(","));
        if is_valid {
            rendered(&[&setting]);
        } else {
            assert_refused(&chart("baton"), &setting, &["unsafe timing", "--backend=etcd"]);
        }
    }
}
