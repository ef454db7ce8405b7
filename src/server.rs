//! Serves a router at a bound listener, with bounds on what a stranger can take.
//!
//! Touches sockets and hyper. `axum::serve` has no time-out for headers and no limit of connections, and a sidecar that
//! has run out of file descriptors cannot renew its claim.

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};

/// How many connections one listener holds at a time: far more than an application, a kubelet and a few scrapers need,
/// and for all listeners together well below the usual limit of 1,024 descriptors.
const MOST_CONNECTIONS: usize = 128;
/// How long a connection may stay open without a whole request: longer than anybody sleeps between two questions.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait where the system has no descriptor left for another connection.
const BREATH: Duration = Duration::from_millis(100);

/// Why a listener ended.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A handler panicked.
    #[error("a request ended in a fault of ours")]
    Handler(#[from] JoinError),
}

/// Serves `router` until a handler panics, which ends the process: what else is broken nobody knows.
pub async fn serve(listener: TcpListener, router: Router) -> Result<(), ServerError> {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MOST_CONNECTIONS => match accepted {
                Ok((stream, _peer)) => {
                    connections.spawn(converse(stream, router.clone()));
                }
                Err(error) => breathe(&error).await,
            },
            Some(ended) = connections.join_next() => ended?,
        }
    }
}

/// Answers the requests of one connection, until it is closed from either side.
async fn converse(stream: TcpStream, router: Router) {
    // An answer is one small segment, which must not wait for more to send.
    stream.set_nodelay(true).ok();
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    if let Err(error) = connection.await {
        tracing::debug!("a connection ended early: {error}");
    }
}

/// A connection that its client gave up is nothing; a system without descriptors needs a moment.
async fn breathe(error: &io::Error) {
    if error.kind() != io::ErrorKind::ConnectionAborted {
        tracing::warn!("cannot accept a connection: {error}");
        tokio::time::sleep(BREATH).await;
    }
}
