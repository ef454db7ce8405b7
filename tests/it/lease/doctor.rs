//! `baton doctor` on a real API server: one line per fault, with the remedy, within ten seconds.

use crate::rig::{Access, ApiServer, Direction, ELECTION, Flow, Gateway, Proxy};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::ObjectMeta;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LONGEST: Duration = Duration::from_secs(10);

/// The exit code and the lines of `baton doctor` with this kubeconfig.
fn doctor(kubeconfig: &Path) -> (i32, String) {
    doctor_with(kubeconfig, &[])
}

/// The same, with more flags.
#[expect(clippy::disallowed_methods, reason = "no claim counts from this instant")]
pub(super) fn doctor_with(kubeconfig: &Path, flags: &[&str]) -> (i32, String) {
    let began = Instant::now();
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_baton"));
    // This system trusts no authority.
    doctor.env_clear().env("SSL_CERT_FILE", "/dev/null").args([
        "doctor",
        "--election",
        ELECTION,
        "--backend",
        "lease",
    ]);
    let output =
        doctor.arg("--kubeconfig").arg(kubeconfig).args(flags).output().expect("it was built");
    let lines = String::from_utf8(output.stdout).expect("lines are text");
    let took = began.elapsed();
    assert!(took < LONGEST, "it took {took:?}: {lines}");
    (output.status.code().expect("no signal ends it"), lines)
}

/// The line of this check.
fn line<'a>(lines: &'a str, check: &str) -> &'a str {
    let of_check = |line: &&str| line.split_whitespace().nth(1) == Some(check);
    lines.lines().find(of_check).unwrap_or_else(|| panic!("no line about {check}: {lines}"))
}

#[test]
fn healthy_candidate_has_no_failure() {
    let namespace = ApiServer::shared().namespace();
    let account = namespace.account("shop", &[ELECTION]);
    let (code, lines) = doctor(account.access.kubeconfig());
    assert_eq!(code, 0, "{lines}");
    assert_eq!(line(&lines, "rights"), "ok       rights      get, watch, create, and update");
    assert!(line(&lines, "record").contains("none yet"), "{lines}");
    assert!(!lines.contains(&account.token), "it shows the token");
    assert!(namespace.admin.lease(ELECTION).expect("it is ours").is_none(), "it wrote the Lease");
}

#[test]
fn missing_rights_are_named() {
    let namespace = ApiServer::shared().namespace();
    let account = namespace.account_that_may(&["get", "create", "update"], "shop", &[ELECTION]);
    let (code, lines) = doctor(account.access.kubeconfig());
    assert_eq!(code, 77, "{lines}");
    let rights = line(&lines, "rights");
    assert!(rights.contains("lacks watch: grant what baton rbac prints"), "{rights}");
}

#[test]
fn silent_server_is_reported_in_time() {
    let server = ApiServer::shared();
    let account = server.namespace().account("shop", &[ELECTION]);
    let proxy = Proxy::to(server.address());
    proxy.set(Direction::Replies, Flow::Hold);
    let (code, lines) = doctor(account.access.through(proxy.address()).kubeconfig());
    assert_eq!(code, 69, "{lines}");
    assert!(line(&lines, "store").contains("no answer within"), "{lines}");
}

#[test]
fn wrong_authority_is_reported() {
    let account = ApiServer::shared().namespace().account("shop", &[ELECTION]);
    let kubeconfig = with_authority_of_another(&account.access);
    let (code, lines) = doctor(&kubeconfig);
    assert_eq!(code, 69, "{lines}");
    let store = line(&lines, "store");
    assert!(store.starts_with("failure") && store.contains("certificate"), "{store}");
}

/// The same kubeconfig with a new certificate authority.
fn with_authority_of_another(access: &Access) -> PathBuf {
    let folder = access.kubeconfig().parent().expect("it is in a folder").join("another");
    fs::create_dir_all(&folder).expect("the folder is ours");
    let authority = folder.join("ca.crt");
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-subj", "/CN=another", "-days", "1", "-keyout"])
        .arg(folder.join("ca.key"))
        .arg("-out")
        .arg(&authority)
        .output();
    assert!(made.expect("openssl runs").status.success());
    with_cluster(access, &folder, |cluster| cluster["certificate-authority"] = json!(authority))
}

/// The same kubeconfig in `folder`, with another description of the cluster.
fn with_cluster(access: &Access, folder: &Path, change: impl FnOnce(&mut Value)) -> PathBuf {
    let text = fs::read_to_string(access.kubeconfig()).expect("it was written");
    let mut content: Value = serde_json::from_str(&text).expect("it is JSON");
    change(&mut content["clusters"][0]["cluster"]);
    let kubeconfig = folder.join("kubeconfig");
    fs::write(&kubeconfig, content.to_string()).expect("the folder is ours");
    kubeconfig
}

#[test]
fn unverified_server_needs_no_authority() {
    let account = ApiServer::shared().namespace().account("shop", &[ELECTION]);
    let folder = tempfile::tempdir().expect("temporary folders can be made");
    for (is_verified, expected) in [(false, 0), (true, 2)] {
        let kubeconfig = with_cluster(&account.access, folder.path(), |cluster| {
            let cluster = cluster.as_object_mut().expect("it is an object");
            cluster.retain(|key, _| !key.starts_with("certificate-authority"));
            cluster.insert("insecure-skip-tls-verify".to_owned(), json!(!is_verified));
        });
        let (code, lines) = doctor(&kubeconfig);
        assert_eq!(code, expected, "{lines}");
        assert_eq!(lines.contains("names no certificate-authority"), is_verified, "{lines}");
    }
}

#[test]
fn wrong_wall_clock_is_a_warning() {
    let account = ApiServer::shared().namespace().account("shop", &[ELECTION]);
    let gateway = Gateway::before(&account.access);
    let folder = tempfile::tempdir().expect("temporary folders can be made");
    let kubeconfig = with_cluster(&account.access, folder.path(), |cluster| {
        *cluster = json!({ "server": gateway.url() });
    });
    let (code, lines) = doctor(&kubeconfig);
    assert_eq!(code, 0, "{lines}");
    assert!(line(&lines, "clock").starts_with("ok"), "{lines}");
    gateway.date_answers("Thu, 01 Jan 2026 00:00:00 GMT");
    let (code, lines) = doctor(&kubeconfig);
    assert_eq!(code, 0, "{lines}");
    let clock = line(&lines, "clock");
    let is_named = clock.contains("ahead of the API server's") && clock.contains("NTP");
    assert!(clock.starts_with("warning") && is_named, "{clock}");
}

#[test]
fn record_edited_by_hand_is_a_warning() {
    let namespace = ApiServer::shared().namespace();
    let account = namespace.account("shop", &[ELECTION]);
    let edited = Lease {
        metadata: ObjectMeta { name: Some(ELECTION.to_owned()), ..ObjectMeta::default() },
        spec: Some(LeaseSpec { holder_identity: Some("me".to_owned()), ..LeaseSpec::default() }),
    };
    namespace.admin.put(&edited).expect("the namespace is ours");
    let (code, lines) = doctor(account.access.kubeconfig());
    assert_eq!(code, 0, "{lines}");
    let record = line(&lines, "record");
    assert!(record.starts_with("warning") && record.contains("edited by hand"), "{record}");
}
