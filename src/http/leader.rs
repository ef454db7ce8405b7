//! `/leader`: answers whether this process leads, at once or after the next change.
//!
//! Touches axum, and the election only through [`Reader`]. Start with [`leader`]. An answer that
//! waited is an ordinary promise, made when it is sent. It does not allow for the wait, because most
//! clients' clocks stop in suspend.

use super::host::OwnHost;
use super::{AppState, error, json};
use crate::driver::leadership::Reader;
use crate::process::clock::Clock;
use axum::extract::{Query, State};
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderName, HeaderValue, StatusCode, Uri};
use axum::response::Response;
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::leadership::{Answer, Asker, Promise, Status};
use serde::{Deserialize, Serialize};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

const FENCING_TOKEN: HeaderName = HeaderName::from_static("fencing-token");

/// The body of `/leader` and of events. Fields are only ever added.
#[derive(Debug, Serialize)]
pub struct LeaderBody<'a> {
    election: &'a str,
    identity: &'a str,
    standing: &'static str,
    is_leader: bool,
    leader: Option<&'a str>,
    leader_name: Option<&'a str>,
    token: Option<String>,
    /// How long the promise is valid, counted from before the request.
    pub valid_for_ms: u64,
    revision: u64,
    backend: &'static str,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LeaderQuery {
    promise: Option<PromiseWish>,
    asker: Option<String>,
    wait: Option<String>,
    after: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum PromiseWish {
    /// The client only looks on.
    None,
}

/// A checked query.
struct Request {
    is_onlooker: bool,
    asker: Option<Asker>,
    wait: Option<Wait>,
}

/// How long to wait for another revision.
struct Wait {
    longest: Duration,
    after: u64,
}

pub(super) async fn leader(
    _host: OwnHost,
    State(state): State<Arc<AppState>>,
    uri: Uri,
) -> Response {
    // The clock is read first, so that every later delay shortens the promise.
    let asked_at = Clock.now();
    let request = match Request::parse(&uri) {
        Ok(request) => request,
        Err(invalid) => return error(StatusCode::BAD_REQUEST, &invalid),
    };
    if !request.is_onlooker {
        state.note_poll(asked_at);
    }
    let Some(Wait { longest, after }) = request.wait else {
        return respond(&state, &request, asked_at);
    };
    let Ok(_waiter) = state.waiting.waiters.try_acquire() else {
        return error(
            StatusCode::TOO_MANY_REQUESTS,
            "too many requests wait for a change: share one among workers, or ask without wait",
        );
    };
    next_revision(&state.reader, after, asked_at + longest.min(state.waiting.longest)).await;
    respond(&state, &request, Clock.now())
}

impl Request {
    fn parse(uri: &Uri) -> Result<Self, String> {
        let Query(query) =
            Query::<LeaderQuery>::try_from_uri(uri).map_err(|invalid| invalid.body_text())?;
        let asker = query.asker.as_deref().map(Asker::parse).transpose();
        let wait = match (query.wait, query.after) {
            (None, None) => None,
            (Some(wait), Some(after)) => {
                let longest = humantime::parse_duration(&wait)
                    .map_err(|_| "wait is not a duration: write 30s, for example")?;
                let after = after
                    .parse()
                    .map_err(|_| "after is not a number: pass the revision of the last answer")?;
                Some(Wait { longest, after })
            }
            (Some(_), None) | (None, Some(_)) => {
                return Err("wait and after go together: pass the revision of the last answer as \
                            after"
                    .to_owned());
            }
        };
        Ok(Self {
            is_onlooker: matches!(query.promise, Some(PromiseWish::None)),
            asker: asker.map_err(|invalid| invalid.to_string())?,
            wait,
        })
    }
}

/// Waits until the revision is not `revision`, or until `until`.
pub(super) async fn next_revision(reader: &Reader, revision: u64, until: Instant) {
    loop {
        let mut change = pin!(reader.next_change());
        // Listens before it looks, so that no change is missed.
        change.as_mut().enable();
        if reader.peek(Clock.now()).revision != revision {
            return;
        }
        tokio::select! {
            () = change => {}
            () = Clock.sleep_until(until) => return,
        }
    }
}

fn respond(state: &AppState, request: &Request, now: Instant) -> Response {
    let answer = if request.is_onlooker {
        state.reader.peek(now)
    } else {
        state.reader.promise(request.asker.as_ref(), now)
    };
    let body = LeaderBody::new(state, &answer);
    let status = if body.is_leader { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut response = json(status, &body);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(token) = body.token.as_deref().and_then(|token| HeaderValue::from_str(token).ok()) {
        response.headers_mut().insert(FENCING_TOKEN, token);
    }
    response
}

impl<'a> LeaderBody<'a> {
    /// The body for `answer`.
    pub fn new(state: &'a AppState, answer: &'a Answer) -> Self {
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
            backend: state.store,
        }
    }
}

/// Rounds down, which never extends the promise.
fn whole_milliseconds(promise: &Promise) -> u64 {
    u64::try_from(promise.valid_for.as_millis()).unwrap_or(u64::MAX)
}
