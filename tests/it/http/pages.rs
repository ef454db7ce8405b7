//! Requests that a web page in a browser on the same machine could send.

use super::{TIMING, get, pair, parse, send};
use crate::rig::Rig;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

#[test]
fn orders_need_their_header_and_a_loopback_host() {
    let rig = Rig::new(TIMING);
    let [leader, _] = pair(&rig);
    let order = |path: &str, headers: &str| {
        send(&leader.listen, &format!("POST {path}"), &format!("Content-Length: 0\r\n{headers}"))
    };
    for path in ["/stopping", "/resign", "/done?token=1"] {
        assert_eq!(order(path, "").status, 403);
        assert_eq!(order(path, "Host: evil.example\r\nBaton-Request: 1\r\n").status, 403);
    }
    let stopping = |headers: &str| order("/stopping", headers);
    assert_eq!(get(&leader.listen, "/leader").status, 200, "it still leads");
    assert_eq!(stopping("Baton-Request: 1\r\n").status, 204);
    assert_eq!(get(&leader.listen, "/leader").json()["standing"], "resigning");
}

/// A page whose domain resolves to loopback could read the answers, and its requests would count as
/// the application's polling.
#[test]
fn page_of_a_rebound_domain_gets_no_answer() {
    let rig = Rig::new(TIMING);
    let [leader, _] = pair(&rig);
    let name = leader.identity.rsplit_once('_').unwrap().0;
    let status = |request: &str, host: &str| {
        send(&leader.listen, request, &format!("Host: {host}\r\n")).status
    };
    for request in ["GET /leader", "GET /leader?promise=none", "GET /events", "GET /"] {
        for host in ["evil.example", "localhost.evil.example:4040", &format!("{name}.evil.example")]
        {
            assert_eq!(status(request, host), 403, "{request} to {host}");
        }
    }
    for host in ["localhost", "127.0.0.1:4040", "[::1]:4040", "10.0.0.7", name] {
        assert_eq!(status("GET /leader", host), 200, "{host}");
    }
    assert_eq!(status("GET /metrics", "baton.monitoring.svc"), 200);
    let mut stream = TcpStream::connect(&leader.listen).unwrap();
    stream.write_all(b"GET /leader HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(parse(&answer).status, 200, "load balancers check health without a host");
}
