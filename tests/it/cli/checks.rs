//! Messages of `check-config`, `help`, and refused command lines.

use super::{baton, run};
use std::fs;
use tempfile::TempDir;

const FILE: [&str; 4] = ["check-config", "--election=orders", "--backend=file", "--directory=/tmp"];
const ZOOKEEPER: [&str; 4] =
    ["check-config", "--election=orders", "--backend=zookeeper", "--zookeeper-servers=zk:2181"];

#[test]
fn check_config_reports_all_missing_files_at_once() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (missing, file) = (path("missing"), path("file"));
    fs::write(&file, "").unwrap();
    for directory in [&missing, &file] {
        let flags = [format!("--directory={directory}"), "--on-lost=weep".to_owned()];
        let (code, drawing, errors) =
            run(baton(&["check-config", "--election=orders", "--backend=file"]).args(flags));
        assert_eq!((code, drawing.as_str()), (2, ""), "{directory}");
        assert!(errors.contains(&format!("--directory {directory:?} cannot be used")), "{errors}");
        assert!(errors.contains("\"weep\""), "{errors}");
        assert_eq!(errors.lines().count(), 2, "{errors}");
    }
    let secrets =
        ["zookeeper-auth-file", "zookeeper-ca-file", "zookeeper-cert-file", "zookeeper-key-file"];
    let (code, _, errors) =
        run(baton(&ZOOKEEPER).args(secrets.map(|flag| format!("--{flag}={missing}"))));
    assert_eq!((code, errors.lines().count()), (2, 4), "{errors}");
    for flag in secrets {
        assert!(errors.contains(&format!("--{flag} {missing:?} cannot be read")), "{errors}");
    }
    let lease = ["check-config", "--election=orders", "--backend=lease"];
    let (code, _, errors) = run(baton(&lease).arg(format!("--kubeconfig={missing}")));
    assert_eq!(code, 2);
    assert!(errors.contains("--kubeconfig") && errors.contains("No such file"), "{errors}");
    assert_eq!(run(baton(&lease).arg(format!("--kubeconfig={file}"))).0, 0);
}

#[test]
fn check_config_refuses_flags_of_another_store() {
    let lease = ["check-config", "--election=orders", "--backend=lease"];
    let (code, _, errors) = run(baton(&lease).args(["--directory=/tmp", "--zookeeper-servers=zk"]));
    assert_eq!((code, errors.lines().count()), (2, 2), "{errors}");
    for named in
        ["--directory does nothing with --backend lease, only with file", "--zookeeper-servers"]
    {
        assert!(errors.contains(named), "{named} is not named in:\n{errors}");
    }
    assert_eq!(run(baton(&FILE).args(["--context=kind", "--namespace=sales"])).0, 2);
    assert_eq!(run(baton(&ZOOKEEPER).arg("--namespace=sales")).0, 0, "it is part of the path");
    assert_eq!(
        run(baton(&FILE).env("BATON_KUBECONFIG", "")).0,
        0,
        "an empty variable sets nothing"
    );
}

#[test]
fn one_folder_for_record_and_state_is_refused() {
    let (code, _, errors) = run(baton(&FILE).arg("--state-directory=/tmp/"));
    assert_eq!((code, errors.lines().count()), (2, 1), "{errors}");
    assert!(errors.contains("choose another --state-directory"), "{errors}");
    assert_eq!(run(baton(&FILE).arg("--state-directory=/tmp/state")).0, 0);
    let lease = ["check-config", "--election=orders", "--backend=lease"];
    assert_eq!(run(baton(&lease).arg("--state-directory=/tmp")).0, 0);
}

#[test]
fn preference_above_the_lease_or_in_a_queue_is_refused() {
    assert_eq!(run(baton(&FILE).arg("--stand-after=15s")).0, 0);
    let (code, _, errors) = run(baton(&FILE).arg("--stand-after=15.5s"));
    assert_eq!((code, errors.lines().count()), (2, 1), "{errors}");
    assert!(errors.contains("pass --stand-after=15s or less"), "{errors}");
    let (code, _, errors) = run(baton(&ZOOKEEPER).arg("--stand-after=1s"));
    assert_eq!((code, errors.lines().count()), (2, 1), "{errors}");
    assert!(errors.contains("remove --stand-after"), "{errors}");
    assert_eq!(run(baton(&ZOOKEEPER).arg("--stand-after=0s")).0, 0);
    assert_eq!(run(baton(&FILE).arg("--stand-after=soon")).0, 2);
}

#[test]
fn every_invalid_setting_about_routing_is_named() {
    let lease = ["check-config", "--election=orders", "--backend=lease"];
    let routed =
        ["--endpoint-slice=orders", "--endpoint-port=8080", "--endpoint-addresses=10.0.0.1"];
    assert_eq!(run(baton(&lease).args(routed)).0, 0);
    let pod = [("POD_IPS", "10.0.0.1,fd00::1"), ("KUBERNETES_SERVICE_HOST", "10.0.0.1")];
    assert_eq!(run(baton(&FILE).args(&routed[..2]).envs(pod)).0, 0, "any store in a Pod");
    for (flags, words) in [
        (&["--endpoint-port=8080"][..], "do nothing without --endpoint-slice"),
        (&["--endpoint-addresses=10.0.0.1"], "do nothing without --endpoint-slice"),
        (&["--endpoint-slice=orders.v2", routed[1], routed[2]], "cannot name a Service"),
        (&[routed[0], routed[2]], "needs the application's port"),
        (&[routed[0], "--endpoint-port=http", routed[2]], "is not a list of ports"),
        (&[routed[0], routed[1]], "set POD_IPS"),
        (&[routed[0], routed[1], "--endpoint-addresses=127.0.0.1"], "that other Pods can reach"),
    ] {
        let (code, _, errors) = run(baton(&lease).args(flags));
        assert_eq!((code, errors.lines().count()), (2, 1), "{flags:?}: {errors}");
        assert!(errors.contains(words), "{flags:?}: {errors}");
    }
    let (code, _, errors) = run(baton(&FILE).args(routed));
    assert_eq!((code, errors.lines().count()), (2, 1), "{errors}");
    assert!(errors.contains("needs Kubernetes"), "{errors}");
}

#[test]
fn every_invalid_setting_about_fitness_is_named() {
    for (flags, words) in [
        (&["--fit-url=http://10.0.0.1/"][..], "an http:// URL of this machine"),
        (&["--fit-url=https://localhost/"], "an http:// URL of this machine"),
        (&["--fit-url=http://localhost:4040/leader"], "the address of --listen"),
        (&["--fit-url=http://[::1]:4041/"], "the address of --probe-listen"),
        (&["--fit-period=1s"], "do nothing without --fit-url"),
        (&["--fit-url=http://localhost:1/", "--fit-failures=0"], "from 1 to 1000"),
        (&["--fit-url=http://localhost:1/", "--fit-timeout=3s"], "pass --fit-timeout=2s or less"),
        (
            &["--fit-url=http://localhost:1/", "--fit-period=10ms", "--fit-timeout=5ms"],
            "pass --fit-period=100ms or more",
        ),
        (&["--fit-url=http://localhost:1/", "--fit-period=soon"], "is not a duration"),
    ] {
        let (code, _, errors) = run(baton(&FILE).args(flags));
        assert_eq!((code, errors.lines().count()), (2, 1), "{flags:?}: {errors}");
        assert!(errors.contains(words), "{flags:?}: {errors}");
    }
    assert_eq!(run(baton(&FILE).arg("--fit-url=http://localhost:8080/fit")).0, 0);
}

#[test]
fn check_config_warns_of_unknown_variables_and_passes() {
    let (code, drawing, errors) =
        run(baton(&FILE).env("BATON_ELECTON", "bills").env("BATON_COLOR", "red"));
    assert_eq!(code, 0);
    assert!(drawing.contains("election orders"), "{drawing}");
    let warnings: Vec<_> = errors.lines().collect();
    let expected = [
        "baton: warning: BATON_COLOR sets no flag",
        "baton: warning: BATON_ELECTON sets no flag: did you mean BATON_ELECTION?",
    ];
    assert_eq!(warnings, expected);
}

#[test]
fn durations_have_at_most_three_decimals() {
    let (_, drawing, _) = run(&mut baton(&FILE));
    assert!(drawing.contains("up to three times, 2.667s each"), "{drawing}");
    let (_, drawing, _) =
        run(baton(&ZOOKEEPER).args(["--lease-duration=10s", "--renew-deadline=8s"]));
    assert!(drawing.contains("6.181s ") && drawing.contains("at least 0s separate"), "{drawing}");
    let (_, _, errors) = run(baton(&FILE).arg("--lease-duration=10.000123456s"));
    let suggested = errors.split("these would pass: ").nth(1).unwrap().trim();
    assert!(suggested.starts_with("--lease-duration=10.001s "), "rounded up: {suggested}");
    let (code, _, errors) = run(baton(&FILE).args(suggested.split(' ')));
    assert_eq!((code, errors.as_str()), (0, ""), "{suggested}");
}

#[test]
fn drawing_mentions_kubernetes_only_in_a_pod_or_with_a_lease() {
    let drawing = |arguments: &[&str], in_pod: bool| {
        let mut command = baton(arguments);
        if in_pod {
            command.env("KUBERNETES_SERVICE_HOST", "10.0.0.1").env("POD_NAMESPACE", "sales");
        }
        let (code, drawing, errors) = run(&mut command);
        assert_eq!(code, 0, "{errors}");
        drawing.contains("RestartAllContainers")
    };
    assert!(!drawing(&FILE, false) && !drawing(&FILE, true));
    assert!(!drawing(&ZOOKEEPER, false) && drawing(&ZOOKEEPER, true));
    assert!(drawing(&["check-config", "--election=orders", "--backend=lease"], false));
}

#[test]
fn invalid_identity_prefix_is_refused_with_the_reason() {
    let (code, _, errors) = run(baton(&FILE).args(["--identity-prefix", "a\nb"]));
    assert_eq!((code, errors.lines().count()), (2, 1), "{errors}");
    for part in
        [r#"identity prefix "a\nb""#, "control characters", "pass another --identity-prefix"]
    {
        assert!(errors.contains(part), "{part} is not in {errors}");
    }
}

#[test]
fn invalid_address_is_named_with_its_flag() {
    let (code, _, errors) = run(baton(&FILE).args(["--listen=foo", "--probe-listen=bar"]));
    assert_eq!(code, 2);
    for named in ["--listen \"foo\" is not an address", "--probe-listen \"bar\" is not an address"]
    {
        assert!(errors.contains(named), "{named} is not named in:\n{errors}");
    }
    assert!(run(baton(&["status"]).env("BATON_LISTEN", "foo")).2.contains("--listen \"foo\""));
}

#[test]
fn help_is_a_subcommand_too() {
    let (code, help, errors) = run(&mut baton(&["help"]));
    assert_eq!((code, errors.as_str()), (0, ""));
    assert!(help.contains("check-config") && help.contains("--election"), "{help}");
    let (code, help, _) = run(&mut baton(&["help", "inject"]));
    assert_eq!(code, 0);
    assert!(help.contains("--restart-application"), "{help}");
    assert_eq!(run(&mut baton(&["help", "elect"])).0, 2);
}

#[test]
fn help_has_no_backticks() {
    let pages: [&[&str]; 9] = [
        &[],
        &["run"],
        &["check-config"],
        &["status"],
        &["probe"],
        &["stopping"],
        &["resign"],
        &["rbac"],
        &["inject"],
    ];
    for page in pages {
        for flag in ["-h", "--help"] {
            let (code, help, _) = run(baton(page).arg(flag));
            assert_eq!(code, 0);
            assert!(!help.contains('`'), "{page:?} {flag}:\n{help}");
        }
    }
}

#[test]
fn only_a_similar_subcommand_is_suggested() {
    let (code, _, errors) = run(&mut baton(&["leave"]));
    assert_eq!(code, 2);
    assert!(errors.contains("'leave'") && !errors.contains("version"), "{errors}");
    assert!(run(&mut baton(&["statu"])).2.contains("'status'"));
}

#[test]
fn rbac_refuses_invalid_object_names() {
    let (code, yaml, errors) = run(&mut baton(&[
        "rbac",
        "--election=Orders",
        "--service-account=Bad Name",
        "--namespace=a.b",
    ]));
    assert_eq!((code, yaml.as_str(), errors.lines().count()), (2, "", 3), "{errors}");
    for named in ["\"Orders\"", "--service-account \"Bad Name\"", "--namespace \"a.b\""] {
        assert!(errors.contains(named), "{named} is not named in:\n{errors}");
    }
}
