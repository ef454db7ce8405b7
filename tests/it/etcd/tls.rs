//! TLS, and client certificates, which may be replaced at any time.

use super::PATIENCE;
use crate::rig::{
    Authority, ELECTION, Etcd, EtcdKeys, EtcdSettings, Rig, Start, Store as _, Timing, eventually,
    throughout,
};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Durations with slack for a restart on a busy machine.
const PATIENT: Timing = Timing::of_ms(30_000, 20_000, 500, 500);

/// An etcd that requires client certificates, and the folder with all certificates and keys.
struct Secured {
    etcd: Etcd,
    rig: Rig<EtcdKeys>,
    folder: TempDir,
}

impl Secured {
    fn start(timing: Timing) -> Self {
        Self::with(timing, issue)
    }

    /// `issue` writes the certificates.
    fn with(timing: Timing, issue: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        issue(folder.path());
        let at = |name: &str| folder.path().join(name).display().to_string();
        let flags = [
            format!("--cert-file={}", at("member.crt")),
            format!("--key-file={}", at("member.key")),
            format!("--trusted-ca-file={}", at("ca.crt")),
            "--client-cert-auth".to_owned(),
        ];
        let etcdctl_flags = [("cacert", "ca.crt"), ("cert", "client.crt"), ("key", "client.key")];
        let etcdctl_flags = etcdctl_flags.map(|(flag, file)| format!("--{flag}={}", at(file)));
        let etcd = Etcd::start(EtcdSettings {
            is_opaque: true,
            scheme: "https",
            flags: flags.to_vec(),
            etcdctl_flags: etcdctl_flags.to_vec(),
            ..EtcdSettings::default()
        });
        let rig = Rig::over(EtcdKeys::on(&etcd), timing);
        Self { etcd, rig, folder }
    }

    /// A candidate with the certificate and key of `client`.
    fn candidate(&self, name: &str, client: &str) -> Start<'_, EtcdKeys> {
        let at = |name: String| self.folder.path().join(name).display().to_string();
        let candidate = self.rig.candidate(name).flag("--etcd-ca-file", at("ca.crt".to_owned()));
        let candidate = candidate.flag("--etcd-cert-file", at(format!("{client}.crt")));
        candidate.flag("--etcd-key-file", at(format!("{client}.key")))
    }
}

/// Writes a new authority, and what it issues: `member`, `client` without a common name, and `named`
/// with one.
fn issue(folder: &Path) {
    let authority = Authority::begin(folder);
    // Every address of the rig's members is below it.
    let addresses: Vec<_> = own_addresses();
    let addresses: Vec<_> = addresses.iter().map(String::as_str).collect();
    authority.member("member", &addresses);
    authority.member("client", &["client"]);
    authority.client("named", "sales");
}

/// The addresses that members of this process may have.
fn own_addresses() -> Vec<String> {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    (1..=255).map(|count| format!("127.{}.{low}.{count}", high | 0x80)).collect()
}

/// The authority and all certificates are replaced, and etcd restarts with them.
#[test]
fn replaced_certificates_cost_no_term() {
    let mut secured = Secured::start(PATIENT);
    let leader = secured.candidate("leader", "client").start();
    assert_eq!(secured.rig.leader().identity, leader.identity);
    let follower = secured.candidate("follower", "client").start();
    eventually(PATIENCE, "it follows", || secured.rig.has_standing(&follower, "following"));
    issue(secured.folder.path());
    secured.etcd.restart();
    throughout(secured.rig.timing.renew_deadline, "both are healthy", || {
        leader.is_healthy() && follower.is_healthy()
    });
    assert_eq!(secured.rig.tokens(ELECTION).len(), 1);
    leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    let (new, _) = secured.rig.successor(&leader, secured.rig.now(), EtcdKeys::NOISE);
    assert_eq!(new.identity, follower.identity);
}

/// The gateway refuses certificates with a common name once users are on.
#[test]
fn certificate_with_a_common_name_is_refused_with_a_remedy() {
    let secured = Secured::start(EtcdKeys::FAST);
    for order in [
        &["user", "add", "root:root"][..],
        &["user", "grant-role", "root", "root"],
        &["auth", "enable"],
    ] {
        secured.etcd.etcdctl(order);
    }
    let user = secured.rig.folder().join("user");
    fs::write(&user, "root:root").unwrap();
    let user = user.to_str().unwrap();
    let named = secured.candidate("named", "named").flag("--etcd-user-file", user).start();
    let unnamed = secured.candidate("unnamed", "client").flag("--etcd-user-file", user).start();
    assert_eq!(secured.rig.leader().identity, unnamed.identity);
    assert_eq!(named.exit_code(), 77, "{}", named.output());
    assert!(named.output().contains("without a common name"), "{}", named.output());
    secured.rig.wait_for_answers();
}

#[test]
fn untrusted_member_is_named() {
    let secured = Secured::start(EtcdKeys::FAST);
    let elsewhere = tempfile::tempdir().unwrap();
    issue(elsewhere.path());
    let other = elsewhere.path().join("ca.crt").display().to_string();
    let wary = secured.candidate("wary", "client").flag("--etcd-ca-file", other).start();
    eventually(PATIENCE, "it names the cause", || wary.output().contains("--etcd-ca-file"));
    let leader = secured.candidate("leader", "client").start();
    assert_eq!(secured.rig.leader().identity, leader.identity);
    secured.rig.wait_for_answers();
}

/// The gateway is a client of its own member, with the member's certificate. Some of its errors name
/// only a broken connection.
#[test]
fn member_certificate_without_client_auth_is_named() {
    let secured = Secured::with(PATIENT, |folder| {
        issue(folder);
        let (authority, addresses) = (Authority::begin(folder), own_addresses());
        authority.server("member", &addresses.iter().map(String::as_str).collect::<Vec<_>>());
        authority.member("client", &["client"]);
    });
    let candidate = secured.candidate("lost", "client").start();
    eventually(PATIENCE, "it names the cause", || candidate.output().contains("clientAuth"));
    // Enough answers for the check of the history.
    let elsewhere = Etcd::shared().url(0);
    let leader = secured.rig.candidate("leader").flag("--etcd-endpoints", elsewhere).start();
    assert_eq!(secured.rig.leader().identity, leader.identity);
    secured.rig.wait_for_answers();
}
