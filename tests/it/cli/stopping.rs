//! A stop signal before the election has begun.

use super::baton;
use crate::rig::wait_for;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::fs;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;

#[test]
fn stop_while_connecting_to_the_store_exits_with_0() {
    let folder = TempDir::new().unwrap();
    let [kubeconfig, marker] = ["kubeconfig", "marker"].map(|name| folder.path().join(name));
    // A credential plugin that takes too long.
    let script = format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 30", marker.display());
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script],
        "interactiveMode": "Never",
    });
    let text = json!({
        "current-context": "c",
        "clusters": [{ "name": "c", "cluster": { "server": "https://127.0.0.1:1" } }],
        "users": [{ "name": "u", "user": { "exec": exec } }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
    });
    fs::write(&kubeconfig, text.to_string()).unwrap();
    let mut command = baton(&[
        "run",
        "--election=orders",
        "--backend=lease",
        "--log-format=json",
        "--kubeconfig",
    ]);
    command
        .arg(&kubeconfig)
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();

    let read_pid = || fs::read_to_string(&marker).ok()?.trim().parse().ok();
    let plugin: i32 = wait_for(Duration::from_secs(20), "the plugin runs", read_pid);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let exited = || child.try_wait().unwrap();
    let status = wait_for(Duration::from_secs(5), "it exits at once", exited);
    kill_process(Pid::from_raw(plugin).unwrap(), Signal::KILL).ok();

    let log = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
    assert_eq!(status.code(), Some(0), "{status}: {log}");
    assert!(
        log.contains(r#""event":"stopped""#) && log.contains(r#""release":"needless""#),
        "{log}"
    );
}
