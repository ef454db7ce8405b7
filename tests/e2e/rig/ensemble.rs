//! Three ZooKeeper servers in a case's namespace, by the chart in `tests/e2e/ensemble`.

use super::case::Case;
use super::command::variable;
use super::operations::SHOP;
use super::shop::merge;
#[path = "../../it/rig/keys.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod keys;

use keys::Authority;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The names of the servers, in their certificate and in `zookeeper.servers`.
const SERVERS: [&str; 3] = ["zk-1.zk", "zk-2.zk", "zk-3.zk"];

/// The Secrets of candidates for secured servers.
const SECRETS: [&str; 2] = ["orders-zookeeper", "orders-zookeeper-tls"];
/// The Secret of a client with a valid certificate and a guessed password.
const STRANGER: &str = "stranger";

pub(crate) struct Ensemble<'a> {
    case: &'a Case,
    secured: bool,
}

impl<'a> Ensemble<'a> {
    /// Servers without TLS and authentication.
    #[track_caller]
    pub(crate) fn open(case: &'a Case) -> Self {
        let this = Self { case, secured: false };
        this.install();
        this
    }

    /// Servers with TLS that require a client certificate and a user.
    #[track_caller]
    pub(crate) fn secured(case: &'a Case) -> Self {
        let this = Self { case, secured: true };
        this.create_secrets();
        this.install();
        this
    }

    #[track_caller]
    fn install(&self) {
        let values = json!({ "image": variable("ZOOKEEPER_IMAGE"), "secured": self.secured });
        self.case.helm_with(&["install", "zk", "tests/e2e/ensemble"], &values);
        self.await_servers();
    }

    /// Creates the Secrets of the servers, of candidates as in the library chart's README, and of
    /// the stranger.
    #[track_caller]
    fn create_secrets(&self) {
        let folder = TempDir::new().expect("the folder can be created");
        let authority = Authority::begin(folder.path());
        authority.server("server", &SERVERS);
        authority.client("tls", "shop");
        authority.client(STRANGER, "bank");
        let at = |name: &str| folder.path().join(name).display().to_string();
        self.case.shell(&format!(
            "cat {} {} > {}",
            at("server.key"),
            at("server.crt"),
            at("server.pem")
        ));
        let create = |secret: &str, files: &[&str]| {
            let files: Vec<_> =
                files.iter().map(|name| format!("--from-file={}", at(name))).collect();
            let files: Vec<_> = files.iter().map(String::as_str).collect();
            self.case.kubectl(&[&["create", "secret", "generic", secret], &files[..]].concat());
        };
        create("zk", &["server.pem", "ca.crt"]);
        create(SECRETS[1], &["ca.crt", "tls.crt", "tls.key"]);
        self.case.kubectl(&[
            "create",
            "secret",
            "generic",
            SECRETS[0],
            "--from-literal=auth=digest:orders:s3cret",
        ]);
        let file = |key: &str, name: &str| format!("--from-file={key}={}", at(name));
        let [authority, certificate, key] = [
            file("ca.crt", "ca.crt"),
            file("tls.crt", "stranger.crt"),
            file("tls.key", "stranger.key"),
        ];
        let guessed = "--from-literal=auth=digest:orders:guessed";
        self.case.kubectl(&[
            "create",
            "secret",
            "generic",
            STRANGER,
            guessed,
            &authority,
            &certificate,
            &key,
        ]);
    }

    /// The servers with their ports, as every client takes them.
    pub(crate) fn servers(&self) -> String {
        let port = if self.secured { 2281 } else { 2181 };
        SERVERS.map(|server| format!("{server}:{port}")).join(",")
    }

    /// A sidecar's values for this ensemble.
    pub(crate) fn values(&self) -> Value {
        let mut zookeeper = json!({ "servers": self.servers() });
        if self.secured {
            zookeeper["authSecret"] = SECRETS[0].into();
            zookeeper["caSecret"] = SECRETS[1].into();
            zookeeper["certificateSecret"] = SECRETS[1].into();
        }
        json!({ "backend": "zookeeper", "zookeeper": zookeeper })
    }

    /// Restarts the servers one after another, each when the previous one serves again.
    #[track_caller]
    pub(crate) fn restart(&self) {
        self.case.note("restarting the servers one after another");
        self.case.kubectl(&["rollout", "restart", "statefulset/zk"]);
        self.await_servers();
    }

    /// Installs a shop with another certificate and another password of the same user, and expects
    /// the store's refusal. The scheme `digest` accepts any password; the access list of existing
    /// znodes refuses it.
    #[track_caller]
    pub(crate) fn assert_refuses_a_stranger(&self) {
        let case = self.case;
        case.note("installing a shop with a guessed password");
        let mut sidecar = self.values();
        merge(
            &mut sidecar,
            json!({ "zookeeper": { "authSecret": STRANGER, "certificateSecret": STRANGER } }),
        );
        let values = case.values(
            json!({ "replicas": 1, "automountServiceAccountToken": false, "baton": sidecar }),
        );
        case.helm_with(&["install", "shop", "tests/e2e/shop"], &values);
        let (_, message) = case.wait_for_event("store_refuses", "shop");
        assert!(message.contains("--zookeeper-auth-file"), "no advice in: {message}");
        case.helm(&["uninstall", "shop", "--wait"]);
        case.wait_for_pods(SHOP, 0);
    }

    #[track_caller]
    fn await_servers(&self) {
        self.case.kubectl(&["rollout", "status", "statefulset/zk", "--timeout=120s"]);
    }

    /// Removes the servers and the Secrets.
    #[track_caller]
    pub(crate) fn remove(self) {
        self.case.helm(&["uninstall", "zk", "--wait"]);
        if self.secured {
            self.case.kubectl(&["delete", "secret", "zk", SECRETS[0], SECRETS[1], STRANGER]);
        }
    }
}
