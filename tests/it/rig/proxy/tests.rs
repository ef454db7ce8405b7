//! The proxy, tested with what it is for: writes to a Lease whose replies are lost, and writes that come late.

use super::{FAREWELL, Flow, LOOK, Proxy, Way};
use crate::rig::apiserver::{Access, ApiServer};
use crate::rig::eventually;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{Api, ObjectMeta, Patch, PatchParams};
use serde_json::json;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(10);

/// How long a candidate waits for the answer to a write.
const TIME_OUT: Duration = Duration::from_millis(200);

/// Somebody who may write the Lease, and has.
fn writer() -> Access {
    let admin = ApiServer::shared().namespace().admin;
    let metadata = ObjectMeta { name: Some("orders".to_owned()), ..ObjectMeta::default() };
    let spec = LeaseSpec { holder_identity: Some("first".to_owned()), ..LeaseSpec::default() };
    admin.put(&Lease { metadata, spec: Some(spec) }).unwrap();
    admin
}

fn holder(access: &Access) -> String {
    let spec = access.lease("orders").unwrap().and_then(|lease| lease.spec);
    spec.and_then(|spec| spec.holder_identity).unwrap()
}

/// Reads, does something to the proxy, and writes in the same connection. Returns whether there was an answer.
fn writes(access: &Access, proxy: &Proxy, order: impl FnOnce()) -> bool {
    let answered = access.through(proxy.address()).call(async |client| {
        let leases = Api::<Lease>::default_namespaced(client);
        leases.get("orders").await?;
        order();
        let patch = Patch::Merge(json!({"spec": {"holderIdentity": "second"}}));
        let answer =
            timeout(TIME_OUT, leases.patch("orders", &PatchParams::default(), &patch)).await;
        // So that the client can close a connection that it gave up.
        sleep(TIME_OUT).await;
        Ok(answer.is_ok_and(|answer| answer.is_ok()))
    });
    answered.unwrap()
}

#[test]
fn it_passes_over_both_loopback_addresses() {
    let access = writer();
    for proxy in [
        Proxy::to(ApiServer::shared().address()),
        Proxy::on(Ipv6Addr::LOCALHOST.into(), ApiServer::shared().address()),
    ] {
        assert!(writes(&access, &proxy, || ()));
    }
}

#[test]
fn a_write_whose_reply_is_lost_is_applied() {
    let access = writer();
    let proxy = Proxy::to(ApiServer::shared().address());
    assert!(!writes(&access, &proxy, || proxy.set(Way::Replies, Flow::Lose)));
    assert_eq!(holder(&access), "second");
    proxy.set(Way::Replies, Flow::Pass);
    assert!(writes(&access, &proxy, || ()));
}

#[test]
fn a_write_that_is_held_is_applied_late_although_its_sender_is_gone() {
    let access = writer();
    let proxy = Proxy::to(ApiServer::shared().address());
    assert!(!writes(&access, &proxy, || proxy.set(Way::Requests, Flow::Hold)));
    assert!(proxy.held(Way::Requests) > 0);
    assert_eq!(holder(&access), "first");
    proxy.set(Way::Requests, Flow::Pass);
    eventually(PATIENCE, "the late write is applied", || holder(&access) == "second");
}

#[test]
fn a_request_that_came_in_two_pieces_is_delivered_without_a_wait_between_them() {
    let sink = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::to(sink.local_addr().unwrap());
    proxy.set(Way::Requests, Flow::Hold);
    let mut sender = TcpStream::connect(proxy.address()).unwrap();
    let mut receiver = sink.accept().unwrap().0;
    let (begins, length) = FAREWELL;
    let farewell = [begins, &[0; 24]].concat()[..length].to_vec();
    let mut expected = 0;
    // As a busy machine may read it: the farewell with what comes before it.
    for piece in [&[1; 4], &*[&[2; 4], &*farewell].concat()] {
        sender.write_all(piece).unwrap();
        expected += piece.len();
        eventually(PATIENCE, "the piece is held", || proxy.held(Way::Requests) == expected);
    }
    drop(sender);
    // So that the proxy sees the end first: it is right without that too, but then a wrong one may go unnoticed.
    thread::sleep(20 * LOOK);
    proxy.set(Way::Requests, Flow::Pass);
    receiver.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    let mut request = [0; 8];
    receiver.read_exact(&mut request).expect("half a request is never answered");
    receiver.set_nonblocking(true).unwrap();
    assert_eq!(
        receiver.read(&mut request).unwrap_err().kind(),
        ErrorKind::WouldBlock,
        "the farewell waits"
    );
    receiver.write_all(&request).unwrap();
    receiver.set_nonblocking(false).unwrap();
    let mut last = Vec::new();
    receiver.read_to_end(&mut last).unwrap();
    assert_eq!(last, farewell);
}

#[test]
fn what_is_held_is_gone_with_its_connection() {
    let access = writer();
    let proxy = Proxy::to(ApiServer::shared().address());
    assert!(!writes(&access, &proxy, || proxy.set(Way::Requests, Flow::Hold)));
    proxy.cut();
    eventually(PATIENCE, "nothing is held", || proxy.held(Way::Requests) == 0);
    proxy.set(Way::Requests, Flow::Pass);
    assert_eq!(holder(&access), "first");
}

#[test]
fn it_closes_and_can_be_aimed_elsewhere() {
    let access = writer();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let proxy = Proxy::to(nobody);
    assert!(access.through(proxy.address()).lease("orders").is_err());
    proxy.aim(ApiServer::shared().address());
    assert!(writes(&access, &proxy, || ()));
    assert!(!writes(&access, &proxy, || proxy.set(Way::Replies, Flow::Close)));
    assert!(access.through(proxy.address()).lease("orders").is_err());
}

#[test]
fn what_only_passes_is_never_held() {
    let sink = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::to(sink.local_addr().unwrap());
    let mut sender = TcpStream::connect(proxy.address()).unwrap();
    let mut receiver = sink.accept().unwrap().0;
    let mut byte = [0];
    for _ in 0..500 {
        sender.write_all(&byte).unwrap();
        for _ in 0..50 {
            assert_eq!(proxy.held(Way::Requests), 0);
        }
        receiver.read_exact(&mut byte).unwrap();
    }
    proxy.hold_at(&byte);
    sender.write_all(&byte).unwrap();
    eventually(PATIENCE, "what is awaited is held", || proxy.held(Way::Requests) == byte.len());
}
