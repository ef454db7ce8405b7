//! The endpoints that change something: `/stopping`, `/resign`, and `/done`.
//!
//! Touches axum, and the election only through [`Control`] and [`Reader`]. Start with [`routes`].
//! Each of them accepts only requests that no web page and no other machine can send.
//!
//! [`Control`]: crate::driver::Control

use super::host::names_loopback;
use super::{AppState, error, json};
use crate::driver::leadership::Reader;
use crate::driver::{DriverStopped, ResignRefusal, Resigning};
use crate::http::server::Activity;
use crate::process::clock::Clock;
use axum::extract::{ConnectInfo, FromRequestParts, Query, State};
use axum::http::header::HOST;
use axum::http::request::Parts;
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Router};
use baton_election::claim::FencingToken;
use baton_election::identity::Identity;
use baton_election::leadership::{Asker, Status};
use baton_election::withdrawals::{Order, OrderOutcome};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

const BATON_REQUEST: HeaderName = HeaderName::from_static("baton-request");

/// The longest hold-off: an election without another candidate has no leader meanwhile.
const MAX_HOLD_OFF: Duration = Duration::from_hours(24);

/// The endpoints that change something.
pub(super) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/stopping", post(stopping))
        .route("/resign", post(resign))
        .route("/done", post(done))
}

/// Withdraws, and answers when the last promise has expired. The preStop hook waits for the answer.
async fn stopping(
    _local: LocalRequest,
    State(state): State<Arc<AppState>>,
    Extension(activity): Extension<Activity>,
) -> Response {
    // The preStop hook fails if its connection closes without an answer.
    activity.pin();
    let order = Order::Stopping { limit: state.stopping_limit };
    // If the driver has ended, no promise holds.
    if let Ok(mut withdrawn) = state.control.withdraw(order).await {
        match withdrawn.outcome().await {
            // A later request withdraws too, and waits for the same promises.
            Ok(OrderOutcome::Superseded) => last_promise(&state.reader).await,
            Ok(
                OrderOutcome::Withdrawn
                | OrderOutcome::Confirmed
                | OrderOutcome::Unconfirmed
                | OrderOutcome::Refused,
            )
            | Err(DriverStopped) => {}
        }
    }
    StatusCode::NO_CONTENT.into_response()
}

/// Waits until no promise holds, and no command runs.
async fn last_promise(reader: &Reader) {
    while let Some(until) = reader.promised_until().filter(|until| *until > Clock.now()) {
        Clock.sleep_until(until).await;
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResignQuery {
    hold_off: Option<String>,
    token: Option<String>,
}

/// The answer to `/resign`. Fields are only ever added.
#[derive(Serialize)]
struct ResignBody<'a> {
    /// Whether the store confirmed the release; null if that is unknown.
    released: Option<bool>,
    /// The fencing token of the term that ends.
    token: String,
    /// The next leader, if one appeared in time.
    successor: Option<&'a str>,
    successor_name: Option<&'a str>,
}

/// Hands the election over: withdraws, waits until the last promise expires, and releases.
async fn resign(
    LocalRequest(query): LocalRequest<ResignQuery>,
    State(state): State<Arc<AppState>>,
    Extension(activity): Extension<Activity>,
) -> Response {
    let hold_off = match query.hold_off.as_deref().map(humantime::parse_duration) {
        None => state.default_hold_off,
        Some(Ok(hold_off)) if hold_off <= MAX_HOLD_OFF => hold_off,
        Some(Ok(_)) => {
            return error(
                StatusCode::BAD_REQUEST,
                "hold_off is longer than a day: pass at most 24h",
            );
        }
        Some(Err(_)) => {
            return error(
                StatusCode::BAD_REQUEST,
                "hold_off is not a duration: write 30s or 1m30s, for example",
            );
        }
    };
    let token = match query.token.as_deref().map(parse_token).transpose() {
        Ok(token) => token,
        Err(invalid) => return error(StatusCode::BAD_REQUEST, invalid),
    };
    if !state.asks_by_declaration {
        return error(
            StatusCode::CONFLICT,
            "the application is not declared to ask before it acts, so it might act after a \
             release: run the sidecar with --require-polling DURATION, --status-file FILE, or \
             --on-lost stay",
        );
    }
    activity.pin();
    match state.control.resign(token, hold_off).await {
        Ok(Ok(resigning)) => resigned(&state, resigning).await,
        Ok(Err(ResignRefusal::NotLeading)) => {
            error(StatusCode::CONFLICT, "this candidate does not lead")
        }
        Ok(Err(ResignRefusal::OtherTerm(current))) => other_term(Some(current)),
        Err(DriverStopped) => {
            error(StatusCode::CONFLICT, "this candidate does not lead: its process is exiting")
        }
    }
}

/// Answers when the release has ended.
async fn resigned(state: &AppState, mut resigning: Resigning) -> Response {
    let token = resigning.token.to_string();
    match resigning.withdrawn.outcome().await {
        Ok(OrderOutcome::Confirmed) => {
            let successor = successor(state).await;
            let body = ResignBody {
                released: Some(true),
                token,
                successor: successor.as_ref().map(Identity::as_str),
                successor_name: successor.as_ref().map(Identity::name),
            };
            json(StatusCode::OK, &body)
        }
        Ok(OrderOutcome::Superseded) => {
            error(StatusCode::CONFLICT, "superseded by a later request to resign")
        }
        Ok(OrderOutcome::Unconfirmed | OrderOutcome::Refused | OrderOutcome::Withdrawn)
        | Err(DriverStopped) => {
            let body = ResignBody { released: None, token, successor: None, successor_name: None };
            json(StatusCode::ACCEPTED, &body)
        }
    }
}

/// The next leader, if one appears within [`AppState::successor_timeout`].
async fn successor(state: &AppState) -> Option<Identity> {
    let until = Clock.now() + state.successor_timeout;
    loop {
        let mut change = pin!(state.reader.next_change());
        // Listens before it looks, so that no change is missed.
        change.as_mut().enable();
        if let Status::Following { leader: Some(leader) } = state.reader.peek(Clock.now()).status
            && leader != state.identity
        {
            return Some(leader);
        }
        tokio::select! {
            () = change => {}
            () = Clock.sleep_until(until) => return None,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DoneQuery {
    token: String,
    asker: Option<String>,
}

/// Voids the promises to one asker, which acts no more in this term. A release that waits for them
/// then follows at once.
async fn done(
    LocalRequest(query): LocalRequest<DoneQuery>,
    State(state): State<Arc<AppState>>,
) -> Response {
    let token = match parse_token(&query.token) {
        Ok(token) => token,
        Err(invalid) => return error(StatusCode::BAD_REQUEST, invalid),
    };
    let asker = match query.asker.as_deref().map(Asker::parse).transpose() {
        Ok(asker) => asker,
        Err(invalid) => return error(StatusCode::BAD_REQUEST, &invalid.to_string()),
    };
    if !state.reader.void(asker.as_ref(), token) {
        return other_term(state.reader.published_claim().map(|claim| claim.token()));
    }
    // If the driver has ended, nothing waits for the promises.
    state.control.promises_voided().await.ok();
    StatusCode::NO_CONTENT.into_response()
}

fn parse_token(text: &str) -> Result<FencingToken, &'static str> {
    let is_decimal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = text.parse().ok().filter(|_| is_decimal).map(FencingToken::new);
    parsed.ok_or("token is not a decimal number: pass the token that /leader answered")
}

fn other_term(current: Option<FencingToken>) -> Response {
    let message = match current {
        Some(current) => format!("the term of this token is not current: the token is {current}"),
        None => "the term of this token is not current: this candidate does not lead".to_owned(),
    };
    error(StatusCode::CONFLICT, &message)
}

/// A request that a process on this machine sent on purpose, with its query.
struct LocalRequest<Q = NoQuery>(Q);

/// No parameters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoQuery {}

impl<Q: DeserializeOwned> FromRequestParts<Arc<AppState>> for LocalRequest<Q> {
    type Rejection = Response;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &Arc<AppState>,
    ) -> Result<Self, Response> {
        let connection = ConnectInfo::<SocketAddr>::from_request_parts(parts, state).await;
        let ConnectInfo(client) = connection.map_err(IntoResponse::into_response)?;
        // A client can send any Host header, so checking the header stops web pages only. Checking
        // the address stops other machines.
        if !client.ip().to_canonical().is_loopback() {
            return Err(error(
                StatusCode::FORBIDDEN,
                "only a client that connects over loopback may send this request",
            ));
        }
        if parts.headers.get(BATON_REQUEST).is_none_or(|value| value != "1")
            || !names_loopback(parts.headers.get(HOST))
        {
            return Err(error(
                StatusCode::FORBIDDEN,
                "a web page could have sent this request: send the header Baton-Request: 1 and a \
                 loopback Host",
            ));
        }
        // The answer may take long, so free the memory now.
        parts.headers.clear();
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(query)) => Ok(Self(query)),
            Err(invalid) => Err(error(StatusCode::BAD_REQUEST, &invalid.body_text())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_decimal_and_fit_128_bits() {
        let largest = u128::MAX.to_string();
        assert_eq!(parse_token(&largest).unwrap(), FencingToken::new(u128::MAX));
        for text in ["", "+7", "-7", "0x7", "7 ", &format!("{largest}0")] {
            assert!(parse_token(text).is_err(), "{text}");
        }
    }
}
