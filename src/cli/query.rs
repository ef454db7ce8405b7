//! The HTTP client of the subcommands that ask a running sidecar.
//!
//! Touches the network, to the sidecar's address only. Start with [`send`]. No query obtains a
//! promise.

use crate::config::ListenAddress;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;

/// The longest body to read. Every answer of the sidecar is shorter.
const MAX_BODY_BYTES: usize = 1 << 20;

/// A request to the sidecar.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// GET or POST.
    pub method: &'static Method,
    /// Path and query.
    pub path: &'a str,
    /// How long to wait for the whole answer.
    pub timeout: Duration,
}

/// No HTTP answer came in time.
#[derive(Debug, thiserror::Error)]
#[error("no answer from a sidecar at {listen} (see --listen)")]
pub struct QueryError {
    listen: ListenAddress,
    source: Box<dyn Error + Send + Sync>,
}

/// Sends `query` to the sidecar at `listen`, and returns the status and body of its answer.
pub async fn send(
    listen: ListenAddress,
    query: Query<'_>,
) -> Result<(StatusCode, String), QueryError> {
    let answer = tokio::time::timeout(query.timeout, exchange(listen, query)).await;
    answer.map_err(Into::into).flatten().map_err(|source| QueryError { listen, source })
}

async fn exchange(
    listen: ListenAddress,
    query: Query<'_>,
) -> Result<(StatusCode, String), Box<dyn Error + Send + Sync>> {
    let stream = connect(listen).await?;
    let host = stream.peer_addr()?.to_string();
    let request = Request::builder()
        .method(query.method)
        .uri(query.path)
        .header("Host", host)
        .header("Baton-Request", "1")
        .body(Empty::<Bytes>::new())?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let answer = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_BODY_BYTES).collect().await?;
        Ok((status, String::from_utf8_lossy(&body.to_bytes()).into_owned()))
    };
    let mut answer = std::pin::pin!(answer);
    tokio::select! {
        answer = &mut answer => answer,
        closed = connection => {
            closed?;
            answer.await
        }
    }
}

async fn connect(listen: ListenAddress) -> io::Result<TcpStream> {
    let mut result = Err(io::ErrorKind::AddrNotAvailable.into());
    for address in listen.reachable_at() {
        result = TcpStream::connect(address).await;
        if result.is_ok() {
            break;
        }
    }
    result
}
