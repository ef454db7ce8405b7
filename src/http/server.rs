//! Serves a router at bound listeners, with bounds on what a stranger can take.
//!
//! Touches sockets and hyper. `axum::serve` has no time-outs and no limits, and a sidecar that has
//! run out of memory or of file descriptors cannot renew its claim. Start at [`serve`].
//!
//! A connection costs two buffers of [`MAX_HEAD_BYTES`] and one answer, for as long as
//! [`slots`] lets it stay.

mod slots;
mod stream;

pub use slots::Turn;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use slots::Slots;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::Poll;
use std::time::Duration;
use stream::Stream;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet, yield_now};
use tower::ServiceExt as _;

/// How long the line and the headers of a request may be: hyper's least.
const MAX_HEAD_BYTES: usize = 8 << 10;
/// How long a connection may stay open without a whole request: longer than anybody sleeps between two questions.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// How many connections to accept before those that are accepted have their turn. A client's first
/// request is read two turns after its connection at the latest, so this has to be well below half
/// of the newcomers' slots.
const ACCEPTS_A_TURN: usize = 8;
/// How long to wait where the system has no descriptor left for another connection.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// Why a listener ended.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A handler panicked.
    #[error("a request ended in a fault of ours")]
    Handler(#[from] JoinError),
}

/// Serves `router` until a handler panics, which ends the process: what else is broken nobody knows.
///
/// The listeners share the slots, of which `askers` are for connections that have sent a request.
/// Handlers find the client's address as `ConnectInfo<SocketAddr>`, their connection's [`Turn`] as
/// an extension, and no body: none of our requests has one.
pub async fn serve(
    mut listeners: Vec<TcpListener>,
    askers: usize,
    router: Router,
) -> Result<(), ServerError> {
    let mut connections = JoinSet::new();
    let mut slots = Slots::new(askers);
    let mut accepted_at_once = 0;
    loop {
        tokio::select! {
            accepted = accept(&listeners) => match accepted {
                Ok((stream, client)) => {
                    // A crowd at one listener must not starve the others.
                    listeners.rotate_left(1);
                    let turn = slots.turn();
                    let connection = connections.spawn(converse(stream, client, turn.clone(), router.clone()));
                    if let Some(evicted) = slots.admit(connection, turn) {
                        evicted.abort();
                    }
                    // A connection is read before a crowd behind it can evict it.
                    accepted_at_once = (accepted_at_once + 1) % ACCEPTS_A_TURN;
                    if accepted_at_once == 0 {
                        yield_now().await;
                    }
                }
                Err(error) => breathe(&error).await,
            },
            Some(ended) = connections.join_next_with_id() => {
                let id = match ended {
                    Ok((id, ())) => id,
                    Err(error) if error.is_cancelled() => error.id(),
                    Err(error) => return Err(error.into()),
                };
                slots.free(|connection| connection.id() == id);
            }
        }
    }
}

/// Accepts a connection from the first listener that has one.
async fn accept(listeners: &[TcpListener]) -> io::Result<(TcpStream, SocketAddr)> {
    poll_fn(|context| {
        let accepted = listeners.iter().map(|listener| listener.poll_accept(context));
        accepted.into_iter().find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}

/// Answers the requests of one connection, until it is closed from either side.
async fn converse(stream: TcpStream, client: SocketAddr, turn: Turn, router: Router) {
    // An answer is one small segment, which must not wait for more to send.
    stream.set_nodelay(true).ok();
    let service = service_fn(|request: Request<Incoming>| {
        let busy = turn.ask();
        // Without a reader of the body, hyper closes the connection after the answer rather than
        // wait for the rest.
        let (mut head, _body) = request.into_parts();
        head.extensions.insert(ConnectInfo(client));
        head.extensions.insert(turn.clone());
        let router = router.clone();
        async move {
            // One request a turn: a client that sends many at once waits for all others between
            // them.
            yield_now().await;
            let answer = router.oneshot(Request::from_parts(head, Body::empty())).await;
            drop(busy);
            answer
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(Stream::new(stream)), service);
    if let Err(error) = connection.await {
        tracing::debug!("a connection ended early: {error}");
    }
}

/// A connection that its client gave up is nothing; a system without descriptors needs a moment.
async fn breathe(error: &io::Error) {
    if error.kind() != io::ErrorKind::ConnectionAborted {
        tracing::warn!("cannot accept a connection: {error}");
        tokio::time::sleep(ACCEPT_BACKOFF).await;
    }
}
