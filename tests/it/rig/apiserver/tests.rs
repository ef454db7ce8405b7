//! Tests of the API server: it behaves as the other tests expect, and leaves nothing behind.

use super::ApiServer;
use crate::rig::eventually;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::ObjectMeta;
use serde_json::json;
use std::path::Path;
use std::time::Duration;

fn lease(name: &str, holder: &str) -> Lease {
    let spec = LeaseSpec { holder_identity: Some(holder.to_owned()), ..LeaseSpec::default() };
    Lease {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        spec: Some(spec),
    }
}

fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).expect("it has a holder")
}

/// The status code of a refusal.
fn refusal<T>(answer: kube::Result<T>) -> u16 {
    match answer {
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("no answer: {error}"),
        Ok(_) => panic!("it was not refused"),
    }
}

fn is_running(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn account_may_use_only_its_own_lease() {
    let started = ApiServer::start();
    let space = started.namespace();
    let account = space.account("candidate", &["orders"]);

    let created = account.access.put(&lease("orders", "a")).unwrap();
    assert_eq!(holder(&created), "a");
    assert_eq!(refusal(account.access.put(&lease("others", "a"))), 403);
    assert_eq!(refusal(account.access.delete("orders")), 403);

    let pids = [started.server.pid(), started.etcd.pid()];
    let folder = started.folder.path().to_owned();
    assert!(folder.exists() && pids.into_iter().all(is_running));
    drop(started);
    assert!(!folder.exists() && !pids.into_iter().any(is_running));
}

#[test]
fn server_keeps_its_objects_over_a_restart() {
    let mut started = ApiServer::start();
    let access = started.namespace().account("candidate", &["orders"]).access;
    let first = access.put(&lease("orders", "first")).unwrap();

    let address = started.address();
    started.server.kill();
    assert!(access.lease("orders").is_err());
    started.restart_on_another_port();
    assert_ne!(started.address(), address);
    assert_eq!(access.lease("orders").unwrap().unwrap(), first);

    for daemon in [&mut started.etcd, &mut started.server] {
        daemon.pause();
        daemon.resume();
    }
    started.save_snapshot();
    let second = access
        .put(&Lease { metadata: first.metadata.clone(), ..lease("orders", "second") })
        .unwrap();
    assert_eq!(access.lease("orders").unwrap().unwrap(), second);
    started.restore_snapshot();
    assert_eq!(access.lease("orders").unwrap().unwrap(), first);
}

#[test]
fn requests_are_counted_by_verb() {
    let started = ApiServer::start();
    let access = started.namespace().account("candidate", &["orders"]).access;
    let before = started.requests("leases");
    assert_eq!(access.lease("orders").unwrap(), None);
    access.put(&lease("orders", "a")).unwrap();
    assert_eq!(refusal(access.put(&lease("orders", "b"))), 422);
    let after = started.requests("leases");
    let more = |verb| after.get(verb).unwrap_or(&0) - before.get(verb).unwrap_or(&0);
    assert_eq!(["GET", "PUT", "POST", "PATCH", "LIST", "WATCH"].map(more), [1, 2, 0, 0, 0, 0]);
}

#[test]
fn role_can_be_revoked_and_granted_again() {
    let space = ApiServer::shared().namespace();
    let account = space.account("candidate", &["orders"]);
    account.revoke();
    assert_eq!(refusal(account.access.lease("orders")), 403);
    account.grant();
    assert_eq!(account.access.lease("orders").unwrap(), None);
}

#[test]
fn token_can_be_revoked_without_the_others() {
    let space = ApiServer::shared().namespace();
    let account = space.account("candidate", &["orders"]);
    let other = account.another_token();
    let access = account.access.with_token("other", &other.text);
    assert_eq!(access.lease("orders").unwrap(), None);
    other.revoke();
    // The server caches a token's validity for ten seconds.
    eventually(Duration::from_secs(15), "it is refused", || access.lease("orders").is_err());
    assert_eq!(refusal(access.lease("orders")), 401);
    assert_eq!(account.access.lease("orders").unwrap(), None);
}

#[test]
fn administrator_may_patch_and_delete() {
    let admin = ApiServer::shared().namespace().admin;
    admin.put(&lease("orders", "a")).unwrap();
    let patched = admin.patch("orders", &json!({"spec": {"holderIdentity": "stranger"}})).unwrap();
    assert_eq!(holder(&patched), "stranger");
    admin.delete("orders").unwrap();
    assert_eq!(admin.lease("orders").unwrap(), None);
}
