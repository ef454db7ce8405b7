//! Serves a router on bound listeners, within limits on time, memory, and connections.
//!
//! Touches sockets and hyper. Start with [`serve`]. `axum::serve` has no such limits, and a sidecar
//! without memory or file descriptors cannot renew its claim.
//!
//! A connection takes two buffers of [`MAX_HEAD_BYTES`] and one answer until [`slots`] evicts it.

mod slots;
mod stream;

pub use slots::{Activity, Limits};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http_body_util::BodyExt as _;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use slots::{Busy, Slots};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::Poll;
use std::time::Duration;
use stream::TimedStream;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet, yield_now};
use tower::ServiceExt as _;

/// The longest request line and headers: the least that hyper allows.
const MAX_HEAD_BYTES: usize = 8 << 10;
/// How long a connection may stay open without a whole request: longer than clients sleep between
/// two requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// How many connections to accept before the runtime serves the accepted ones. A client's first
/// request is read within two such turns, so this must be well below half of the slots for
/// newcomers.
const ACCEPTS_PER_TURN: usize = 8;
/// How long to wait when the system accepts no more connections, as without free file descriptors.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// Why [`serve`] ended.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A handler panicked.
    #[error("the handler of a request panicked")]
    Handler(#[from] JoinError),
}

/// Serves `router` until a handler panics. The supervisor then ends the process, because its state
/// may be inconsistent.
///
/// The listeners share `limits`. Requests carry the extensions `ConnectInfo<SocketAddr>` and
/// [`Activity`], and no body: no endpoint reads one.
pub async fn serve(
    mut listeners: Vec<TcpListener>,
    limits: Limits,
    router: Router,
) -> Result<(), ServerError> {
    let mut connections = JoinSet::new();
    let mut slots = Slots::new(limits);
    let mut accepted_at_once = 0;
    loop {
        tokio::select! {
            accepted = accept(&listeners) => match accepted {
                Ok((stream, client)) => {
                    // Many clients of one listener must not starve the others.
                    listeners.rotate_left(1);
                    let activity = slots.new_activity();
                    let served =
                        serve_connection(stream, client, activity.clone(), router.clone());
                    let connection = connections.spawn(served);
                    slots.admit(connection, activity);
                    while let Some(evicted) = slots.evict() {
                        evicted.abort();
                    }
                    // Read these connections before later ones can evict them.
                    accepted_at_once = (accepted_at_once + 1) % ACCEPTS_PER_TURN;
                    if accepted_at_once == 0 {
                        yield_now().await;
                    }
                }
                Err(error) => back_off(&error).await,
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

/// Accepts a connection from the first ready listener.
async fn accept(listeners: &[TcpListener]) -> io::Result<(TcpStream, SocketAddr)> {
    poll_fn(|context| {
        let accepted = listeners.iter().map(|listener| listener.poll_accept(context));
        accepted.into_iter().find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}

/// Serves one connection until either side closes it.
async fn serve_connection(
    stream: TcpStream,
    client: SocketAddr,
    activity: Activity,
    router: Router,
) {
    // An answer is one small segment, which Nagle's algorithm would delay.
    stream.set_nodelay(true).ok();
    let service = service_fn(|request: Request<Incoming>| {
        let busy = activity.begin_request();
        // Without a reader of the body, hyper closes the connection after the answer and does not
        // wait for the rest of the body.
        let (mut head, _body) = request.into_parts();
        head.extensions.insert(ConnectInfo(client));
        head.extensions.insert(activity.clone());
        let router = router.clone();
        async move {
            // One request per turn of the runtime, so a client that pipelines many does not delay
            // the others.
            yield_now().await;
            let answer = router.oneshot(Request::from_parts(head, Body::empty())).await;
            answer.map(|answer| answer.map(|body| stay_busy(body, busy)))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(TimedStream::new(stream)), service);
    if let Err(error) = connection.await {
        tracing::debug!("a connection ended with an error: {error}");
    }
}

/// The same body, which keeps its connection busy until it is sent.
fn stay_busy(body: Body, busy: Busy) -> Body {
    Body::new(body.map_frame(move |frame| {
        let _until_sent = &busy;
        frame
    }))
}

/// Logs an error of `accept`, and waits if the system lacks resources. A connection that its client
/// aborted needs neither.
async fn back_off(error: &io::Error) {
    if error.kind() != io::ErrorKind::ConnectionAborted {
        tracing::warn!("cannot accept a connection: {error}");
        tokio::time::sleep(ACCEPT_BACKOFF).await;
    }
}
