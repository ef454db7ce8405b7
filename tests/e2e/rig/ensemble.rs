//! Three servers of ZooKeeper in a case's namespace: the chart in `tests/e2e/ensemble`.

use super::case::Case;
use super::command::variable;
#[path = "../../it/rig/keys.rs"]
#[expect(dead_code, reason = "other tests ask more of it")]
mod keys;

use keys::Authority;
use serde_json::{Value, json};
use tempfile::TempDir;

/// As the servers' certificate names them, and as candidates do.
const SERVERS: [&str; 3] = ["zk-1.zk", "zk-2.zk", "zk-3.zk"];

/// The Secrets of candidates, where the servers want to see something.
const SECRETS: [&str; 2] = ["orders-zookeeper", "orders-zookeeper-tls"];

pub(crate) struct Ensemble<'a> {
    case: &'a Case,
    secured: bool,
}

impl<'a> Ensemble<'a> {
    /// Servers for everybody who knows where they are.
    #[track_caller]
    pub(crate) fn open(case: &'a Case) -> Self {
        let this = Self { case, secured: false };
        this.install();
        this
    }

    /// Servers that speak TLS, and serve nobody without a certificate and a user.
    #[track_caller]
    pub(crate) fn secured(case: &'a Case) -> Self {
        let this = Self { case, secured: true };
        this.make_secrets();
        this.install();
        this
    }

    #[track_caller]
    fn install(&self) {
        let values = json!({ "image": variable("ZOOKEEPER_IMAGE"), "secured": self.secured });
        self.case.helm_with(&["install", "zk", "tests/e2e/ensemble"], &values);
        self.await_servers();
    }

    /// As the page of the library chart says, for candidates; and what the servers are told.
    #[track_caller]
    fn make_secrets(&self) {
        let folder = TempDir::new().expect("a folder can be made");
        let authority = Authority::begin(folder.path());
        authority.server("server", &SERVERS);
        authority.client("tls", "shop");
        let at = |name: &str| folder.path().join(name).display().to_string();
        self.case.shell(&format!("cat {} {} > {}", at("server.key"), at("server.crt"), at("server.pem")));
        let create = |secret: &str, files: &[&str]| {
            let files: Vec<_> = files.iter().map(|name| format!("--from-file={}", at(name))).collect();
            let files: Vec<_> = files.iter().map(String::as_str).collect();
            self.case.kubectl(&[&["create", "secret", "generic", secret], &files[..]].concat());
        };
        create("zk", &["server.pem", "ca.crt"]);
        create(SECRETS[1], &["ca.crt", "tls.crt", "tls.key"]);
        self.case.kubectl(&["create", "secret", "generic", SECRETS[0], "--from-literal=auth=digest:orders:s3cret"]);
    }

    /// What a sidecar's values say of it.
    pub(crate) fn values(&self) -> Value {
        let port = if self.secured { 2281 } else { 2181 };
        let mut zookeeper = json!({ "servers": SERVERS.map(|server| format!("{server}:{port}")).join(",") });
        if self.secured {
            zookeeper["authSecret"] = SECRETS[0].into();
            zookeeper["caSecret"] = SECRETS[1].into();
            zookeeper["certificateSecret"] = SECRETS[1].into();
        }
        json!({ "backend": "zookeeper", "zookeeper": zookeeper })
    }

    /// Restarts the servers one after another, each when the one before serves again.
    #[track_caller]
    pub(crate) fn restart(&self) {
        self.case.note("the servers are restarted, one after another");
        self.case.kubectl(&["rollout", "restart", "statefulset/zk"]);
        self.await_servers();
    }

    #[track_caller]
    fn await_servers(&self) {
        self.case.kubectl(&["rollout", "status", "statefulset/zk", "--timeout=120s"]);
    }

    /// Takes away all that it has brought into the namespace.
    #[track_caller]
    pub(crate) fn remove(self) {
        self.case.helm(&["uninstall", "zk", "--wait"]);
        if self.secured {
            self.case.kubectl(&["delete", "secret", "zk", SECRETS[0], SECRETS[1]]);
        }
    }
}
