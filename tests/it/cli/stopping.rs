//! A stop that comes before the election begins.

use super::baton;
use crate::rig::wait_for;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::fs;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;

#[test]
fn a_stop_while_the_store_is_reached_ends_with_0_at_once() {
    let folder = TempDir::new().unwrap();
    let [kubeconfig, marker] = ["kubeconfig", "marker"].map(|name| folder.path().join(name));
    // The credentials come from a program that takes its time.
    let script = format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 30", marker.display());
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script], "interactiveMode": "Never",
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

    let read = || fs::read_to_string(&marker).ok()?.trim().parse().ok();
    let program: i32 = wait_for(Duration::from_secs(20), "the program runs", read);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let ended = || child.try_wait().unwrap();
    let status = wait_for(Duration::from_secs(5), "it ends at once", ended);
    kill_process(Pid::from_raw(program).unwrap(), Signal::KILL).ok();

    let told = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
    assert_eq!(status.code(), Some(0), "{status}: {told}");
    assert!(
        told.contains(r#""event":"stopped""#) && told.contains(r#""release":"needless""#),
        "{told}"
    );
}
