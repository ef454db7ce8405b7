//! Subcommands that query a sidecar, run against a stub that answers like another program.

use crate::rig::{Rig, Timing};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::{Command, Output};
use std::thread;

const LEADS: &str = r#"{"standing":"leading","is_leader":true,"token":"7"}"#;
const FOLLOWS: &str = r#"{"standing":"following","is_leader":false,"token":null}"#;
const REFUSES: &str = r#"{"error":"not yet"}"#;

const STATUS: &[&str] = &["status"];
const PROBE_LEADER: &[&str] = &["probe", "leader"];
const HEALTHZ: &[&str] = &["probe", "healthz"];
const READYZ: &[&str] = &["probe", "readyz"];
const STOPPING: &[&str] = &["stopping"];

/// Runs a subcommand against a stub with this answer: its exit code, stdout, and stderr.
fn query(subcommand: &[&str], status: &str, body: &str) -> (Option<i32>, String, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let stub = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.is_empty()), "the request has a head");
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    let Output { status, stdout, stderr } =
        command.env_clear().env("BATON_LISTEN", address).args(subcommand).output().unwrap();
    stub.join().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn foreign_answer_exits_with_69() {
    let html = "<html>welcome</html>";
    let tokenless = r#"{"standing":"leading","is_leader":true,"token":null}"#;
    for (subcommands, status, body) in [
        (&[STATUS, PROBE_LEADER, HEALTHZ, READYZ, STOPPING][..], "200 OK", html),
        (&[STATUS, PROBE_LEADER, HEALTHZ, READYZ, STOPPING], "200 OK", ""),
        (&[STATUS, PROBE_LEADER, HEALTHZ, READYZ, STOPPING], "200 OK", "{}"),
        (&[STATUS, PROBE_LEADER], "200 OK", "ok\n"),
        (&[STATUS, PROBE_LEADER], "200 OK", FOLLOWS),
        (&[STATUS, PROBE_LEADER], "200 OK", tokenless),
        (&[STATUS, PROBE_LEADER], "503 Service Unavailable", LEADS),
        (&[STATUS, PROBE_LEADER], "503 Service Unavailable", REFUSES),
        (
            &[STATUS, PROBE_LEADER, HEALTHZ, READYZ, STOPPING],
            "503 Service Unavailable",
            "no healthy upstream",
        ),
        (&[STATUS, PROBE_LEADER, HEALTHZ, READYZ, STOPPING], "302 Found", ""),
        (&[STATUS, PROBE_LEADER, HEALTHZ, READYZ, STOPPING], "404 Not Found", REFUSES),
        (&[STATUS, PROBE_LEADER, HEALTHZ, READYZ, STOPPING], "500 Internal Server Error", html),
        (&[STOPPING], "403 Forbidden", html),
    ] {
        for subcommand in subcommands {
            let (code, output, errors) = query(subcommand, status, body);
            assert_eq!(code, Some(69), "{subcommand:?} of {status} {body:?}: {errors}");
            assert_eq!(output, "", "{subcommand:?} of {status} {body:?}");
            assert!(errors.contains(" is not Baton: it answered "), "{errors}");
            assert!(errors.contains("--listen"), "no remedy in: {errors}");
        }
    }
}

#[test]
fn sidecars_answer_exits_with_0_or_1() {
    for (subcommand, status, body, code) in [
        (STATUS, "200 OK", LEADS, 0),
        (PROBE_LEADER, "200 OK", LEADS, 0),
        (STATUS, "503 Service Unavailable", FOLLOWS, 1),
        (PROBE_LEADER, "503 Service Unavailable", FOLLOWS, 1),
        (HEALTHZ, "200 OK", "ok\n", 0),
        (READYZ, "503 Service Unavailable", REFUSES, 1),
        (STOPPING, "204 No Content", "", 0),
        (STOPPING, "403 Forbidden", REFUSES, 1),
    ] {
        let (found, _, errors) = query(subcommand, status, body);
        assert_eq!(found, Some(code), "{subcommand:?} of {status} {body:?}: {errors}");
    }
}

#[test]
fn probe_listener_does_not_answer_for_leadership() {
    let rig = Rig::new(Timing::CALM);
    let leader = rig.start_leader("a");
    rig.wait_for_answers();
    for subcommand in [STATUS, PROBE_LEADER, STOPPING] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        let output = command
            .env_clear()
            .env("BATON_LISTEN", &leader.probe_listen)
            .args(subcommand)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(69), "{subcommand:?}");
    }
}
