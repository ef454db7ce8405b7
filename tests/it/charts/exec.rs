//! Pods whose application runs by `baton exec`: the Pod template of the library's README, verbatim,
//! and as `baton-sidecar.exec` renders it.

use super::application::{Application, library_readme};
use super::schemas::{RELEASES, schemas};
use super::server::{create, dry_run, pod};
use super::sidecar::{baton, environment};
use super::tools::{Helm, assert_refused, conform, find, sidecar};
use crate::rig::ApiServer;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const DEPLOYMENT: &str = "templates/deployment.yaml";
const README: &str = "templates/deployment.yaml, with baton exec";

/// The application chart of the README with `baton exec`, and `replaced` text in its deployment.
pub(super) fn application(replaced: &[(&str, &str)]) -> Application {
    let application = Application::new("");
    let mut deployment = library_readme(README);
    for (old, new) in replaced {
        assert_eq!(deployment.matches(old).count(), 1, "{old}");
        deployment = deployment.replace(old, new);
    }
    application.write(DEPLOYMENT, &deployment);
    application.build();
    application
}

/// The Deployment with these settings, by both versions of Helm.
fn rendered(application: &Application, settings: &[&str]) -> Value {
    let [three, four] = Helm::BOTH.map(|helm| {
        let objects = helm.template(&application.chart(), settings);
        let objects = objects.unwrap_or_else(|error| panic!("{helm:?} with {settings:?}: {error}"));
        find(&objects, "Deployment", "shop").clone()
    });
    assert_eq!(three, four);
    four
}

fn spec(deployment: &Value) -> &Value {
    &deployment["spec"]["template"]["spec"]
}

fn names(items: &Value) -> Vec<&str> {
    let items = items.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().map(|item| item["name"].as_str().unwrap()).collect()
}

#[test]
fn init_container_installs_the_program_that_runs_the_command() {
    let deployment = rendered(&application(&[]), &[]);
    let spec = spec(&deployment);
    let (install, container) = (&spec["initContainers"][0], &spec["containers"][0]);
    assert_eq!(install["args"], json!(["install", "/opt/baton"]));
    assert_eq!(install.get("restartPolicy"), None, "it is no sidecar");
    assert!(baton(&["install", "--help"], &BTreeMap::new()).0);
    assert_eq!(
        container["command"],
        json!(["/opt/baton/baton", "exec", "--", "/usr/local/bin/send-invoices"])
    );
    let mounts = &container["volumeMounts"];
    assert_eq!(names(mounts), ["baton-state", "baton-bin"]);
    assert_eq!(mounts[1]["mountPath"], install["volumeMounts"][0]["mountPath"]);
    assert_eq!(names(&spec["volumes"]), ["baton-state", "baton-bin"]);
    assert_eq!(spec["serviceAccountName"], "orders");
}

#[test]
fn own_image_needs_neither_init_container_nor_volume() {
    let path = "--set=baton.exec.path=/usr/local/bin/baton";
    let deployment = rendered(&application(&[]), &[path]);
    let spec = spec(&deployment);
    assert_eq!(spec.get("initContainers"), None);
    assert_eq!(spec["containers"][0]["command"][0], "/usr/local/bin/baton");
    assert_eq!(names(&spec["containers"][0]["volumeMounts"]), ["baton-state"]);
    assert_eq!(names(&spec["volumes"]), ["baton-state"]);
}

#[test]
fn probes_of_baton_replace_those_of_the_application() {
    let probes = "      startupProbe:\n        tcpSocket: {port: 8080}\n      \
                  readinessProbe:\n        exec: {command: [\"true\"]}\n      livenessProbe:";
    let application = application(&[("      livenessProbe:", probes)]);
    for (settings, port) in [(&[][..], 4041), (&["--set=baton.port=4050"][..], 4051)] {
        let deployment = rendered(&application, settings);
        let container = &spec(&deployment)["containers"][0];
        let probe = |path: &str| json!({"httpGet": {"path": path, "port": port}});
        assert_eq!(container["livenessProbe"], probe("/healthz"));
        assert_eq!(container["readinessProbe"], probe("/readyz"));
        assert_eq!(container.get("startupProbe"), None, "a follower runs no application");
        assert_eq!(container["ports"][0]["containerPort"], port);
    }
}

#[test]
fn rest_of_the_template_is_kept() {
    let own = "      env:\n        - {name: POD_NAME, value: mine}\n        \
               - {name: COLOR, value: blue}\n      ports:\n        - {containerPort: 8080}\n      \
               volumeMounts:\n        - {name: data, mountPath: /data}\n      livenessProbe:";
    let around = "spec:\n  terminationGracePeriodSeconds: 3600\n  securityContext:\n    \
                  runAsUser: 1000650000\n  serviceAccountName: mine\n  initContainers:\n    \
                  - name: migrate\n      image: shop\n  volumes:\n    - {name: data, emptyDir: {}}\n  \
                  containers:\n    - name: proxy\n      image: proxy\n";
    let replaced = [("      livenessProbe:", own), ("spec:\n  containers:\n", around)];
    let deployment = rendered(&application(&replaced), &["--set=baton.exec.container=application"]);
    let spec = spec(&deployment);
    assert_eq!(spec["containers"][0], json!({"name": "proxy", "image": "proxy"}));
    assert_eq!(names(&spec["initContainers"]), ["baton-install", "migrate"]);
    assert_eq!(names(&spec["volumes"]), ["baton-state", "baton-bin", "data"]);
    assert_eq!(spec["securityContext"]["runAsUser"], 1_000_650_000);
    assert_eq!(spec["serviceAccountName"], "mine");
    let container = &spec["containers"][1];
    assert_eq!(names(&container["volumeMounts"]), ["baton-state", "baton-bin", "data"]);
    assert_eq!(container["ports"][1]["containerPort"], 8080);
    let environment = environment(container);
    assert_eq!((&*environment["POD_NAME"], &*environment["COLOR"]), ("mine", "blue"));
}

#[test]
fn program_accepts_the_environment_with_a_command() {
    let settings = "--set=baton.exec.killAfter=3s,baton.exec.stopTimeout=5s,baton.exec.nice=0,\
                    baton.config.leaseDuration=30s,baton.config.renewDeadline=20s";
    let application = application(&[]);
    for settings in [&[][..], &[settings]] {
        let deployment = rendered(&application, settings);
        let mut environment = environment(&spec(&deployment)["containers"][0]);
        assert!(baton(&["check-config"], &environment).0);
        // Flags of `baton exec` alone are checked at its start: an error in one more flag stops it.
        environment.insert("BATON_NICE".to_owned(), "20".to_owned());
        let (is_valid, errors) = baton(&["exec", "--", "true"], &environment);
        assert!(!is_valid && errors.contains("--nice \"20\""), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}

#[test]
fn unsuitable_templates_and_settings_are_refused() {
    let refused = application(&[]);
    let chart = refused.chart();
    for (setting, words) in [
        ("--set=baton.exec.container=shop", "exec.container is shop, but the Pod has only: app"),
        ("--set=baton.exec.killAfter=400ms", "exec.killAfter must be at least 500ms"),
        ("--set=baton.exec.killAfter=7s", "exec.killAfter + 2 × retryPeriod must be at most"),
        ("--set=baton.exec.stopTimeout=30s", "kubelet kills the Pod after 30s"),
        ("--set=baton.config.requirePolling=1m", "config.requirePolling does nothing"),
        ("--set=baton.config.fitUrl=http://localhost:8080/", "config.fitUrl does not work"),
        ("--set=baton.exec.onLost=weep", "/exec/onLost"),
        ("--set=baton.exec.path=baton", "/exec/path"),
        ("--set=baton.exec.nice=20", "/exec/nice"),
        ("--set=baton.exec.killafter=2s", "killafter"),
    ] {
        assert_refused(&chart, setting, &[words]);
    }
    let command = "      command: [/usr/local/bin/send-invoices]\n";
    let variable = "      env: [{name: BATON_ELECTION, value: bills}]\n      livenessProbe:";
    for (replaced, words) in [
        (("    app: shop\nspec:\n  c", "    baton/inject: enabled\nspec:\n  c"), "baton/inject"),
        ((command, ""), "container application has no command"),
        (("      livenessProbe:", variable), "container application sets BATON_ELECTION"),
        (("  containers:", "  terminationGracePeriodSeconds: 0\n  containers:"), "after 0s"),
        (("  containers:", "  containers"), "the Pod template is not YAML"),
    ] {
        assert_refused(&application(&[replaced]).chart(), "--set=baton.port=4040", &[words]);
    }
}

/// Both compute the longest time between SIGTERM and the end of the claim.
#[test]
fn chart_and_program_accept_the_same_kill_after() {
    let application = application(&[]);
    let zookeeper = "--set=baton.backend=zookeeper,baton.zookeeper.servers=zk:2181,\
                     baton.config.renewDeadline=11s";
    let lease = "--set=baton.backend=lease";
    for (store, milliseconds) in
        [(lease, [499, 500, 6000, 6001]), (zookeeper, [6000, 6272, 6273, 7001])]
    {
        let deployment = rendered(&application, &[store]);
        let mut environment = environment(&spec(&deployment)["containers"][0]);
        // Without this error, the program would start.
        environment.insert("BATON_NICE".to_owned(), "20".to_owned());
        let accepted = milliseconds.map(|milliseconds| {
            let setting = format!("--set=baton.exec.killAfter={milliseconds}ms");
            let by_chart = Helm::Four.template(&application.chart(), &[store, &setting]).is_ok();
            environment.insert("BATON_KILL_AFTER".to_owned(), format!("{milliseconds}ms"));
            let errors = baton(&["exec", "--", "true"], &environment).1;
            let by_program = !errors.contains("--kill-after");
            assert_eq!(by_chart, by_program, "{store} {milliseconds}: {errors}");
            by_chart
        });
        assert!(accepted.contains(&true) && accepted.contains(&false), "{store}: {accepted:?}");
    }
}

#[test]
fn pods_conform_and_are_admitted() {
    let application = application(&[]);
    let deployment = rendered(&application, &[]);
    for release in RELEASES {
        let report = conform(std::slice::from_ref(&deployment), schemas(release).path());
        assert!(report.is_ok(), "{release}: {report:?}");
    }
    let namespace = ApiServer::shared().namespace();
    let objects = application.render();
    create(&namespace.admin, &namespace.name, find(&objects, "ServiceAccount", "orders")).unwrap();
    let admitted = dry_run(&namespace.admin, &namespace.name, &pod(&deployment));
    assert!(admitted.is_ok(), "{admitted:?}");
}

/// A sidecar and `baton exec` have the same variables, besides those of the command.
#[test]
fn candidate_has_the_environment_of_a_sidecar() {
    let in_the_pod = library_readme("templates/deployment.yaml, in the Pod's spec");
    let beside = Application::new(&in_the_pod);
    beside.build();
    let beside = find(&beside.render(), "Deployment", "shop").clone();
    let mut expected = environment(sidecar(&beside));
    for (name, value) in [
        ("BATON_KILL_AFTER", "2s"),
        ("BATON_NICE", "5"),
        ("BATON_ON_LOST", "stay"),
        ("BATON_STOP_TIMEOUT", "20s"),
    ] {
        expected.insert(name.to_owned(), value.to_owned());
    }
    let deployment = rendered(&application(&[]), &[]);
    assert_eq!(environment(&spec(&deployment)["containers"][0]), expected);
}
