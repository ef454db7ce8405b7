//! HTTP requests to a leading sidecar: method and path, then headers, one per line.
//!
//! The first byte selects the listener and whether the client is on this machine.

use axum::body::Body;
use axum::extract::ConnectInfo;
use baton::driver::leadership::{Publisher, publish};
use baton::driver::orders;
use baton::health::Health;
use baton::http::server::Activity;
use baton::http::{AppState, Waiting, application, probes};
use baton::process::clock::Clock;
use baton::telemetry::metrics::Metrics;
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::machine::{Election as _, Verb};
use baton_election::record::RecordElection;
use baton_election::record::messages::{
    Record, RecordEvent, RecordRequest, Snapshot, Stamp, Version,
};
use baton_election::timing::{Drift, Durations, Jitter, Timing};
use http_body_util::BodyExt as _;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, Response, StatusCode, Uri};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

const DAY: Duration = Duration::from_hours(24);

thread_local! {
    static SIDECAR: Sidecar = Sidecar::new();
}

/// A leading sidecar without a driver.
struct Sidecar {
    runtime: Runtime,
    state: Arc<AppState>,
    publisher: Publisher,
}

impl Sidecar {
    fn new() -> Self {
        let election = "orders".parse().expect("a name");
        let (publisher, reader) = publish(Duration::from_secs(2));
        let (machine, now) = leader();
        publisher.publish(machine.standing(), now);
        // Without a receiver, an order is answered at once.
        let (control, _) = orders();
        let metrics = Metrics::new(&election, &[Verb::Read]);
        let state = AppState {
            election,
            identity: Identity::parse("us_1").expect("a valid identity"),
            store: "file",
            reader,
            health: Health::default(),
            metrics,
            control,
            stopping_limit: DAY,
            default_hold_off: DAY,
            successor_timeout: DAY,
            asks_by_declaration: true,
            polled: Arc::default(),
            // No request waits for long.
            waiting: Waiting::new(Some(Duration::from_nanos(2))),
        };
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        Self { runtime, state: Arc::new(state), publisher }
    }
}

/// An election that leads for weeks.
fn leader() -> (RecordElection, Instant) {
    let durations = Durations {
        lease_duration: 90 * DAY,
        renew_deadline: 60 * DAY,
        retry_period: DAY,
        answer_validity: DAY,
    };
    let timing = Timing::new(durations, Drift::default()).expect("the durations are valid");
    let now = Clock.now();
    let us = Identity::parse("us_1").expect("a valid identity");
    let mut machine = RecordElection::new(us.clone(), timing, Jitter::new(1), now);
    assert_eq!(machine.poll_request(now), Some(RecordRequest::Read));
    machine.handle_event(RecordEvent::Read(None), now);
    let record = Record {
        holder: Some(us),
        duration: Some(90 * DAY),
        transitions: 0,
        acquired: Stamp::default(),
        renewed: Stamp::default(),
    };
    let created = machine
        .poll_request(now + Duration::from_secs(1))
        .expect("the candidate creates the record");
    assert!(matches!(created, RecordRequest::Write(_)), "{created:?}");
    let applied = Snapshot { version: Version { uid: "u".into(), number: 7 }, record };
    machine.handle_event(RecordEvent::Applied(applied), now);
    (machine, now)
}

pub(super) fn read(bytes: &[u8]) {
    let Some((listener, bytes)) = bytes.split_first() else { return };
    let is_application = listener % 2 == 0;
    let is_local = listener & 2 == 0;
    let Some(mut request) = request(bytes) else { return };
    let client = if is_local { Ipv4Addr::LOCALHOST } else { Ipv4Addr::new(10, 0, 0, 7) };
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from((client, 40_000))));
    request.extensions_mut().insert(Activity::without_slot());
    SIDECAR.with(|sidecar| check_response(sidecar, is_application, is_local, request));
}

/// Parses a request as hyper would, or returns `None` if hyper would reject it.
fn request(bytes: &[u8]) -> Option<Request<Body>> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let first = lines.next()?;
    let space = first.iter().position(|byte| *byte == b' ')?;
    let (method, path) = (&first[..space], &first[space + 1..]);
    let path: Uri = path
        .try_into()
        .ok()
        .filter(|uri: &Uri| uri.path().starts_with('/') || uri.path() == "*")?;
    let mut request = Request::builder().method(method).uri(path);
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        request = request.header(&line[..colon], line[colon + 1..].trim_ascii());
    }
    request.body(Body::empty()).ok()
}

fn check_response(sidecar: &Sidecar, is_application: bool, is_local: bool, request: Request<Body>) {
    let (method, uri, headers) =
        (request.method().to_string(), request.uri().clone(), request.headers().clone());
    let promised = sidecar.publisher.promised_until();
    let router = if is_application { application } else { probes }(Arc::clone(&sidecar.state));
    let (status, body) = sidecar.runtime.block_on(async {
        let Ok(response) = router.oneshot(request).await;
        let response: Response<Body> = response;
        let status = response.status();
        if response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream") {
            return (status, Bytes::new()); // An endless body.
        }
        (status, response.into_body().collect().await.expect("the body is in memory").to_bytes())
    });

    let is_get = matches!(&*method, "GET" | "HEAD");
    let (path, query) = (uri.path(), uri.query().unwrap_or_default());
    // Only the server decodes escapes, so this parser has no opinion on them.
    let parameters: Vec<_> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .collect();
    let has_escapes = query.contains(['%', '+']);
    let names_us = headers.get(HOST).is_none_or(|host| {
        name_of(host)
            .is_some_and(|name| name == "localhost" || name == "us" || address_of(&name).is_some())
    });
    let expected = match (path, is_application) {
        ("/leader", true) if !names_us && (is_get || method == "OPTIONS") => StatusCode::FORBIDDEN,
        ("/" | "/events", true) if !names_us && is_get => StatusCode::FORBIDDEN,
        ("/leader", true) if is_get || method == "OPTIONS" => match leader_query(&parameters) {
            Some(_) => StatusCode::OK,
            None => StatusCode::BAD_REQUEST,
        },
        ("/stopping" | "/resign" | "/done", true) if method == "POST" => {
            let has_header = headers.get("baton-request").is_some_and(|value| value == "1");
            let is_host_loopback = headers.get(HOST).is_some_and(is_loopback);
            if has_header && is_local && is_host_loopback {
                status_of_order(path, &parameters)
            } else {
                StatusCode::FORBIDDEN
            }
        }
        ("/" | "/events", true) | ("/healthz" | "/metrics" | "/version", _) if is_get => {
            StatusCode::OK
        }
        // The store has not answered yet.
        ("/readyz", _) if is_get => StatusCode::SERVICE_UNAVAILABLE,
        ("/leader" | "/events" | "/stopping" | "/resign" | "/done" | "/", true)
        | ("/healthz" | "/readyz" | "/metrics" | "/version", _) => StatusCode::METHOD_NOT_ALLOWED,
        _ => StatusCode::NOT_FOUND,
    };
    assert!(status == expected || has_escapes, "{method} {uri} {headers:?}: {status}");

    let is_promise = status == StatusCode::OK
        && (path == "/leader" && leader_query(&parameters) != Some(Promise::None) || path == "/");
    let has_promised = sidecar.publisher.promised_until() > promised;
    assert!(has_promised == is_promise || has_escapes, "promise by {method} {uri}");
    if method != "HEAD" && (status.is_client_error() || path == "/leader") {
        let json: serde_json::Value = serde_json::from_slice(&body).expect("the body is JSON");
        assert!(
            body.ends_with(b"\n") && json["error"].is_string() == status.is_client_error(),
            "{json}"
        );
    }
}

/// The promise that a valid query of `/leader` asks for.
#[derive(PartialEq, Eq)]
enum Promise {
    Ordinary,
    None,
}

fn leader_query(parameters: &[(&str, &str)]) -> Option<Promise> {
    let mut promise = Promise::Ordinary;
    for (key, value) in parameters {
        match *key {
            "promise" if *value == "none" => promise = Promise::None,
            "asker" if is_asker(value) => {}
            "wait" if humantime::parse_duration(value).is_ok() => {}
            "after" if value.parse::<u64>().is_ok() => {}
            _ => return None,
        }
    }
    let has = |name| parameters.iter().any(|(key, _)| *key == name);
    (is_unique(parameters) && has("wait") == has("after")).then_some(promise)
}

/// The status of a request that changes something, while the token is 7 and no driver runs.
fn status_of_order(path: &str, parameters: &[(&str, &str)]) -> StatusCode {
    let value = |name| parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
    let is_token =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u128>().is_ok();
    let known: &[&str] = match path {
        "/resign" => &["hold_off", "token"],
        "/done" => &["token", "asker"],
        _ => &[],
    };
    let is_known = parameters.iter().all(|(key, _)| known.contains(key));
    let is_valid = is_known
        && is_unique(parameters)
        && value("token").is_none_or(is_token)
        && value("asker").is_none_or(is_asker)
        && value("hold_off").is_none_or(|text| humantime::parse_duration(text).is_ok());
    match (path, value("token").and_then(|token| token.parse().ok())) {
        _ if !is_valid => StatusCode::BAD_REQUEST,
        ("/done", None) => StatusCode::BAD_REQUEST,
        ("/done", Some(7_u128)) | ("/stopping", _) => StatusCode::NO_CONTENT,
        (_, _) => StatusCode::CONFLICT,
    }
}

fn is_unique(parameters: &[(&str, &str)]) -> bool {
    let keys: BTreeSet<_> = parameters.iter().map(|(key, _)| key).collect();
    keys.len() == parameters.len()
}

fn is_asker(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !text.is_empty() && text.len() <= 64 && text.chars().all(is_plain)
}

/// Whether the Host header names a loopback address.
fn is_loopback(host: &HeaderValue) -> bool {
    name_of(host).is_some_and(|name| {
        name == "localhost" || address_of(&name).is_some_and(|address| address.is_loopback())
    })
}

/// The name in a Host header, in lower case, by another parser than the server's.
fn name_of(host: &HeaderValue) -> Option<String> {
    let authority = host.to_str().ok()?.parse::<hyper::http::uri::Authority>().ok()?;
    let name = authority.host();
    // Reject user information and ports that are not numbers.
    let is_number = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let rest = authority.as_str().strip_prefix(name)?;
    let is_host = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_number);
    is_host.then(|| name.to_ascii_lowercase())
}

/// The address that a host is. Only those of IPv6 have brackets.
fn address_of(name: &str) -> Option<IpAddr> {
    let bracketed = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let address: IpAddr = bracketed.unwrap_or(name).parse().ok()?;
    (address.is_ipv6() == bracketed.is_some()).then_some(address)
}
