//! The HTTP endpoints for the application, kubelet, and Prometheus.
//!
//! Touches axum, and the election only through [`Reader`] (answers) and [`Control`] (orders). Start
//! with [`application`], which has every endpoint and belongs on loopback, and [`probes`], which is
//! read-only and shows no identity.

mod events;
mod host;
pub mod leader;
pub mod listen;
mod orders;
pub mod server;

use crate::config::ElectionName;
use crate::driver::Control;
use crate::driver::leadership::Reader;
use crate::health::Health;
use crate::process::clock::Clock;
use crate::telemetry::build;
use crate::telemetry::metrics;
use crate::telemetry::metrics::Metrics;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::leadership::Status;
use host::OwnHost;
use humantime::format_rfc3339_seconds;
use serde::Serialize;
use server::Limits;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio::task::yield_now;

/// The state that all handlers share.
#[derive(Debug)]
pub struct AppState {
    /// The election's name.
    pub election: ElectionName,
    /// This candidate's identity.
    pub identity: Identity,
    /// The store's name.
    pub store: &'static str,
    /// The candidate's published standing and promises.
    pub reader: Reader,
    /// The driver's health.
    pub health: Health,
    /// The metrics.
    pub metrics: Metrics,
    /// Gives orders to the driver.
    pub control: Control,
    /// How long a withdrawal by `/stopping` lasts at most.
    pub stopping_limit: Duration,
    /// How long a candidate that resigned leaves the election to others, unless a request says so.
    pub default_hold_off: Duration,
    /// How long an answer to `/resign` waits for a successor.
    pub successor_timeout: Duration,
    /// Whether the application is declared to ask before it acts, so that a release is safe once
    /// no promise holds. Requests that were seen prove nothing: an operator may have sent them.
    pub asks_by_declaration: bool,
    /// Notified at each request of the application for a promise.
    pub polled: Arc<Notify>,
    /// Limits the requests that wait for a change.
    pub waiting: Waiting,
}

impl AppState {
    /// Notes that a request of the application for a promise arrived at `now`.
    fn note_poll(&self, now: Instant) {
        self.reader.note_poll(now);
        self.polled.notify_one();
    }
}

/// Limits on requests that wait for a change.
#[derive(Debug)]
pub struct Waiting {
    /// The longest that an answer of `/leader` waits.
    longest: Duration,
    /// The requests to `/leader` that may wait besides the present ones.
    waiters: Semaphore,
    /// The streams of `/events` that may be opened besides the present ones.
    streams: Arc<Semaphore>,
}

impl Waiting {
    /// Shorter than many clients' and proxies' time limits for a request.
    const LONGEST: Duration = Duration::from_mins(1);

    /// The limits under `--require-polling`. A request counts as polling when it arrives, so an
    /// application that only waits must still ask in time.
    pub fn new(require_polling: Option<Duration>) -> Self {
        Self {
            longest: require_polling.map_or(Self::LONGEST, |limit| Self::LONGEST.min(limit / 2)),
            waiters: Semaphore::new(MAX_WAITERS),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
        }
    }
}

/// How many requests to `/leader` may wait for a change at once.
const MAX_WAITERS: usize = 64;
/// How many streams of `/events` may be open at once.
const MAX_STREAMS: usize = 64;
/// The limits of the application's listener: a hundred workers with one connection each, beside all
/// streams.
pub const APPLICATION_LIMITS: Limits = Limits { known: 104, pinned: MAX_STREAMS };
/// The limits of the probe listener: more than kubelet and a few scrapers need.
pub const PROBE_LIMITS: Limits = Limits { known: 16, pinned: 0 };

/// The router with every endpoint, for the application.
pub fn application(state: Arc<AppState>) -> Router {
    with_state(
        shared()
            .route("/leader", get(leader::leader).options(leader::leader))
            .route("/events", get(events::events))
            .route("/", get(legacy))
            .merge(orders::routes()),
        state,
    )
}

/// The router for kubelet and Prometheus, without endpoints that change anything.
pub fn probes(state: Arc<AppState>) -> Router {
    with_state(shared(), state)
}

fn shared() -> Router<Arc<AppState>> {
    let scrapes = Arc::new(Semaphore::new(1));
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(move |state| scrape(state, Arc::clone(&scrapes))))
        .route("/version", version())
}

fn with_state(router: Router<Arc<AppState>>, state: Arc<AppState>) -> Router {
    router
        .fallback(|| async { error(StatusCode::NOT_FOUND, "there is no endpoint at this path") })
        .method_not_allowed_fallback(|| async {
            error(StatusCode::METHOD_NOT_ALLOWED, "this endpoint does not support the method")
        })
        .with_state(state)
}

/// The body of `/`, in the format of older sidecars, whose users can migrate by changing the image.
#[derive(Debug, Serialize)]
struct LegacyBody<'a> {
    name: &'a str,
    leader: &'a str,
    is_leader: bool,
    node: &'a str,
    timestamp: String,
    last_update: String,
}

async fn legacy(_host: OwnHost, State(state): State<Arc<AppState>>) -> Response {
    // A client that sees its own name acts on it, so the answer is an ordinary promise.
    let now = Clock.now();
    state.note_poll(now);
    let answer = state.reader.promise(None, now);
    let (leader, is_leader) = match &answer.status {
        Status::Leading(_) => (Some(&state.identity), true),
        Status::Following { leader } => {
            (leader.as_ref().filter(|leader| leader.as_str() != state.identity.name()), false)
        }
        Status::Unknown | Status::Resigning => (None, false),
    };
    let body = LegacyBody {
        name: leader.map_or("", |leader| {
            if is_leader { leader.name() } else { name_for_follower(leader, &state.identity) }
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

/// The leader's name as a follower shows it. A leader with the follower's own name (on the same
/// host, or before a restart) appears with its whole identity, because a client acts on its own
/// name.
fn name_for_follower<'a>(leader: &'a Identity, own: &Identity) -> &'a str {
    if leader.name() == own.name() { leader.as_str() } else { leader.name() }
}

async fn healthz(State(state): State<Arc<AppState>>) -> Response {
    let now = Clock.now();
    let overdue =
        state.reader.published_claim().is_some_and(|claim| claim.remaining(now).is_zero());
    if overdue {
        error(StatusCode::SERVICE_UNAVAILABLE, "leadership did not end at its deadline")
    } else if !state.health.is_progressing(now) {
        error(StatusCode::SERVICE_UNAVAILABLE, "the election loop is stalled")
    } else {
        (StatusCode::OK, "ok\n").into_response()
    }
}

async fn readyz(State(state): State<Arc<AppState>>) -> Response {
    if state.health.is_admitted() {
        (StatusCode::OK, "ok\n").into_response()
    } else {
        error(StatusCode::SERVICE_UNAVAILABLE, "the store has not accepted this candidate yet")
    }
}

/// Answers one scrape at a time, and each in its own turn of the runtime: a scrape costs as much as
/// many other answers, and must not delay them.
async fn scrape(State(state): State<Arc<AppState>>, scrapes: Arc<Semaphore>) -> Response {
    let _scrape = scrapes.acquire().await.expect("the semaphore is never closed");
    yield_now().await;
    let text = state.metrics.scrape(&state.reader, &state.health, Clock.now());
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
}

fn version() -> MethodRouter<Arc<AppState>> {
    get(|| async { json(StatusCode::OK, &BuildInfo::default()) })
}

/// The version, revision, and compiler of this program.
#[derive(Debug, Serialize)]
pub struct BuildInfo {
    version: &'static str,
    revision: &'static str,
    rustc: &'static str,
}

impl Default for BuildInfo {
    fn default() -> Self {
        Self { version: build::VERSION, revision: build::REVISION, rustc: build::RUSTC }
    }
}

fn error(status: StatusCode, message: &str) -> Response {
    json(status, &serde_json::json!({ "error": message }))
}

fn json(status: StatusCode, body: &impl Serialize) -> Response {
    let mut text = serde_json::to_vec(body).expect("bodies of strings and numbers serialize");
    text.push(b'\n');
    (status, [(CONTENT_TYPE, "application/json")], Body::from(text)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follower_never_shows_its_own_name_as_the_leader() {
        let identity = |text| Identity::parse(text).unwrap();
        let own = identity("host_1");
        assert_eq!(name_for_follower(&identity("other_2"), &own), "other");
        assert_eq!(name_for_follower(&identity("host_2"), &own), "host_2", "both run on one host");
    }
}
