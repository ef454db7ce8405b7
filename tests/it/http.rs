//! The endpoints of a running sidecar on both listeners, tested with raw requests.

mod impostors;
mod pages;
mod strangers;
pub(crate) mod waiting;

use crate::docs::{listed_metrics, listed_requests};
use crate::rig::{Candidate, Rig, Timing, eventually, throughout};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::time::Duration;

const TIMING: Timing = Timing::CALM;
const PATIENCE: Duration = Duration::from_secs(5);

/// A parsed HTTP response.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.head.lines().filter_map(|line| line.split_once(": "));
        headers.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    fn json(&self) -> Value {
        assert!(self.body.ends_with("}\n"), "the body does not end in a newline: {:?}", self.body);
        serde_json::from_str(&self.body).unwrap()
    }
}

/// Sends a request with additional headers, and reads the response to its end.
fn send(address: &str, request: &str, headers: &str) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let host =
        if headers.contains("Host:") { String::new() } else { format!("Host: {address}\r\n") };
    write!(stream, "{request} HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    parse(&text)
}

fn parse(text: &str) -> Answer {
    let (head, body) =
        text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("not an answer: {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

fn get(address: &str, path: &str) -> Answer {
    send(address, &format!("GET {path}"), "")
}

/// Starts a leader and a follower.
fn pair(rig: &Rig) -> [std::sync::Arc<Candidate>; 2] {
    rig.start("a");
    let leader = rig.leader();
    let follower = rig.start("b");
    eventually(PATIENCE, "the second candidate follows", || {
        rig.has_standing(&follower, "following")
    });
    rig.wait_for_answers();
    [leader, follower]
}

#[test]
fn leader_endpoint_agrees_in_status_header_and_body() {
    let rig = Rig::new(TIMING);
    let [leader, follower] = pair(&rig);
    let yes = get(&leader.listen, "/leader");
    let body = yes.json();
    assert_eq!(yes.status, 200);
    assert_eq!(yes.header("cache-control"), Some("no-store"));
    assert_eq!(yes.header("fencing-token"), body["token"].as_str());
    assert_eq!(body["token"].as_str().map(|token| token.parse::<u128>().is_ok()), Some(true));
    assert_eq!(body["valid_for_ms"], 500);
    assert_eq!((&body["standing"], &body["is_leader"]), (&"leading".into(), &true.into()));
    assert_eq!(
        (body["leader"].as_str(), body["leader_name"].as_str()),
        (Some(&*leader.identity), Some("a"))
    );
    assert_eq!((&body["election"], &body["backend"]), (&"orders".into(), &"file".into()));

    let no = get(&follower.listen, "/leader");
    let body = no.json();
    assert_eq!((no.status, no.header("fencing-token")), (503, None));
    assert_eq!((&body["standing"], &body["token"]), (&"following".into(), &Value::Null));
    assert_eq!((&body["is_leader"], &body["valid_for_ms"]), (&false.into(), &0.into()));
    assert_eq!(body["leader"].as_str(), Some(&*leader.identity));
    assert_eq!(body["identity"].as_str(), Some(&*follower.identity));
}

#[test]
fn known_methods_are_answered_and_others_refused() {
    let rig = Rig::new(TIMING);
    let [leader, _] = pair(&rig);
    for method in ["HEAD", "OPTIONS"] {
        assert_eq!(send(&leader.listen, &format!("{method} /leader"), "").status, 200, "{method}");
    }
    assert_eq!(send(&leader.listen, "HEAD /leader", "").body, "");
    for (request, status) in [
        ("POST /leader", 405),
        ("DELETE /metrics", 405),
        ("GET /stopping", 405),
        ("GET /nothing", 404),
        ("GET /leader?pause=30s", 400),
        ("GET /leader?promise=yes", 400),
        ("GET /leader?asker=", 400),
        ("GET /leader?asker=a&asker=b", 400),
        ("GET /resign", 405),
        ("GET /done", 405),
    ] {
        let answer = send(&leader.listen, request, "Content-Length: 0\r\n");
        assert_eq!(answer.status, status, "{request}");
        assert!(answer.json()["error"].is_string(), "{request}");
    }
}

#[test]
fn request_without_a_promise_gets_the_same_answer() {
    let rig = Rig::new(TIMING);
    let [leader, follower] = pair(&rig);
    let observed = get(&leader.listen, "/leader?promise=none");
    assert_eq!((observed.status, observed.json()["valid_for_ms"].as_u64()), (200, Some(0)));
    assert_eq!(get(&follower.listen, "/leader?promise=none").status, 503);
}

#[test]
fn root_answers_like_older_sidecars() {
    let rig = Rig::new(TIMING);
    let [leader, follower] = pair(&rig);
    for (candidate, is_leader) in [(&leader, true), (&follower, false)] {
        let answer = get(&candidate.listen, "/");
        let body = answer.json();
        assert_eq!(answer.status, 200);
        assert_eq!(
            (body["name"].as_str(), body["is_leader"].as_bool()),
            (Some("a"), Some(is_leader))
        );
        assert_eq!(body["node"].as_str(), Some(&*candidate.identity));
        assert_eq!(body["leader"].as_str(), Some(&*leader.identity));
        for time in ["timestamp", "last_update"] {
            assert!(
                humantime::parse_rfc3339(body[time].as_str().unwrap()).is_ok(),
                "{time} in {body}"
            );
        }
    }
}

#[test]
fn follower_tells_apart_a_leader_of_the_same_name() {
    let rig = Rig::new(TIMING);
    rig.start("a");
    let former = rig.leader();
    rig.wait_for_answers();
    former.kill();
    let follower = rig.start("a");
    eventually(PATIENCE, "it follows", || rig.has_standing(&follower, "following"));
    let body = get(&follower.listen, "/").json();
    let identity = Some(&*former.identity);
    assert_eq!((body["name"].as_str(), body["leader"].as_str()), (identity, identity));
    assert_ne!(body["name"], "a", "a client that sees its own name acts as the leader");
    assert_eq!(get(&follower.listen, "/leader").json()["leader"].as_str(), Some(&*former.identity));
}

#[test]
fn unfinished_requests_do_not_exhaust_descriptors() {
    let rig = Rig::new(TIMING);
    let [leader, _] = pair(&rig);
    let strangers: Vec<_> = (0..400)
        .map(|_| {
            let mut stranger = TcpStream::connect(&leader.probe_listen).unwrap();
            stranger.write_all(b"GET /healthz HTTP/1.1\r\n").unwrap();
            stranger
        })
        .collect();
    throughout(TIMING.lease_duration, "it keeps leading", || {
        get(&leader.listen, "/leader").status == 200
    });
    let metrics = get(&leader.listen, "/metrics").body;
    let open = metrics.lines().find_map(|line| line.strip_prefix("process_open_fds ")).unwrap();
    let open: f64 = open.parse().unwrap();
    assert!(open < 200.0, "{open} descriptors for {} strangers", strangers.len());
}

#[test]
fn probe_listener_is_read_only_and_hides_identities() {
    let rig = Rig::new(TIMING);
    let [leader, _] = pair(&rig);
    for path in ["/healthz", "/readyz"] {
        assert_eq!(get(&leader.probe_listen, path).body, "ok\n");
    }
    assert!(get(&leader.probe_listen, "/version").json()["rustc"].is_string());
    let orders = ["POST /stopping", "POST /resign", "POST /done?token=1"];
    for request in ["GET /leader", "GET /"].into_iter().chain(orders) {
        let answer =
            send(&leader.probe_listen, request, "Baton-Request: 1\r\nContent-Length: 0\r\n");
        assert_eq!(answer.status, 404, "{request}");
    }
    assert!(!get(&leader.probe_listen, "/metrics").body.contains(&leader.identity));
}

/// A non-loopback address of this machine.
fn outer_address() -> IpAddr {
    // Connecting a UDP socket sends nothing: the kernel only chooses the source address.
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect("192.0.2.1:9").expect("the machine has a route");
    let ip = socket.local_addr().unwrap().ip();
    assert!(!ip.is_loopback(), "this machine has no address but loopback");
    ip
}

#[test]
fn stopping_is_refused_from_non_loopback_addresses() {
    let rig = Rig::new(TIMING);
    let leader = rig.candidate("a").flag("--listen", "0.0.0.0:0").start();
    rig.leader();
    rig.wait_for_answers();
    let port = leader.listen.rsplit_once(':').unwrap().1;
    let stopping = |address: &str| {
        send(
            address,
            "POST /stopping",
            "Host: localhost\r\nBaton-Request: 1\r\nContent-Length: 0\r\n",
        )
    };
    let refused = stopping(&format!("{}:{port}", outer_address()));
    assert_eq!(refused.status, 403, "{}", refused.body);
    assert!(refused.body.contains("loopback"), "{}", refused.body);
    assert_eq!(get(&leader.listen, "/leader").json()["standing"], "leading");
    assert_eq!(stopping(&format!("127.0.0.1:{port}")).status, 204);
}

#[test]
fn stopping_is_allowed_from_an_ipv4_mapped_loopback_address() {
    let rig = Rig::new(TIMING);
    let leader = rig.candidate("a").flag("--listen", ":0").start();
    rig.leader();
    rig.wait_for_answers();
    let port = leader.listen.rsplit_once(':').unwrap().1;
    let headers = "Baton-Request: 1\r\nContent-Length: 0\r\n";
    assert_eq!(send(&format!("127.0.0.1:{port}"), "POST /stopping", headers).status, 204);
}

#[test]
fn non_loopback_application_listener_warns() {
    for (listen, is_warned) in [
        ("127.0.0.1:0", false),
        ("[::1]:0", false),
        ("localhost:0", false),
        (":0", true),
        ("0.0.0.0:0", true),
    ] {
        let rig = Rig::new(TIMING);
        let candidate = rig.candidate("a").flag("--listen", listen).start();
        rig.leader();
        rig.wait_for_answers();
        let warnings = candidate.events("exposed_listener");
        assert_eq!(warnings.len(), usize::from(is_warned), "{listen}: {}", candidate.output());
        for warning in warnings {
            let message = warning["message"].as_str().unwrap();
            assert!(message.contains("--listen") && message.contains("localhost:"), "{message}");
        }
    }
}

#[test]
fn every_metric_exists_at_start_and_is_documented() {
    let rig = Rig::new(TIMING);
    let [leader, follower] = pair(&rig);
    for candidate in [&leader, &follower] {
        let answer = get(&candidate.listen, "/metrics");
        assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4"));
        let names =
            answer.body.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        let exported: BTreeSet<_> =
            names.filter(|name| !name.starts_with("process_")).map(str::to_owned).collect();
        assert_eq!(exported, listed_metrics());
        for (standing, is_current) in [
            ("unknown", false),
            ("following", candidate.identity == follower.identity),
            ("leading", candidate.identity == leader.identity),
            ("resigning", false),
        ] {
            let series = format!("baton_standing{{election=\"orders\",standing=\"{standing}\"}}");
            assert_eq!(
                candidate.metric(&series),
                Some(f64::from(u8::from(is_current))),
                "{series}"
            );
        }
        for reason in baton_election::machine::Reason::ALL {
            let series = format!("baton_losses_total{{election=\"orders\",reason=\"{reason}\"}}");
            assert_eq!(candidate.metric(&series), Some(0.0), "{series}");
        }
    }
    assert_eq!(leader.metric("leader_election_master_status{name=\"orders\"}"), Some(1.0));
    assert_eq!(follower.metric("baton_is_leader{election=\"orders\"}"), Some(0.0));
    assert_eq!(follower.metric("baton_has_leader{election=\"orders\"}"), Some(1.0));
}

#[test]
fn every_documented_request_is_answered() {
    let rig = Rig::new(TIMING);
    let leader = rig.candidate("a").flag("--on-lost", "stay").start();
    rig.leader();
    rig.wait_for_answers();
    let token = get(&leader.listen, "/leader").json()["token"].as_str().unwrap().to_owned();
    let requests = listed_requests();
    assert!(requests.len() >= 13, "{requests:?}");
    // A stream of events does not end: tests/it/http/waiting.rs reads it.
    for request in requests.into_iter().filter(|request| request != "GET /events") {
        let (methods, path) = request.rsplit_once(' ').unwrap();
        let path = path.replace("TOKEN", &token).replace("DURATION", "1s").replace("ID", "a");
        let path = path.replace("REVISION", "0");
        for method in methods.split(' ') {
            let headers = "Baton-Request: 1\r\nContent-Length: 0\r\n";
            let status = send(&leader.listen, &format!("{method} {path}"), headers).status;
            assert!([200, 204].contains(&status), "{method} {path}: {status}");
        }
    }
}

#[test]
fn listeners_answer_over_ipv4_and_ipv6() {
    let rig = Rig::new(TIMING);
    let candidate =
        rig.candidate("a").flag("--listen", "localhost:0").flag("--probe-listen", ":0").start();
    rig.leader();
    rig.wait_for_answers();
    let port = |address: &str| address.rsplit_once(':').unwrap().1.to_owned();
    for ip in ["127.0.0.1", "[::1]"] {
        assert_eq!(
            get(&format!("{ip}:{}", port(&candidate.listen)), "/leader").status,
            200,
            "{ip}"
        );
        assert_eq!(
            get(&format!("{ip}:{}", port(&candidate.probe_listen)), "/healthz").status,
            200,
            "{ip}"
        );
    }
}

#[test]
fn malformed_requests_are_rejected() {
    let rig = Rig::new(TIMING);
    let [leader, _] = pair(&rig);
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(1 << 20));
    for garbage in [
        "\r\n\r\n",
        "GET\r\n\r\n",
        "\u{0}\u{1}\u{2}\r\n\r\n",
        "GET /leader HTTP/9.9\r\n\r\n",
        &long,
    ] {
        let mut stream = TcpStream::connect(&leader.listen).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // The sidecar may close the connection before everything is written.
        stream.write_all(garbage.as_bytes()).ok();
        stream.shutdown(std::net::Shutdown::Write).ok();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok();
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    assert!(leader.is_healthy());
    assert_eq!(get(&leader.listen, "/leader").status, 200);
}
