//! The endpoints: what the application, kubelet and Prometheus ask.
//!
//! Touches axum, and the elections only through `claim` (answers) and `backend::Control` (one order: withdraw).
//! Two routers over one state: [`application`] is everything and belongs on loopback, [`probes`] is read-only and names
//! nobody. Who serves them is `supervisor.rs`.

pub mod listen;
pub mod server;

use crate::config::ElectionName;
use crate::driver::Control;
use crate::driver::leadership::Reader;
use crate::health::Health;
use crate::http::server::Turn;
use crate::process::clock::Clock;
use crate::telemetry::build;
use crate::telemetry::metrics;
use crate::telemetry::metrics::Metrics;
use axum::body::Body;
use axum::extract::{ConnectInfo, RawQuery, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Extension, Router};
use baton_election::identity::Identity;
use baton_election::leadership::{Answer, Promise, Status};
use baton_election::machine::Withdrawal;
use humantime::format_rfc3339_seconds;
use serde::Serialize;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::sync::{Notify, Semaphore};
use tokio::task::yield_now;

const FENCING_TOKEN: HeaderName = HeaderName::from_static("fencing-token");
const BATON_REQUEST: HeaderName = HeaderName::from_static("baton-request");

/// What the endpoints read.
#[derive(Debug, Clone)]
pub struct AppState(pub Arc<Parts>);

/// The parts of a [`AppState`].
#[derive(Debug)]
pub struct Parts {
    /// The election's name.
    pub election: ElectionName,
    /// Who we are.
    pub identity: Identity,
    /// Where the election is held.
    pub backend: &'static str,
    /// Where we stand.
    pub reader: Reader,
    /// How the driver is.
    pub health: Health,
    /// What is counted.
    pub metrics: Metrics,
    /// How to withdraw.
    pub control: Control,
    /// Status at each request of the application.
    pub asked: Arc<Notify>,
}

/// How many connections of the application may stay open after their first request: a hundred workers
/// may keep one each.
pub const APPLICATION_ASKERS: usize = 104;
/// The same for the probes: more than a kubelet and a few scrapers need.
pub const PROBE_ASKERS: usize = 16;

/// Everything, for the application beside us.
pub fn application(state: AppState) -> Router {
    finish(
        shared()
            .route("/leader", get(leader).options(leader))
            .route("/", get(legacy))
            .route("/stopping", post(stopping)),
        state,
    )
}

/// What kubelet and Prometheus need: nothing that changes anything.
pub fn probes(state: AppState) -> Router {
    finish(shared(), state)
}

fn shared() -> Router<AppState> {
    let scrapes = Arc::new(Semaphore::new(1));
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(move |state| scrape(state, Arc::clone(&scrapes))))
        .route("/version", version())
}

fn finish(router: Router<AppState>, state: AppState) -> Router {
    router
        .fallback(|| async { error(StatusCode::NOT_FOUND, "there is nothing at this path") })
        .method_not_allowed_fallback(|| async {
            error(StatusCode::METHOD_NOT_ALLOWED, "this path has other methods")
        })
        .with_state(state)
}

/// The body of `/leader`. Fields are only ever added.
#[derive(Debug, Serialize)]
struct LeaderBody<'a> {
    election: &'a str,
    identity: &'a str,
    standing: &'static str,
    is_leader: bool,
    leader: Option<&'a str>,
    leader_name: Option<&'a str>,
    token: Option<String>,
    valid_for_ms: u64,
    revision: u64,
    backend: &'static str,
}

async fn leader(State(AppState(state)): State<AppState>, RawQuery(query): RawQuery) -> Response {
    let answer = match query.as_deref().unwrap_or_default() {
        "" => {
            // The clock is read first: whatever delays us from here on shortens what we promise.
            let now = Clock.now();
            let answer = state.reader.promise(now);
            state.asked.notify_one();
            answer
        }
        "promise=none" => state.reader.peek(Clock.now()),
        other => {
            return error(
                StatusCode::BAD_REQUEST,
                &format!("the only parameter is promise=none, not {other:?}"),
            );
        }
    };
    let body = LeaderBody::new(&state, &answer);
    let status = if body.is_leader { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut response = json(status, &body);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(token) = body.token.as_deref().and_then(|token| HeaderValue::from_str(token).ok()) {
        response.headers_mut().insert(FENCING_TOKEN, token);
    }
    response
}

impl<'a> LeaderBody<'a> {
    fn new(state: &'a Parts, answer: &'a Answer) -> Self {
        let (leader, promise) = match &answer.status {
            Status::Following { leader } => (leader.as_ref(), None),
            Status::Leading(promise) => (Some(&state.identity), Some(promise)),
            Status::Unknown | Status::Resigning => (None, None),
        };
        Self {
            election: state.election.as_str(),
            identity: state.identity.as_str(),
            standing: answer.status.standing(),
            is_leader: promise.is_some(),
            leader: leader.map(Identity::as_str),
            leader_name: leader.map(Identity::name),
            token: promise.map(|promise| promise.token.to_string()),
            valid_for_ms: promise.map_or(0, whole_milliseconds),
            revision: answer.revision,
            backend: state.backend,
        }
    }
}

/// Rounds down: a promise is never stretched.
fn whole_milliseconds(promise: &Promise) -> u64 {
    u64::try_from(promise.valid_for.as_millis()).unwrap_or(u64::MAX)
}

/// The body of `/`, as older sidecars answered: people migrate by changing an image.
#[derive(Debug, Serialize)]
struct LegacyBody<'a> {
    name: &'a str,
    leader: &'a str,
    is_leader: bool,
    node: &'a str,
    timestamp: String,
    last_update: String,
}

async fn legacy(State(AppState(state)): State<AppState>) -> Response {
    // Whoever reads his own name here acts on it, so it is a promise like any other.
    let answer = state.reader.promise(Clock.now());
    state.asked.notify_one();
    let (leader, is_leader) = match &answer.status {
        Status::Leading(_) => (Some(&state.identity), true),
        Status::Following { leader } => {
            (leader.as_ref().filter(|leader| leader.as_str() != state.identity.name()), false)
        }
        Status::Unknown | Status::Resigning => (None, false),
    };
    let body = LegacyBody {
        name: leader.map_or("", |leader| {
            if is_leader { leader.name() } else { name_of_another(leader, &state.identity) }
        }),
        leader: leader.map_or("", Identity::as_str),
        is_leader,
        node: state.identity.as_str(),
        timestamp: format_rfc3339_seconds(Clock.wall()).to_string(),
        last_update: format_rfc3339_seconds(state.health.last_change()).to_string(),
    };
    let mut response = json(StatusCode::OK, &body);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// How a follower names its leader. A client of an older sidecar acts on its own name, so a leader
/// of the same name, as on one host or before a restart, is named by its whole identity.
fn name_of_another<'a>(leader: &'a Identity, own: &Identity) -> &'a str {
    if leader.name() == own.name() { leader.as_str() } else { leader.name() }
}

/// Withdraws, and answers when the last promise has run out: what the preStop hook waits for.
async fn stopping(
    State(AppState(state)): State<AppState>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    Extension(turn): Extension<Turn>,
    headers: HeaderMap,
) -> Response {
    // A client can send any Host, so that check stops web pages only. The address stops other
    // machines.
    if !client.ip().to_canonical().is_loopback() {
        return error(
            StatusCode::FORBIDDEN,
            "this needs a client on this machine that connects over loopback",
        );
    }
    if headers.get(BATON_REQUEST).is_none_or(|value| value != "1")
        || !is_loopback(headers.get(HOST))
    {
        let message = "this needs the header Baton-Request: 1 and a loopback Host, so that no web page can send it";
        return error(StatusCode::FORBIDDEN, message);
    }
    // The answer may take long, and headers are large.
    drop(headers);
    // The preStop hook fails if its connection ends without an answer.
    turn.keep();
    match state.control.withdraw_for_good(Withdrawal::Renewing).await {
        Ok(promised_until) => {
            Clock.sleep_until(promised_until).await;
            StatusCode::NO_CONTENT.into_response()
        }
        // Nobody is left who could promise anything.
        Err(_over) => StatusCode::NO_CONTENT.into_response(),
    }
}

/// Whether a request was sent to a loopback address and not to a name that happens to lead here.
fn is_loopback(host: Option<&HeaderValue>) -> bool {
    let Some(host) = host.and_then(|host| host.to_str().ok()) else {
        return false;
    };
    let (name, behind) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some(bracketed) => bracketed,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let is_whole = behind.is_empty() || behind.strip_prefix(':').is_some_and(is_port);
    is_whole
        && (name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback()))
}

async fn healthz(State(AppState(state)): State<AppState>) -> Response {
    let now = Clock.now();
    let overdue =
        state.reader.published_claim().is_some_and(|claim| claim.remaining(now).is_zero());
    if overdue {
        error(StatusCode::SERVICE_UNAVAILABLE, "leadership is held past its deadline")
    } else if !state.health.is_turning(now) {
        error(StatusCode::SERVICE_UNAVAILABLE, "the election's loop does not come round")
    } else {
        (StatusCode::OK, "ok\n").into_response()
    }
}

async fn readyz(State(AppState(state)): State<AppState>) -> Response {
    if state.health.is_admitted() {
        (StatusCode::OK, "ok\n").into_response()
    } else {
        error(StatusCode::SERVICE_UNAVAILABLE, "the store has not let us take part yet")
    }
}

/// Answers one scrape a turn of the runtime: a scrape costs as much as many other answers, and a
/// crowd of scrapes must not hold those up.
async fn scrape(State(AppState(state)): State<AppState>, scrapes: Arc<Semaphore>) -> Response {
    let _scrape = scrapes.acquire().await.expect("nobody closes it");
    yield_now().await;
    let text = state.metrics.scrape(&state.reader, &state.health, Clock.now());
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
}

fn version() -> MethodRouter<AppState> {
    get(|| async { json(StatusCode::OK, &Version::default()) })
}

/// What was built.
#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "the names are those of the JSON")]
pub struct Version {
    version: &'static str,
    revision: &'static str,
    rustc: &'static str,
}

impl Default for Version {
    fn default() -> Self {
        Self { version: build::VERSION, revision: build::REVISION, rustc: build::RUSTC }
    }
}

fn error(status: StatusCode, message: &str) -> Response {
    json(status, &serde_json::json!({ "error": message }))
}

fn json(status: StatusCode, body: &impl Serialize) -> Response {
    let mut text = serde_json::to_vec(body).expect("our bodies are texts and numbers");
    text.push(b'\n');
    (status, [(CONTENT_TYPE, "application/json")], Body::from(text)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_follower_never_names_its_leader_as_itself() {
        let identity = |text| Identity::parse(text).unwrap();
        let own = identity("host_1");
        assert_eq!(name_of_another(&identity("other_2"), &own), "other");
        assert_eq!(name_of_another(&identity("host_2"), &own), "host_2", "on one host");
    }

    #[test]
    fn only_a_loopback_host_is_one() {
        let is = |host| is_loopback(Some(&HeaderValue::from_static(host)));
        assert!(
            is("localhost:4040")
                && is("127.0.0.1")
                && is("127.1.2.3:80")
                && is("[::1]:4040")
                && is("localhost")
        );
        assert!(
            !is("evil.example")
                && !is("localhost.evil.example")
                && !is("10.0.0.1:4040")
                && !is("[2001:db8::1]:4040")
        );
        assert!(
            !is("[::1].evil.example:4040")
                && !is("[::1]4040")
                && !is("[::1]:4\"40")
                && !is("localhost:evil.example")
        );
        assert!(!is_loopback(None));
    }
}
