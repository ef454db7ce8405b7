//! The command line of the built program: flags, environment, errors, exit codes, and subcommands.

mod checks;
mod doctor;
mod inject;
mod install;
mod stopping;
mod terminal;

use crate::rig::{Rig, Timing};
use std::fs;
use std::process::{Command, Output, Stdio};
use tempfile::NamedTempFile;

/// The program in an empty environment.
fn baton(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    command.env_clear().args(arguments);
    command
}

/// Runs a command: its exit code, stdout, and stderr.
fn run(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

#[test]
fn all_configuration_errors_are_reported_at_once() {
    let (code, _, errors) = run(&mut baton(&[
        "check-config",
        "--election=Orders",
        "--backend=paper",
        "--retry-period=soon",
        "--max-clock-drift=9",
        "--on-lost=weep",
        "--listen=here",
        "--log-level=loud",
    ]));
    assert_eq!(code, 2);
    for named in
        ["\"Orders\"", "\"paper\"", "\"soon\"", "\"9\"", "\"weep\"", "\"here\"", "\"loud\""]
    {
        assert!(errors.contains(named), "{named} is not named in:\n{errors}");
    }
    assert_eq!(errors.lines().count(), 7, "{errors}");
}

#[test]
fn all_zookeeper_errors_are_reported_at_once() {
    let (code, _, errors) = run(&mut baton(&[
        "check-config",
        "--election=orders",
        "--backend=zookeeper",
        "--zookeeper-servers=zk:port",
        "--zookeeper-path=/baton/\u{e000}",
        "--zookeeper-tick-time=0s",
        "--zookeeper-cert-file=here",
    ]));
    assert_eq!(code, 2);
    let named_flags = [
        "--zookeeper-path",
        "--zookeeper-tick-time",
        "--zookeeper-ca-file",
        "--zookeeper-cert-file \"here\"",
    ];
    for named in ["\"zk:port\""].into_iter().chain(named_flags) {
        assert!(errors.contains(named), "{named} is not named in:\n{errors}");
    }
    assert_eq!(errors.lines().count(), 5, "{errors}");
}

#[test]
fn kubeconfig_with_a_proxy_is_refused() {
    let kubeconfig = NamedTempFile::new().unwrap();
    let cluster = r#"{"server": "https://127.0.0.1:1", "proxy-url": "http://proxy:3128"}"#;
    let context = r#"{"cluster": "c", "user": "u"}"#;
    let lists = format!(
        r#"{{"clusters": [{{"name": "c", "cluster": {cluster}}}], "current-context": "c",
             "contexts": [{{"name": "c", "context": {context}}}],
             "users": [{{"name": "u", "user": {{}}}}]}}"#
    );
    fs::write(kubeconfig.path(), lists).unwrap();
    let (code, _, errors) =
        run(baton(&["run", "--election=orders", "--backend=lease", "--kubeconfig"])
            .arg(kubeconfig.path()));
    assert_eq!(code, 2);
    assert!(
        errors.contains("the proxy http://proxy:3128/ is not supported")
            && errors.contains("remove proxy-url"),
        "{errors}"
    );
}

#[test]
fn unsafe_timing_is_refused_with_the_inequality_and_a_remedy() {
    let election = ["check-config", "--election=orders", "--backend=file", "--directory=/tmp"];
    let (code, _, errors) =
        run(baton(&election).args(["--lease-duration=12s", "--renew-deadline=10s"]));
    assert_eq!(code, 2);
    assert!(
        errors.contains(
            "renew deadline × (1 + drift) must be less than lease duration × (1 − drift)"
        ),
        "{errors}"
    );
    let suggested = errors.split("these would pass: ").nth(1).expect("flags are suggested").trim();
    let (code, drawing, errors) = run(baton(&election).args(suggested.split(' ')));
    assert_eq!((code, errors.as_str()), (0, ""), "{suggested} passes");
    assert!(drawing.contains("12s"), "the lease duration is kept: {drawing}");
}

#[test]
fn check_config_draws_a_zookeeper_timeline() {
    let election =
        ["check-config", "--election=orders", "--backend=zookeeper", "--zookeeper-servers=zk"];
    let (_, usual, _) = run(&mut baton(&election));
    assert!(usual.contains("gone within 272.7ms of the claim's end"), "{usual}");
    let (_, short, _) = run(baton(&election).args(["--lease-duration=10s", "--renew-deadline=8s"]));
    assert!(short.contains("6.181s") && short.contains("at least 0s separate"), "{short}");
}

#[test]
fn suggested_durations_pass() {
    let file = ["--backend=file", "--directory=/tmp"];
    let zookeeper = ["--backend=zookeeper", "--zookeeper-servers=zk"];
    for (store, typed) in [
        (file, "--answer-validity=9s"),
        (file, "--retry-period=0s"),
        (file, "--renew-deadline=2s"),
        (file, "--lease-duration=1ms"),
        (file, "--max-clock-drift=99.9%"),
        (zookeeper, "--lease-duration=1ms"),
        (zookeeper, "--retry-period=9s"),
        (zookeeper, "--zookeeper-tick-time=9s"),
    ] {
        let check = || {
            let mut check = baton(&["check-config", "--election=orders"]);
            check.args(store);
            check
        };
        let (code, _, errors) = run(check().arg(typed));
        assert_eq!(code, 2, "{typed}");
        let suggested = errors.lines().next().unwrap().split("these would pass: ").nth(1).unwrap();
        let kept =
            (typed.starts_with("--max") || typed.starts_with("--zookeeper")).then_some(typed);
        let (code, _, errors) = run(check().args(suggested.split(' ')).args(kept));
        assert_eq!((code, errors.as_str()), (0, ""), "{typed}: {suggested}");
    }
}

#[test]
fn lease_duration_that_overflows_a_lease_object_is_refused() {
    let election = ["check-config", "--election=orders", "--backend=file", "--directory=/tmp"];
    let (code, _, _) = run(baton(&election).arg("--lease-duration=2147483647s"));
    assert_eq!(code, 0);
    for typed in ["--lease-duration=2147483648s", "--lease-duration=2147483647s 1ns"] {
        let (code, _, errors) = run(baton(&election).arg(typed));
        assert_eq!(code, 2, "{typed}");
        assert!(errors.contains("a Lease object holds at most 2147483647s"), "{errors}");
    }
}

#[test]
fn too_short_limits_are_refused() {
    for flag in ["--require-polling", "--stopping-limit"] {
        let (code, _, errors) = run(baton(&[
            "check-config",
            "--election=orders",
            "--backend=file",
            "--directory=/tmp",
        ])
        .arg(format!("{flag}=0s")));
        assert_eq!(code, 2);
        assert!(errors.contains(&format!("pass {flag}=4s")), "{errors}");
    }
}

#[test]
fn flag_overrides_environment_and_environment_overrides_default() {
    let drawing = |command: &mut Command| run(command).1;
    let base = ["check-config", "--election=orders", "--backend=file", "--directory=/tmp"];
    assert!(drawing(&mut baton(&base)).contains("is good for 2s"));
    assert!(drawing(baton(&base).env("BATON_ANSWER_VALIDITY", "1s")).contains("is good for 1s"));
    let both = ["--answer-validity=3s"];
    assert!(
        drawing(baton(&base).env("BATON_ANSWER_VALIDITY", "1s").args(both))
            .contains("is good for 3s")
    );
    // A Service named baton injects these variables. An empty variable sets nothing.
    let noise = [
        ("BATON_PORT", "tcp://10.0.0.1:80"),
        ("BATON_SERVICE_HOST", "10.0.0.1"),
        ("BATON_ON_LOST", ""),
    ];
    assert!(drawing(baton(&base).envs(noise)).contains("is good for 2s"));
}

#[test]
fn file_store_is_never_the_default() {
    let (code, _, errors) = run(&mut baton(&["--election=orders"]));
    assert_eq!(code, 2);
    assert!(errors.contains("--backend file --directory DIR"), "{errors}");
    let (code, _, errors) =
        run(baton(&["--election=orders"]).env("KUBERNETES_SERVICE_HOST", "10.0.0.1"));
    assert_eq!(code, 2, "in a Pod, the default is the Lease");
    assert!(errors.contains("service account cannot be used: mount its token"), "{errors}");
}

#[test]
fn unknown_flag_is_an_error_and_help_is_not() {
    let (code, _, errors) = run(&mut baton(&["run", "--lease-durations=15s"]));
    assert_eq!(code, 2);
    assert!(errors.contains("--lease-duration"), "the similar flag is suggested: {errors}");
    assert_eq!(run(&mut baton(&["--help"])).0, 0);
    assert_eq!(run(&mut baton(&["--version"])).0, 0);
}

#[test]
fn status_and_probe_report_by_exit_code() {
    let rig = Rig::new(Timing::CALM);
    rig.start("a");
    let leader = rig.leader();
    let follower = rig.start("b");
    rig.wait_for_answers();
    for (candidate, code) in [(&leader, 0), (&follower, 1)] {
        let status = candidate.baton("status");
        assert_eq!(status.status.code(), Some(code));
        let body: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
        assert_eq!(body["identity"].as_str(), Some(&*candidate.identity));
        let probe = |what| run(baton(&["probe", what]).env("BATON_LISTEN", &candidate.listen)).0;
        assert_eq!(["healthz", "readyz", "leader"].map(probe), [0, 0, code]);
    }
}

#[test]
fn status_as_text_is_a_table() {
    let rig = Rig::new(Timing::CALM);
    let leader = rig.start_leader("a");
    let follower = rig.start("b");
    rig.wait_for_answers();
    for (candidate, code, words) in [
        (&leader, 0, ["orders (file)", "leading since", "a (this process)", "answered"]),
        (&follower, 1, ["orders (file)", "following since", "a\n", "answered"]),
    ] {
        let status = candidate.baton("status --output text");
        assert_eq!(status.status.code(), Some(code));
        let table = String::from_utf8(status.stdout).unwrap();
        assert!(words.iter().all(|word| table.contains(word)), "{table}");
    }
}

#[test]
fn completions_offer_what_people_use() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, script, errors) = run(&mut baton(&["completions", shell]));
        assert_eq!(code, 0, "{errors}");
        assert!(script.contains("check-config") && script.contains("require-polling"), "{shell}");
        assert!(!script.contains("trampoline"), "{shell} offers what only baton starts");
    }
    // Bash itself accepts the script, and completes with it.
    let complete = "source /dev/stdin; COMP_WORDS=(baton res) COMP_CWORD=1; \
                    _baton baton res baton; echo ${COMPREPLY[@]}";
    let script = run(&mut baton(&["completions", "bash"])).1;
    let mut bash = Command::new("bash");
    let bash = bash.args(["-c", complete]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut bash = bash.spawn().unwrap();
    std::io::Write::write_all(&mut bash.stdin.take().unwrap(), script.as_bytes()).unwrap();
    assert_eq!(String::from_utf8(bash.wait_with_output().unwrap().stdout).unwrap(), "resign\n");
}

#[test]
fn manual_pages_are_roff() {
    for (arguments, title) in [(&["man"][..], "baton"), (&["man", "exec"], "baton-exec")] {
        let (code, page, errors) = run(&mut baton(arguments));
        assert_eq!(code, 0, "{errors}");
        assert!(page.contains(&format!(".TH {title} 1  \"baton {}", env!("CARGO_PKG_VERSION"))));
        assert!(page.contains(".SH SYNOPSIS") && !page.contains("trampoline"), "{page}");
    }
    let (code, _, errors) = run(&mut baton(&["man", "guard"]));
    assert_eq!(code, 2);
    assert!(errors.contains("no subcommand guard: name one of run, exec"), "{errors}");
}

#[test]
fn missing_sidecar_exits_with_69() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for arguments in [&["status"][..], &["probe", "healthz"], &["stopping"]] {
        let (code, _, errors) = run(baton(arguments).env("BATON_LISTEN", port.to_string()));
        assert_eq!(code, 69, "{arguments:?}");
        assert!(errors.contains(&format!("no answer from a sidecar at {port}")), "{errors}");
    }
}

#[test]
fn rbac_limits_the_role_to_one_lease() {
    let (code, yaml, _) = run(&mut baton(&[
        "rbac",
        "--election=orders",
        "--service-account=shop",
        "--namespace=sales",
    ]));
    assert_eq!(code, 0);
    for line in [
        "    resourceNames: [\"orders\"]",
        "    verbs: [\"get\", \"watch\", \"create\", \"update\"]",
        "    name: \"shop\"",
        "    namespace: \"sales\"",
    ] {
        assert!(yaml.lines().any(|candidate| candidate == line), "{line} is not in\n{yaml}");
    }
    assert_eq!(run(&mut baton(&["rbac", "--election=Orders", "--service-account=shop"])).0, 2);
}

#[test]
fn version_prints_the_build() {
    let (code, text, _) = run(&mut baton(&["version"]));
    let version: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, version["version"].as_str()), (0, Some(env!("CARGO_PKG_VERSION"))));
    assert!(version["rustc"].as_str().unwrap().starts_with("rustc 1."), "{text}");
}
