//! The proxy, tested with a real API server: replies that are lost, and writes that come late.

use super::pump::{CLOSE_NOTIFY, DELAY};
use super::{Direction, Flow, POLL, Proxy};
use crate::rig::apiserver::{Access, ApiServer};
use crate::rig::eventually;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{Api, ObjectMeta, Patch, PatchParams};
use serde_json::json;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(10);

/// How long a candidate waits for the answer to a write.
const TIMEOUT: Duration = Duration::from_millis(200);

/// An administrator, who has created the Lease.
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

/// Reads, applies an order to the proxy, and writes on the same connection. Returns whether it was
/// answered.
fn writes(access: &Access, proxy: &Proxy, order: impl FnOnce()) -> bool {
    let answered = access.through(proxy.address()).call(async |client| {
        let leases = Api::<Lease>::default_namespaced(client);
        leases.get("orders").await?;
        order();
        let patch = Patch::Merge(json!({"spec": {"holderIdentity": "second"}}));
        let answer =
            timeout(TIMEOUT, leases.patch("orders", &PatchParams::default(), &patch)).await;
        // Let the client close a connection that it has abandoned.
        sleep(TIMEOUT).await;
        Ok(answer.is_ok_and(|answer| answer.is_ok()))
    });
    answered.unwrap()
}

#[test]
fn requests_pass_on_both_loopback_addresses() {
    let access = writer();
    for proxy in [
        Proxy::to(ApiServer::shared().address()),
        Proxy::on(Ipv6Addr::LOCALHOST.into(), ApiServer::shared().address()),
    ] {
        assert!(writes(&access, &proxy, || ()));
    }
}

#[test]
fn write_whose_reply_is_lost_is_applied() {
    let access = writer();
    let proxy = Proxy::to(ApiServer::shared().address());
    assert!(!writes(&access, &proxy, || proxy.set(Direction::Replies, Flow::Lose)));
    assert_eq!(holder(&access), "second");
    proxy.set(Direction::Replies, Flow::Pass);
    assert!(writes(&access, &proxy, || ()));
}

#[test]
fn held_write_is_applied_after_its_sender_is_gone() {
    let access = writer();
    let proxy = Proxy::to(ApiServer::shared().address());
    assert!(!writes(&access, &proxy, || proxy.set(Direction::Requests, Flow::Hold)));
    assert!(proxy.held(Direction::Requests) > 0);
    assert_eq!(holder(&access), "first");
    proxy.set(Direction::Requests, Flow::Pass);
    eventually(PATIENCE, "the late write is applied", || holder(&access) == "second");
}

#[test]
fn held_request_in_two_pieces_is_delivered_at_once() {
    let sink = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::to(sink.local_addr().unwrap());
    proxy.set(Direction::Requests, Flow::Hold);
    let mut sender = TcpStream::connect(proxy.address()).unwrap();
    let mut receiver = sink.accept().unwrap().0;
    let (begins, length) = CLOSE_NOTIFY;
    let close_notify = [begins, &[0; 24]].concat()[..length].to_vec();
    let mut expected = 0;
    // As on a busy machine: one read returns the closing record with the bytes before it.
    for piece in [&[1; 4], &*[&[2; 4], &*close_notify].concat()] {
        sender.write_all(piece).unwrap();
        expected += piece.len();
        eventually(PATIENCE, "the piece is held", || proxy.held(Direction::Requests) == expected);
    }
    drop(sender);
    // Let the proxy see the end first. Otherwise this test could miss a fault.
    thread::sleep(20 * POLL);
    proxy.set(Direction::Requests, Flow::Pass);
    receiver.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    let mut request = [0; 8];
    receiver.read_exact(&mut request).expect("the whole request arrives");
    receiver.set_nonblocking(true).unwrap();
    assert_eq!(
        receiver.read(&mut request).unwrap_err().kind(),
        ErrorKind::WouldBlock,
        "the closing record waits"
    );
    receiver.write_all(&request).unwrap();
    receiver.set_nonblocking(false).unwrap();
    let mut last = Vec::new();
    receiver.read_to_end(&mut last).unwrap();
    assert_eq!(last, close_notify);
}

#[test]
fn held_bytes_are_dropped_with_their_connection() {
    let access = writer();
    let proxy = Proxy::to(ApiServer::shared().address());
    assert!(!writes(&access, &proxy, || proxy.set(Direction::Requests, Flow::Hold)));
    proxy.cut();
    eventually(PATIENCE, "nothing is held", || proxy.held(Direction::Requests) == 0);
    proxy.set(Direction::Requests, Flow::Pass);
    assert_eq!(holder(&access), "first");
}

#[test]
fn proxy_can_close_connections_and_change_its_target() {
    let access = writer();
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let proxy = Proxy::to(unused);
    assert!(access.through(proxy.address()).lease("orders").is_err());
    proxy.retarget(ApiServer::shared().address());
    assert!(writes(&access, &proxy, || ()));
    assert!(!writes(&access, &proxy, || proxy.set(Direction::Replies, Flow::Close)));
    assert!(access.through(proxy.address()).lease("orders").is_err());
}

#[test]
fn passing_bytes_are_never_counted_as_held() {
    let sink = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::to(sink.local_addr().unwrap());
    let mut sender = TcpStream::connect(proxy.address()).unwrap();
    let mut receiver = sink.accept().unwrap().0;
    let mut byte = [0];
    for _ in 0..500 {
        sender.write_all(&byte).unwrap();
        for _ in 0..50 {
            assert_eq!(proxy.held(Direction::Requests), 0);
        }
        receiver.read_exact(&mut byte).unwrap();
    }
    proxy.hold_at(&byte);
    sender.write_all(&byte).unwrap();
    eventually(PATIENCE, "the matching bytes are held", || {
        proxy.held(Direction::Requests) == byte.len()
    });
}

/// A connection through a proxy: the proxy, the client's end, and the server's.
fn connected() -> (Proxy, TcpStream, TcpStream) {
    let sink = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::to(sink.local_addr().unwrap());
    let client = TcpStream::connect(proxy.address()).unwrap();
    let server = sink.accept().unwrap().0;
    for end in [&client, &server] {
        end.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    (proxy, client, server)
}

#[test]
fn delayed_bytes_arrive_late_and_whole() {
    let (proxy, mut client, mut server) = connected();
    proxy.set(Direction::Replies, Flow::Delay);
    let begun = Instant::now();
    server.write_all(b"late").unwrap();
    let mut reply = [0; 4];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"late");
    assert!(begun.elapsed() >= DELAY, "they arrived after {:?}", begun.elapsed());
    assert!(proxy.affected() > 0);
    let affected = proxy.affected();
    client.write_all(b"soon").unwrap();
    server.read_exact(&mut reply).unwrap();
    assert_eq!(proxy.affected(), affected, "the other direction passes");
}

#[test]
fn truncated_reply_ends_in_the_middle_with_its_connection() {
    let (proxy, mut client, mut server) = connected();
    proxy.set(Direction::Replies, Flow::Truncate);
    server.write_all(b"halfhalf").unwrap();
    let mut reply = Vec::new();
    client.read_to_end(&mut reply).unwrap();
    assert_eq!(reply, b"half");
    assert!(proxy.affected() > 0);
    assert_eq!(server.read(&mut [0]).unwrap(), 0, "the server's end is closed too");
}

#[test]
fn carried_bytes_are_those_of_both_directions() {
    let (proxy, mut client, mut server) = connected();
    client.write_all(b"ask").unwrap();
    server.read_exact(&mut [0; 3]).unwrap();
    server.write_all(b"reply").unwrap();
    client.read_exact(&mut [0; 5]).unwrap();
    assert_eq!(proxy.carried(), 8);
    assert_eq!(proxy.affected(), 0);
}
