//! Reconnecting: to the same cluster, with new credentials and certificates, without delaying
//! others.

use crate::rig::{
    Access, ApiServer, ELECTION, Leases, Pod, Rig, Store as _, Timing, eventually, throughout,
};
use serde_json::{Value, json};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// Durations with slack for a revoked token, which an API server accepts for ten more seconds.
const PATIENT: Timing = Timing::of_ms(60_000, 45_000, 1000, 1000);

/// The address of another cluster, which records whether a client connects.
struct Elsewhere(TcpListener);

impl Elsewhere {
    fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    fn address(&self) -> String {
        format!("https://{}", self.0.local_addr().unwrap())
    }

    fn was_visited(&self) -> bool {
        self.0.accept().is_ok()
    }
}

fn read(access: &Access) -> Value {
    serde_json::from_slice(&fs::read(access.kubeconfig()).unwrap()).unwrap()
}

fn replace(path: &Path, content: &str) {
    let draft: PathBuf = path.with_extension("draft");
    fs::write(&draft, content).unwrap();
    fs::rename(draft, path).unwrap();
}

fn is_refused(access: &Access) -> bool {
    access.lease(ELECTION).is_err()
}

#[test]
fn new_current_context_does_not_change_the_cluster() {
    let rig = Rig::over(Leases::fresh(), PATIENT);
    let (account, elsewhere) = (&rig.store.account, Elsewhere::open());
    let (old, new) = (account.another_token(), account.another_token());
    let before = account.access.identified_by("before", json!({ "token": old.text }));
    let mut kubeconfig = read(&before);
    let mut add = |list: &str, one| kubeconfig[list].as_array_mut().unwrap().push(one);
    add("clusters", json!({ "name": "other", "cluster": { "server": elsewhere.address() } }));
    add("contexts", json!({ "name": "other", "context": { "cluster": "other", "user": "it" } }));
    let path = rig.folder().join("kubeconfig");
    replace(&path, &kubeconfig.to_string());
    let leader = rig.candidate("leader").flag("--kubeconfig", path.to_str().unwrap()).start();
    assert_eq!(rig.leader().identity, leader.identity);

    kubeconfig["current-context"] = "other".into();
    kubeconfig["users"][0]["user"]["token"] = new.text.clone().into();
    replace(&path, &kubeconfig.to_string());
    old.revoke();
    eventually(PATIENCE, "the old token is rejected", || is_refused(&before));
    let refused = rig.now();
    eventually(PATIENCE, "it renews with the new one", || {
        rig.written(ELECTION) > refused + rig.timing.retry_period
    });
    assert!(leader.is_healthy() && rig.holds(&leader));
    assert!(!elsewhere.was_visited(), "it connected to another cluster");
    assert_eq!(rig.tokens(ELECTION).len(), 1, "there was one term");
}

#[test]
fn context_that_now_names_another_cluster_is_refused() {
    let rig = Rig::over(Leases::fresh(), PATIENT);
    let (account, elsewhere) = (&rig.store.account, Elsewhere::open());
    let (old, new) = (account.another_token(), account.another_token());
    let before = account.access.identified_by("before", json!({ "token": old.text }));
    let path = rig.folder().join("kubeconfig");
    replace(&path, &read(&before).to_string());
    let leader = rig.candidate("leader").flag("--kubeconfig", path.to_str().unwrap()).start();
    assert_eq!(rig.leader().identity, leader.identity);

    let mut moved = read(&account.access.identified_by("after", json!({ "token": new.text })));
    let here = moved["clusters"][0]["cluster"]["server"].take();
    moved["clusters"][0]["cluster"]["server"] = elsewhere.address().into();
    replace(&path, &moved.to_string());
    old.revoke();
    eventually(PATIENCE, "it is refused", || !leader.events("store_refuses").is_empty());
    let message = leader.events("store_refuses")[0]["message"].to_string();
    assert!(message.contains(&format!("now names {}", elsewhere.address())), "{message}");
    assert!(!elsewhere.was_visited(), "it connected to another cluster");

    moved["clusters"][0]["cluster"]["server"] = here;
    replace(&path, &moved.to_string());
    eventually(PATIENCE, "it is admitted again", || !leader.events("store_back").is_empty());
    assert!(leader.is_healthy() && rig.holds(&leader) && !elsewhere.was_visited());
}

#[test]
fn replaced_certificate_authority_is_trusted() {
    let mut server = ApiServer::start();
    let rig = Rig::over(Leases::on(&server), PATIENT);
    let account = &rig.store.account;
    let pod = Pod::of(account, server.address());
    let leader = rig.start_leader("leader");
    let follower = rig.candidate("follower").within(&pod).start();
    eventually(PATIENCE, "it follows", || rig.has_standing(&follower, "following"));

    server.rotate_authority(|| {
        pod.mount(&account.token, account);
        let renewed = rig.store.written(ELECTION);
        eventually(PATIENCE, "it renews", || rig.store.written(ELECTION) > renewed);
    });
    let rotated = rig.now();
    eventually(PATIENCE, "it renews with the new certificate", || rig.written(ELECTION) > rotated);
    assert!(rig.holds(&leader));
    leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    let (new, _) = rig.successor(&leader, rotated, PATIENCE);
    assert_eq!(new.identity, follower.identity);
}

/// A credential program that hangs while a file exists.
#[test]
fn hanging_credential_program_runs_once_and_blocks_nothing() {
    let rig = Rig::over(Leases::fresh(), PATIENT);
    let account = &rig.store.account;
    let (old, new) = (account.another_token(), account.another_token());
    let at = |name: &str| rig.folder().join(name);
    let print = |token: &str| {
        let credential = json!({ "kind": "ExecCredential", "status": { "token": token } });
        replace(&at("credential"), &credential.to_string());
    };
    let folder = rig.folder().display();
    let script = format!(
        "echo run >> {folder}/runs; test -e {folder}/hang && exec sleep 600; cat {folder}/credential"
    );
    let program = json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script], "interactiveMode": "Never",
    } });
    print(&old.text);
    let access = account.access.identified_by("hanging", program);
    let leader = rig.candidate("leader").by(&access).state_directory(&at("state")).start();
    assert_eq!(rig.leader().identity, leader.identity);
    let runs = || fs::read_to_string(at("runs")).unwrap().lines().count();
    assert_eq!(runs(), 1, "it runs only once at the start");

    fs::write(at("hang"), "").unwrap();
    print(&new.text);
    old.revoke();
    eventually(PATIENCE, "the program runs again", || runs() > 1);
    throughout(Duration::from_secs(10), "one run hangs", || leader.is_alive() && runs() == 2);
    eventually(Duration::from_secs(2), "nothing else waits for it", || leader.is_healthy());
    assert_eq!(runs(), 2, "it still hangs");
    fs::remove_file(at("hang")).unwrap();
    eventually(PATIENCE, "it times out and runs again", || runs() > 2);
    let before = rig.now();
    eventually(PATIENCE, "the leader renews", || rig.written(ELECTION) > before);
    assert_eq!(rig.tokens(ELECTION).len(), 1, "there was one term");
    leader.terminate();
    assert_eq!(leader.exit_code(), 0, "it records its end, which may block");
}
