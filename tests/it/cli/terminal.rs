//! Log lines on a terminal, which `script` of util-linux provides.

use super::baton;
use crate::rig::wait_for;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Ends a program that should have exited long ago.
const BOUND: &str = "timeout 30";

/// `baton` with these arguments and this environment, on its own terminal.
fn on_a_terminal(arguments: &str, environment: &[(&str, &str)]) -> Command {
    let command =
        format!("exec {BOUND} {} {arguments}", baton(&[]).get_program().to_str().unwrap());
    let mut script = Command::new("script");
    script.args(["--quiet", "--flush", "--command", &command, "/dev/null"]);
    script.env_clear().env("PATH", "/usr/bin:/bin").envs(environment.iter().copied());
    script.stdin(Stdio::null());
    script
}

/// The log of a candidate over the file store, until it leads.
fn log_until_leading(environment: &[(&str, &str)]) -> String {
    let folder = TempDir::with_prefix("baton-a-rather-long-name-of-a-folder-").unwrap();
    let directory = folder.path().display();
    let flags = format!(
        "--election orders --backend file --directory {directory} --listen 127.0.0.1:0 \
         --probe-listen 127.0.0.1:0 --identity-prefix orders-7d9f8b6c5d-x2x4z --log-level trace \
         --state-directory {directory}/state"
    );
    let mut child = on_a_terminal(&flags, environment).stdout(Stdio::piped()).spawn().unwrap();
    let mut log = String::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        log.push_str(line.unwrap().trim_end());
        log.push('\n');
        if log.contains(" leading ") && log.contains("token") {
            break;
        }
    }
    // Without its terminal, the candidate gets SIGHUP and stops cleanly.
    child.kill().unwrap();
    child.wait().unwrap();
    let stopped = || {
        let end = fs::read_to_string(folder.path().join("state/orders/last-run")).ok()?;
        end.contains(r#""code":0"#)
            .then(|| fs::read_to_string(folder.path().join("orders/record")).unwrap())
    };
    let record = wait_for(
        Duration::from_secs(20),
        "the candidate stops when its terminal goes away",
        stopped,
    );
    assert!(record.contains(r#""holderIdentity":"""#), "it releases first: {record}");
    assert!(log.contains(" leading "), "{log}");
    log
}

#[test]
fn colors_depend_on_the_terminal_and_no_color() {
    let colored = |environment: &[(&str, &str)]| log_until_leading(environment).contains('\u{1b}');
    assert!(colored(&[("TERM", "xterm")]));
    assert!(colored(&[("TERM", "xterm"), ("NO_COLOR", "")]), "an empty variable sets nothing");
    assert!(!colored(&[("TERM", "xterm"), ("NO_COLOR", "1")]));
    assert!(!colored(&[("TERM", "dumb")]));
}

#[test]
fn lines_on_a_terminal_stay_below_250_columns() {
    let log = log_until_leading(&[("TERM", "dumb")]);
    for line in log.lines() {
        assert!(line.chars().count() < 250, "{} columns:\n{line}", line.chars().count());
    }
    let uuid = regex::Regex::new("orders-7d9f8b6c5d-x2x4z_[0-9a-f-]{36}").unwrap();
    let with_uuid: Vec<_> =
        log.lines().filter(|line| uuid.is_match(line) && !line.contains("TRACE")).collect();
    assert!(
        with_uuid.len() == 1 && with_uuid[0].contains("is a candidate of"),
        "the first line alone has it:\n{log}"
    );
    assert!(log.contains("identity=\"orders-7d9f8b6c5d-x2x4z\""), "{log}");
}

#[test]
fn inject_says_that_it_waits_for_yaml_on_a_terminal() {
    let output = on_a_terminal("inject", &[]).output().unwrap();
    let log = String::from_utf8(output.stdout).unwrap();
    assert!(log.contains("waiting for YAML on standard input"), "{log}");
    assert!(log.contains("0 of 0 templates injected"), "{log}");
}
