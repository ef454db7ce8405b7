//! What an API server answers, or whoever answers in its place: a status, and a body, to a read or to a write.
//!
//! The first byte says which answer is the strange one, and with which status; the rest is its body, or, from 128 on, what
//! stands in one field of a usual one.

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
/// What a usual server answers.
const USUAL: &str = r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"orders","uid":"u",
    "resourceVersion":"7"},"spec":{"holderIdentity":"them_1","leaseDurationSeconds":15}}"#;
/// What stands in its fields.
const USUAL_VALUES: [&str; 5] = ["15", r#""7""#, r#""them_1""#, r#""u""#, r#""orders""#];

thread_local! {
    static CLUSTER: ApiServer = ApiServer::new();
}

/// A server that answers as it is told to, and a candidate's store of it.
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
        let address = listener.local_addr().expect("it is bound");
        drop(runtime.spawn(serve(listener, Arc::clone(&script))));

        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("kubeconfig");
        fs::write(&path, kubeconfig(&format!("http://{address}"))).expect("it is ours");
        let cluster = Cluster::Kubeconfig { path: Some(path), context: None };
        let (call, retry) = (Duration::from_mins(1), Duration::from_secs(2));
        let election = "orders".parse().expect("a name");
        let store = LeaseStore::connect(&cluster, Some("shop"), &election, call, retry);
        let store = runtime.block_on(store).expect("the kubeconfig is usable");
        Self { runtime, script, store, _kubeconfig: directory }
    }

    fn ask(&self, request: RecordRequest) -> Option<RecordEvent> {
        self.runtime.block_on(self.store.perform(request)).ok()
    }

    fn script(&self) -> std::sync::MutexGuard<'_, Script> {
        self.script.lock().expect("nobody panics with it")
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
    let writes = request.method() == Method::PUT;
    let sent = request.into_body().collect().await.map(Collected::to_bytes).unwrap_or_default();
    let mut script = script.lock().expect("nobody panics with it");
    if writes {
        script.written = serde_json::from_slice(&sent).ok();
    }
    let (status, body) = if writes { script.write.clone() } else { script.read.clone() };
    Ok(Response::builder()
        .status(status)
        .body(Full::from(body))
        .expect("a status and a body are an answer"))
}

pub(super) fn read(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let status = STATUSES[usize::from(first >> 1) % STATUSES.len()];
    let body = if *first < 128 { rest } else { &usual_but_for_one(rest) };
    CLUSTER.with(|cluster| {
        if first % 2 == 0 {
            read_answered(cluster, status, body);
        } else {
            write_answered(cluster, status, body);
        }
    });
}

/// What a usual server answers, but for the value of one field, which the first byte names: a number grows to where it
/// matters much sooner if nothing around it can break. From 128 on the value is the number that the bytes are.
fn usual_but_for_one(bytes: &[u8]) -> Vec<u8> {
    let Some((field, value)) = bytes.split_first() else { return Vec::new() };
    let usual = USUAL_VALUES[usize::from(*field) % USUAL_VALUES.len()];
    let (before, after) = USUAL.split_once(usual).expect("it stands there");
    let number =
        value.iter().take(16).fold(0, |number, byte| number << 8 | u128::from(*byte)).to_string();
    let value = if *field < 128 { value } else { number.as_bytes() };
    [before.as_bytes(), value, after.as_bytes()].concat()
}

fn read_answered(cluster: &ApiServer, status: u16, body: &[u8]) {
    *cluster.script() = Script {
        read: (status, body.to_vec()),
        write: (409, refusal("Conflict").into_bytes()),
        written: None,
    };
    let json = super::json(body);
    match cluster.ask(RecordRequest::Read) {
        Some(RecordEvent::Read(Some(seen))) => {
            assert!(status < 300, "{status} is no record");
            waits_for(&seen);
            // Foreign fields are not interpreted: a number there may be larger than any that we
            // could hold.
            if let Some(json) = json {
                says(&seen, &json);
                keeps_what_is_anothers(cluster, &seen, &json);
            }
        }
        Some(RecordEvent::Read(None)) => {
            let json = json.unwrap_or_default();
            let named = (&json["details"]["kind"], &json["details"]["name"]);
            assert_eq!(
                (status, &json["reason"]),
                (404, &json!("NotFound")),
                "this does not say that nothing is there"
            );
            assert_eq!(named, (&json!("leases"), &json!("orders")), "this is about something else");
        }
        None => {}
        Some(other) => panic!("read was {other:?}"),
    }
}

/// A record is no stricter and no looser than what it says; what makes no sense counts as absent.
fn says(seen: &Snapshot, json: &Value) {
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

/// Nobody writes over another's record before the time in it is over, and somebody does afterwards.
fn waits_for(seen: &Snapshot) {
    let seconds = Duration::from_secs;
    let durations = Durations {
        lease_duration: seconds(15),
        renew_deadline: seconds(10),
        retry_period: seconds(2),
        answer_validity: seconds(2),
    };
    let timing = Timing::new(durations, Drift::default()).expect("client-go's defaults pass");
    let us = Identity::parse("us_1").expect("it is short");
    let start = Instant::since_boot(seconds(100));
    let mut machine = RecordElection::new(us.clone(), timing, Jitter::new(1), start);
    assert_eq!(machine.poll_request(start), Some(RecordRequest::Read));
    machine.handle_event(RecordEvent::Read(Some(seen.clone())), start);
    if seen.record.holder.as_ref().is_none_or(|holder| *holder == us) {
        let taken = machine.poll_request(start + seconds(5));
        return assert!(
            matches!(taken, Some(RecordRequest::Write(_))),
            "{seen:?} is free, and asked for is {taken:?}"
        );
    }
    let lease = seen.record.duration.unwrap_or_else(|| seconds(15));
    let early = start + lease.saturating_sub(Duration::from_nanos(1));
    if let Some(request) = machine.poll_request(early) {
        assert_eq!(request, RecordRequest::Read, "{seen:?} is still another's");
        machine.handle_event(RecordEvent::Read(Some(seen.clone())), early);
    }
    let late = start + lease + seconds(5);
    if late.elapsed_since_boot() == Duration::MAX {
        return; // Nobody waits for so long.
    }
    match machine.poll_request(late) {
        Some(RecordRequest::Read) => {
            machine.handle_event(RecordEvent::Read(Some(seen.clone())), late);
        }
        other => {
            return assert!(matches!(other, Some(RecordRequest::Write(_))), "{seen:?}: {other:?}");
        }
    }
    let taken = machine.poll_request(late + seconds(5));
    assert!(
        matches!(taken, Some(RecordRequest::Write(_))),
        "{seen:?} is over, and asked for is {taken:?}"
    );
}

/// A write changes our five fields, and gives everything else back as it was read.
fn keeps_what_is_anothers(cluster: &ApiServer, seen: &Snapshot, json: &Value) {
    let us = Identity::parse("us_1").expect("it is short");
    let write = Write::over(Some(seen), Intent::Acquire, &us, Duration::from_secs(15));
    assert_eq!(
        cluster.ask(RecordRequest::Write(write)),
        Some(RecordEvent::Conflict),
        "it was answered so"
    );
    let written = cluster.script().written.take().expect("a write was sent");
    assert_eq!(written["spec"]["holderIdentity"], "us_1");
    assert_eq!(written["spec"]["leaseDurationSeconds"], 15);
    for field in ["uid", "resourceVersion", "labels", "annotations", "finalizers"] {
        let (before, after) = (&json["metadata"][field], &written["metadata"][field]);
        // Empty or absent is all the same to an API server.
        let is_nothing =
            |value: &Value| value.is_null() || *value == json!({}) || *value == json!([]);
        assert!(
            before == after || is_nothing(before) && is_nothing(after),
            "{field}: {before} became {after}"
        );
    }
    assert_eq!(others(&written), others(json));
}

/// What a candidate has no business with.
fn others(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"] = Value::Null;
    // An API server says both, or is none.
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

fn write_answered(cluster: &ApiServer, status: u16, body: &[u8]) {
    *cluster.script() =
        Script { read: (200, USUAL.into()), write: (status, body.to_vec()), written: None };
    let Some(RecordEvent::Read(Some(seen))) = cluster.ask(RecordRequest::Read) else {
        panic!("the usual can be read")
    };
    let us = Identity::parse("us_1").expect("it is short");
    let write = Write::over(Some(&seen), Intent::Acquire, &us, Duration::from_secs(15));
    let json = super::json(body);
    match cluster.ask(RecordRequest::Write(write)) {
        Some(RecordEvent::Applied(applied)) => {
            assert!(status < 300, "{status} is no success");
            if let Some(json) = json {
                says(&applied, &json);
            }
        }
        Some(RecordEvent::Conflict) => {
            let json = json.unwrap_or_default();
            let reason = json["reason"].as_str().unwrap_or_default();
            assert!(
                status == 409 && matches!(reason, "Conflict" | "AlreadyExists"),
                "{status} {reason} is no lost race"
            );
        }
        None => {}
        Some(other) => panic!("written was {other:?}"),
    }
}

fn refusal(reason: &str) -> String {
    json!({ "kind": "Status", "status": "Failure", "reason": reason, "code": 409 }).to_string()
}
