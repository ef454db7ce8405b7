//! Three servers of ZooKeeper in a case's namespace: the chart in `tests/e2e/ensemble`.

use super::case::Case;
use super::command::variable;
use super::shop::merge;
use super::typing::SHOP;
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
/// And that of somebody who has a certificate too, and guesses their password.
const STRANGER: &str = "stranger";

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

    /// What a sidecar's values say of it.
    pub(crate) fn values(&self) -> Value {
        let port = if self.secured { 2281 } else { 2181 };
        let mut zookeeper =
            json!({ "servers": SERVERS.map(|server| format!("{server}:{port}")).join(",") });
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

    /// A shop that has another certificate and another password of the same user joins the case's election, and is told so. The
    /// scheme itself lets every password in: closed is what was made under another one.
    #[track_caller]
    pub(crate) fn assert_refuses_a_stranger(&self) {
        let case = self.case;
        case.note("a stranger joins, who guesses the password");
        let mut sidecar = self.values();
        merge(
            &mut sidecar,
            json!({ "zookeeper": { "authSecret": STRANGER, "certificateSecret": STRANGER } }),
        );
        let values = case.values(
            json!({ "replicas": 1, "automountServiceAccountToken": false, "baton": sidecar }),
        );
        case.helm_with(&["install", "shop", "tests/e2e/shop"], &values);
        let (_, told) = case.event("store_refuses", "shop");
        assert!(told.contains("--zookeeper-auth-file"), "it is not told what to mend: {told}");
        case.helm(&["uninstall", "shop", "--wait"]);
        case.settle(SHOP, 0);
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
            self.case.kubectl(&["delete", "secret", "zk", SECRETS[0], SECRETS[1], STRANGER]);
        }
    }
}
