//! Responses of an API server, or of a proxy in its place, to a read or a write.
//!
//! The first byte selects the fuzzed response and its status. The rest is its body, or from 128 on,
//! the value of one field in an ordinary body.

use baton::config::Cluster;
use baton::store::Store as _;
use baton::store::kubernetes::LeaseStore;
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::machine::Election as _;
use baton_election::record::RecordElection;
use baton_election::record::messages::{Intent, RecordEvent, RecordRequest, Snapshot, Write};
use baton_election::timing::{Drift, Durations, Jitter, Timing};
use http_body_util::{BodyExt as _, Collected, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

const STATUSES: [u16; 12] = [200, 200, 201, 400, 401, 403, 404, 409, 410, 422, 429, 503];
/// An ordinary response.
const ORDINARY: &str = r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease",
    "metadata":{"name":"orders","uid":"u","resourceVersion":"7"},
    "spec":{"holderIdentity":"them_1","leaseDurationSeconds":15}}"#;
/// The values in [`ORDINARY`] that an input can replace.
const ORDINARY_VALUES: [&str; 5] = ["15", r#""7""#, r#""them_1""#, r#""u""#, r#""orders""#];

thread_local! {
    static CLUSTER: ApiServer = ApiServer::new();
}

/// A server with scripted responses, and a store that talks to it.
struct ApiServer {
    runtime: Runtime,
    script: Arc<Mutex<Script>>,
    store: LeaseStore,
    _kubeconfig: TempDir,
}

#[derive(Default)]
struct Script {
    read: (u16, Vec<u8>),
    write: (u16, Vec<u8>),
    written: Option<Value>,
}

impl ApiServer {
    fn new() -> Self {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let script = Arc::<Mutex<Script>>::default();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let address = listener.local_addr().expect("the listener has an address");
        drop(runtime.spawn(serve(listener, Arc::clone(&script))));

        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("kubeconfig");
        fs::write(&path, kubeconfig(&format!("http://{address}")))
            .expect("the directory is writable");
        let cluster = Cluster::Kubeconfig { path: Some(path), context: None };
        let (call, retry) = (Duration::from_mins(1), Duration::from_secs(2));
        let election = "orders".parse().expect("a name");
        let store = LeaseStore::connect(&cluster, Some("shop"), &election, call, retry);
        let store = runtime.block_on(store).expect("the kubeconfig is valid");
        Self { runtime, script, store, _kubeconfig: directory }
    }

    fn perform(&self, request: RecordRequest) -> Option<RecordEvent> {
        self.runtime.block_on(self.store.perform(request)).ok()
    }

    fn script(&self) -> std::sync::MutexGuard<'_, Script> {
        self.script.lock().expect("the lock is not poisoned")
    }
}

fn kubeconfig(server: &str) -> String {
    let clusters = json!([{ "name": "c", "cluster": { "server": server } }]);
    let contexts = json!([{ "name": "c", "context": { "cluster": "c", "user": "u" } }]);
    let users = json!([{ "name": "u", "user": { "token": "t" } }]);
    json!({ "current-context": "c", "clusters": clusters, "contexts": contexts, "users": users })
        .to_string()
}

async fn serve(listener: TcpListener, script: Arc<Mutex<Script>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let script = Arc::clone(&script);
        let answer = service_fn(move |request| answer(request, Arc::clone(&script)));
        drop(tokio::task::spawn(
            http1::Builder::new().serve_connection(TokioIo::new(stream), answer),
        ));
    }
}

async fn answer(
    request: Request<Incoming>,
    script: Arc<Mutex<Script>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let is_write = request.method() == Method::PUT;
    let sent = request.into_body().collect().await.map(Collected::to_bytes).unwrap_or_default();
    let mut script = script.lock().expect("the lock is not poisoned");
    if is_write {
        script.written = serde_json::from_slice(&sent).ok();
    }
    let (status, body) = if is_write { script.write.clone() } else { script.read.clone() };
    Ok(Response::builder().status(status).body(Full::from(body)).expect("the response is valid"))
}

pub(super) fn read(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let status = STATUSES[usize::from(first >> 1) % STATUSES.len()];
    let body = if *first < 128 { rest } else { &ordinary_with_one_value(rest) };
    CLUSTER.with(|cluster| {
        if first % 2 == 0 {
            fuzz_read(cluster, status, body);
        } else {
            fuzz_write(cluster, status, body);
        }
    });
}

/// An ordinary response in which one value is replaced. The first byte selects the value; from 128
/// on, the rest is converted to a decimal number. The fuzzer reaches extreme numbers sooner when
/// the JSON around them stays valid.
fn ordinary_with_one_value(bytes: &[u8]) -> Vec<u8> {
    let Some((field, value)) = bytes.split_first() else { return Vec::new() };
    let ordinary = ORDINARY_VALUES[usize::from(*field) % ORDINARY_VALUES.len()];
    let (before, after) = ORDINARY.split_once(ordinary).expect("the value occurs in the response");
    let number =
        value.iter().take(16).fold(0, |number, byte| number << 8 | u128::from(*byte)).to_string();
    let value = if *field < 128 { value } else { number.as_bytes() };
    [before.as_bytes(), value, after.as_bytes()].concat()
}

fn fuzz_read(cluster: &ApiServer, status: u16, body: &[u8]) {
    *cluster.script() = Script {
        read: (status, body.to_vec()),
        write: (409, refusal("Conflict").into_bytes()),
        written: None,
    };
    let json = super::json(body);
    match cluster.perform(RecordRequest::Read) {
        Some(RecordEvent::Read(Some(seen))) => {
            assert!(status < 300, "read a record from status {status}");
            check_waiting(&seen);
            // `super::json` fails on numbers that the store accepts in fields it ignores.
            if let Some(json) = json {
                check_record(&seen, &json);
                check_foreign_fields(cluster, &seen, &json);
            }
        }
        Some(RecordEvent::Read(None)) => {
            let json = json.unwrap_or_default();
            let named = (&json["details"]["kind"], &json["details"]["name"]);
            assert_eq!(
                (status, &json["reason"]),
                (404, &json!("NotFound")),
                "the response does not say that the Lease is absent"
            );
            assert_eq!(
                named,
                (&json!("leases"), &json!("orders")),
                "the response is about another object"
            );
        }
        None => {}
        Some(other) => panic!("the read returned {other:?}"),
    }
}

/// Compares a record with the JSON that it was read from. Invalid fields count as absent.
fn check_record(seen: &Snapshot, json: &Value) {
    assert_eq!(json["metadata"]["uid"].as_str(), Some(&*seen.version.uid));
    let version =
        json["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok());
    assert_eq!(version, Some(seen.version.number));
    let spec = &json["spec"];
    let holder = spec["holderIdentity"].as_str().unwrap_or_default();
    assert_eq!(seen.record.holder.is_none(), holder.is_empty(), "{holder:?}");
    if let Ok(holder) = Identity::parse(holder) {
        assert_eq!(seen.record.holder.as_ref(), Some(&holder));
    }
    let seconds = spec["leaseDurationSeconds"].as_u64().filter(|seconds| *seconds > 0);
    assert_eq!(seen.record.duration, seconds.map(Duration::from_secs));
    assert_eq!(seen.record.renewed.0, spec["renewTime"].as_str().unwrap_or_default());
}

/// A candidate acquires another holder's record only after the duration in it.
fn check_waiting(seen: &Snapshot) {
    let seconds = Duration::from_secs;
    let durations = Durations {
        lease_duration: seconds(15),
        renew_deadline: seconds(10),
        retry_period: seconds(2),
        answer_validity: seconds(2),
    };
    let timing = Timing::new(durations, Drift::default()).expect("client-go's defaults are valid");
    let us = Identity::parse("us_1").expect("a valid identity");
    let start = Instant::since_boot(seconds(100));
    let mut machine = RecordElection::new(us.clone(), timing, Jitter::new(1), start);
    assert_eq!(machine.poll_request(start), Some(RecordRequest::Read));
    machine.handle_event(RecordEvent::Read(Some(seen.clone())), start);
    if seen.record.holder.as_ref().is_none_or(|holder| *holder == us) {
        let request = machine.poll_request(start + seconds(5));
        return assert!(
            matches!(request, Some(RecordRequest::Write(_))),
            "{seen:?} is free, but the request is {request:?}"
        );
    }
    let lease = seen.record.duration.unwrap_or_else(|| seconds(15));
    let early = start + lease.saturating_sub(Duration::from_nanos(1));
    if let Some(request) = machine.poll_request(early) {
        assert_eq!(request, RecordRequest::Read, "{seen:?} has not expired");
        machine.handle_event(RecordEvent::Read(Some(seen.clone())), early);
    }
    let late = start + lease + seconds(5);
    if late.elapsed_since_boot() == Duration::MAX {
        return; // the time overflowed
    }
    match machine.poll_request(late) {
        Some(RecordRequest::Read) => {
            machine.handle_event(RecordEvent::Read(Some(seen.clone())), late);
        }
        other => {
            return assert!(matches!(other, Some(RecordRequest::Write(_))), "{seen:?}: {other:?}");
        }
    }
    let request = machine.poll_request(late + seconds(5));
    assert!(
        matches!(request, Some(RecordRequest::Write(_))),
        "{seen:?} has expired, but the request is {request:?}"
    );
}

/// A write changes five fields and sends back everything else unchanged.
fn check_foreign_fields(cluster: &ApiServer, seen: &Snapshot, json: &Value) {
    let us = Identity::parse("us_1").expect("a valid identity");
    let write = Write::over(Some(seen), Intent::Acquire, &us, Duration::from_secs(15));
    assert_eq!(
        cluster.perform(RecordRequest::Write(write)),
        Some(RecordEvent::Conflict),
        "must report the server's conflict"
    );
    let written = cluster.script().written.take().expect("a write was sent");
    assert_eq!(written["spec"]["holderIdentity"], "us_1");
    assert_eq!(written["spec"]["leaseDurationSeconds"], 15);
    for field in ["uid", "resourceVersion", "labels", "annotations", "finalizers"] {
        let (before, after) = (&json["metadata"][field], &written["metadata"][field]);
        // To an API server, empty and absent are the same.
        let is_empty =
            |value: &Value| value.is_null() || *value == json!({}) || *value == json!([]);
        assert!(
            before == after || is_empty(before) && is_empty(after),
            "{field}: {before} became {after}"
        );
    }
    assert_eq!(foreign_fields(&written), foreign_fields(json));
}

/// The object without the metadata and the five fields that a candidate writes.
fn foreign_fields(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"] = Value::Null;
    // A real API server sends both.
    if !(object["apiVersion"].is_string() && object["kind"].is_string()) {
        (object["apiVersion"], object["kind"]) = (Value::Null, Value::Null);
    }
    let spec = &mut object["spec"];
    if !spec.is_object() {
        *spec = json!({});
    }
    for field in
        ["holderIdentity", "leaseDurationSeconds", "leaseTransitions", "renewTime", "acquireTime"]
    {
        spec[field] = Value::Null;
    }
    object
}

fn fuzz_write(cluster: &ApiServer, status: u16, body: &[u8]) {
    *cluster.script() =
        Script { read: (200, ORDINARY.into()), write: (status, body.to_vec()), written: None };
    let Some(RecordEvent::Read(Some(seen))) = cluster.perform(RecordRequest::Read) else {
        panic!("cannot read an ordinary response")
    };
    let us = Identity::parse("us_1").expect("a valid identity");
    let write = Write::over(Some(&seen), Intent::Acquire, &us, Duration::from_secs(15));
    let json = super::json(body);
    match cluster.perform(RecordRequest::Write(write)) {
        Some(RecordEvent::Applied(applied)) => {
            assert!(status < 300, "applied with status {status}");
            if let Some(json) = json {
                check_record(&applied, &json);
            }
        }
        Some(RecordEvent::Conflict) => {
            let json = json.unwrap_or_default();
            let reason = json["reason"].as_str().unwrap_or_default();
            assert!(
                status == 409 && matches!(reason, "Conflict" | "AlreadyExists"),
                "conflict from {status} {reason}"
            );
        }
        None => {}
        Some(other) => panic!("the write returned {other:?}"),
    }
}

fn refusal(reason: &str) -> String {
    json!({ "kind": "Status", "status": "Failure", "reason": reason, "code": 409 }).to_string()
}
