//! `/events`: server-sent events about the standing, as the WHATWG HTML standard defines them.
//!
//! Touches axum, and the election only through [`Reader`](crate::driver::leadership::Reader). Start
//! with [`events`]. An event promises nothing (`valid_for_ms` is 0): it is a hint to ask `/leader`.
//!
//! Each stream begins with the present standing, so a client that reconnects has missed nothing
//! that still matters, whatever its `Last-Event-ID` says. A stream holds one event at most. A slow
//! client skips standings, and loses its connection when the kernel's buffers are full.

use super::host::OwnHost;
use super::leader::LeaderBody;
use super::server::Activity;
use super::{AppState, error};
use crate::process::clock::Clock;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::unfold;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// How often a stream without events gets a comment, so that both ends notice a dead connection.
const HEARTBEAT: Duration = Duration::from_secs(15);

pub(super) async fn events(
    _host: OwnHost,
    State(state): State<Arc<AppState>>,
    Extension(activity): Extension<Activity>,
) -> Response {
    let Ok(permit) = Arc::clone(&state.waiting.streams).try_acquire_owned() else {
        return error(
            StatusCode::TOO_MANY_REQUESTS,
            "too many event streams are open: share one among your workers",
        );
    };
    // A stream stays open for long, so it must not use a slot of a client that polls.
    activity.pin();
    let standings = unfold((state, permit, None), |(state, permit, sent)| async move {
        let (revision, event) = next_event(&state, sent).await;
        Some((event, (state, permit, Some(revision))))
    });
    Sse::new(standings).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response()
}

/// Waits for a revision other than `sent`, and makes an event of it.
async fn next_event(state: &AppState, sent: Option<u64>) -> (u64, Result<Event, axum::Error>) {
    loop {
        let mut change = pin!(state.reader.next_change());
        // Listens before it looks, so that no change is missed.
        change.as_mut().enable();
        let answer = state.reader.peek(Clock.now());
        if sent != Some(answer.revision) {
            let event = Event::default().event("standing").id(answer.revision.to_string());
            let body = serde_json::to_string(&LeaderBody::new(state, &answer));
            return (answer.revision, body.map(|body| event.data(body)).map_err(axum::Error::new));
        }
        change.await;
    }
}
