//! `baton compat leader-elector`: old flags, old clients, and the locks of old candidates.
//!
//! Touches the shared API server and processes. Start with [`CompatCandidate`].

use crate::rig::{Access, ApiServer, ELECTION, Namespace, eventually, throughout};
use k8s_openapi::api::core::v1::{ConfigMap, Endpoints};
use kube::Resource;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);
/// The lease duration in the locks and of the candidates.
const TTL: Duration = Duration::from_secs(2);
/// The name that an application knows as its own.
const ID: &str = "shop-0";
const ANNOTATION: &str = "control-plane.alpha.kubernetes.io/leader";

/// A client of leader-elector 0.5: its answer names the leader, and a leader knows its own name.
const OLD_CLIENT: &str = r#"
import json, sys, urllib.request
print(json.load(urllib.request.urlopen(sys.argv[1]))["name"] == sys.argv[2])
"#;

/// A client of nais' elector: `ELECTOR_PATH` is an address, and `ELECTOR_GET_URL` a URL.
const NAIS_CLIENT: &str = r#"
import json, os, sys, urllib.request
urls = "http://" + os.environ["ELECTOR_PATH"], os.environ["ELECTOR_GET_URL"]
answers = [json.load(urllib.request.urlopen(url)) for url in urls]
print(all(a["name"] == sys.argv[1] and a["last_update"].endswith("Z") for a in answers))
"#;

/// A candidate that was started with old flags; it is killed at the end of the test.
struct CompatCandidate {
    process: Child,
    folder: TempDir,
}

impl CompatCandidate {
    fn start(kubeconfig: &Path, namespace: &str, variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("there is room");
        let log = File::create(folder.path().join("log")).expect("the folder is ours");
        let mut baton = Command::new(env!("CARGO_BIN_EXE_baton"));
        baton.env_clear().envs(variables.iter().copied()).args(["compat", "leader-elector"]);
        baton.args([format!("--id={ID}"), format!("--ttl={}s", TTL.as_secs())]);
        baton.args(["--use-cluster-credentials=false", "--probe-address=localhost:0"]);
        baton.arg(format!("--kubeconfig={}", kubeconfig.display()));
        if variables.is_empty() {
            baton.args([format!("--election={ELECTION}"), "--http=0.0.0.0:0".to_owned()]);
            baton.arg(format!("--election-namespace={namespace}"));
        }
        Self { process: baton.stderr(log).spawn().expect("the program is built"), folder }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).expect("the file is ours")
    }

    /// The value of this field of the event, once it is logged.
    fn logged(&self, event: &str, field: &str) -> Option<String> {
        let events = |line: &str| serde_json::from_str::<Value>(line).ok();
        let mut events = self.log().lines().filter_map(events).collect::<Vec<_>>().into_iter();
        let found = events.find(|line| line["event"] == event)?;
        Some(found[field].as_str().expect("the field is a text").to_owned())
    }

    fn leads(&self) -> bool {
        self.logged("leading", "identity").is_some()
    }

    fn address(&self) -> String {
        self.logged("starting", "listen").expect("it has started")
    }

    fn exit_code(&mut self) -> i32 {
        let mut status = None;
        eventually(PATIENCE, "it ends", || {
            status = self.process.try_wait().expect("it is our child");
            status.is_some()
        });
        status.and_then(|status| status.code()).expect("no signal ended it")
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }
}

impl Drop for CompatCandidate {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Runs a client in Python.
fn client(script: &str, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let mut python = Command::new("python3");
    python.arg("-c").arg(script).args(arguments).envs(variables.iter().copied());
    let Output { stdout, stderr, .. } = python.output().expect("Python is installed");
    assert!(stderr.is_empty(), "{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).expect("it prints text")
}

/// An object that older sidecars lock.
trait Lock:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()>
    + Clone
    + Debug
    + Default
    + Serialize
    + DeserializeOwned
{
    const RESOURCE: &'static str;
}

impl Lock for Endpoints {
    const RESOURCE: &'static str = "endpoints";
}

impl Lock for ConfigMap {
    const RESOURCE: &'static str = "configmaps";
}

/// Makes the lock name `holder`, renewed for the `renewal`th time.
fn lock<L: Lock>(admin: &Access, holder: &str, renewal: u32) {
    let record = json!({
        "holderIdentity": holder,
        "leaseDurationSeconds": TTL.as_secs(),
        "acquireTime": "2026-01-01T00:00:00Z",
        "renewTime": format!("2026-01-01T00:00:{renewal:02}Z"),
        "leaderTransitions": 0,
    });
    let annotations = json!({ ANNOTATION: record.to_string() });
    let patch = json!({ "metadata": { "annotations": annotations } });
    let locked = admin.call(async |client| {
        let objects = Api::<L>::default_namespaced(client);
        if objects.get_opt(ELECTION).await?.is_none() {
            let mut object = L::default();
            *object.meta_mut() =
                ObjectMeta { name: Some(ELECTION.to_owned()), ..ObjectMeta::default() };
            objects.create(&PostParams::default(), &object).await?;
        }
        objects.patch(ELECTION, &PatchParams::default(), &Patch::Merge(&patch)).await
    });
    locked.expect("the administrator may");
}

/// Renews its lock until it is dropped.
struct OldCandidate {
    is_over: Arc<AtomicBool>,
    renewing: Option<JoinHandle<()>>,
}

impl OldCandidate {
    fn renew<L: Lock>(admin: &Access) -> Self {
        lock::<L>(admin, "shop-old", 0);
        let is_over = Arc::new(AtomicBool::new(false));
        let (admin, is_ended) = (admin.clone(), Arc::clone(&is_over));
        let renewing = thread::spawn(move || {
            for renewal in (0..60).cycle().skip(1) {
                if is_ended.load(Ordering::Relaxed) {
                    break;
                }
                lock::<L>(&admin, "shop-old", renewal);
                thread::sleep(TTL / 4);
            }
        });
        Self { is_over, renewing: Some(renewing) }
    }
}

impl Drop for OldCandidate {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.renewing.take().map(JoinHandle::join);
    }
}

fn kubeconfig(namespace: &Namespace) -> PathBuf {
    namespace.admin.kubeconfig().to_owned()
}

#[test]
fn older_flags_and_clients_work() {
    let namespace = ApiServer::shared().namespace();
    let leader = CompatCandidate::start(&kubeconfig(&namespace), &namespace.name, &[]);
    eventually(PATIENCE, "it leads", || leader.leads());
    let log = leader.log();
    assert!(log.contains("these flags mean: baton run --backend=lease"), "{log}");
    assert!(log.contains("--http 0.0.0.0:0 becomes localhost:0"), "{log}");
    let url = format!("http://{}/", leader.address());
    assert_eq!(client(OLD_CLIENT, &[&url, ID], &[]), "True\n");
    let follower = CompatCandidate::start(&kubeconfig(&namespace), &namespace.name, &[]);
    eventually(PATIENCE, "it follows", || follower.logged("following", "leader").is_some());
    let url = format!("http://{}/", follower.address());
    assert_eq!(client(OLD_CLIENT, &[&url, ID], &[]), "False\n", "both candidates have one name");
}

#[test]
fn variables_and_clients_of_nais_work() {
    let namespace = ApiServer::shared().namespace();
    let variables = [
        ("ELECTOR_ELECTION", ELECTION),
        ("ELECTOR_ELECTION_NAMESPACE", namespace.name.as_str()),
        ("ELECTOR_HTTP", "localhost:0"),
        ("ELECTOR_LOG_FORMAT", "json"),
        ("ELECTOR_LOG_LEVEL", "info"),
        ("ELECTOR_METRICS_ADDRESS", "0.0.0.0:9090"),
    ];
    let leader = CompatCandidate::start(&kubeconfig(&namespace), &namespace.name, &variables);
    eventually(PATIENCE, "it leads", || leader.leads());
    assert!(leader.log().contains("nothing listens at --metrics-address"), "{}", leader.log());
    let address = leader.address();
    let url = format!("http://{address}/");
    let variables = [("ELECTOR_PATH", address.as_str()), ("ELECTOR_GET_URL", url.as_str())];
    assert_eq!(client(NAIS_CLIENT, &[ID], &variables), "True\n");
}

/// While an old candidate renews the lock, Baton refuses to start; afterwards it leads.
fn held_lock_is_refused<L: Lock>() {
    let namespace = ApiServer::shared().namespace();
    let old = OldCandidate::renew::<L>(&namespace.admin);
    let mut refused = CompatCandidate::start(&kubeconfig(&namespace), &namespace.name, &[]);
    assert_eq!(refused.exit_code(), 2, "{}", refused.log());
    let text = format!("an older sidecar is running: {} ", L::RESOURCE);
    assert!(refused.log().contains(&text), "{}", refused.log());
    assert!(refused.log().contains("scale the older sidecars to zero"), "{}", refused.log());
    drop(old);
    let lease = namespace.admin.lease(ELECTION).expect("the administrator may");
    assert!(lease.is_none(), "it has not become a candidate");

    let waiting = CompatCandidate::start(&kubeconfig(&namespace), &namespace.name, &[]);
    eventually(PATIENCE, "it has seen the lock", || waiting.log().contains("names shop-old"));
    throughout(2 * TTL, "it waits for two lease durations", || !waiting.leads());
    eventually(PATIENCE, "it leads", || waiting.leads());
}

#[test]
fn follower_that_acquires_a_released_lock_is_noticed() {
    let namespace = ApiServer::shared().namespace();
    lock::<Endpoints>(&namespace.admin, "", 0);
    let mut refused = CompatCandidate::start(&kubeconfig(&namespace), &namespace.name, &[]);
    let has_seen = || refused.log().contains("names no holder");
    eventually(PATIENCE, "it has seen the lock", has_seen);
    lock::<Endpoints>(&namespace.admin, "shop-old", 1);
    assert_eq!(refused.exit_code(), 2, "{}", refused.log());
}

#[test]
fn held_endpoints_are_refused() {
    held_lock_is_refused::<Endpoints>();
}

#[test]
fn held_config_map_is_refused() {
    held_lock_is_refused::<ConfigMap>();
}

#[test]
fn account_that_may_not_read_older_locks_is_refused() {
    let namespace = ApiServer::shared().namespace();
    let account = namespace.account("shop", &[ELECTION]);
    let mut refused = CompatCandidate::start(account.access.kubeconfig(), &namespace.name, &[]);
    assert_eq!(refused.exit_code(), 77, "{}", refused.log());
    assert!(refused.log().contains("or grant get on "), "{}", refused.log());
}

#[test]
fn wait_for_an_older_lock_ends_at_a_signal() {
    let namespace = ApiServer::shared().namespace();
    lock::<Endpoints>(&namespace.admin, "shop-old", 0);
    let mut waiting = CompatCandidate::start(&kubeconfig(&namespace), &namespace.name, &[]);
    eventually(PATIENCE, "it has seen the lock", || waiting.log().contains("names shop-old"));
    kill_process(waiting.pid(), Signal::TERM).expect("it runs");
    assert_eq!(waiting.exit_code(), 0, "{}", waiting.log());
    let lease = namespace.admin.lease(ELECTION).expect("the administrator may");
    assert!(lease.is_none(), "it has not become a candidate");
}
