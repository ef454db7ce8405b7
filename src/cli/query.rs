//! Asks a sidecar: `baton status`, `baton probe` and `baton stopping`, for images that have no curl.
//!
//! Touches the network, to loopback or the address it is given. None of the questions promises anything.

use crate::config::Listen;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;

/// More than any answer of ours needs.
const LARGEST_BODY: usize = 1 << 20;

/// A question to the sidecar.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    /// GET or POST.
    pub method: &'static Method,
    /// Path and query.
    pub path: &'static str,
    /// How long the answer may take.
    pub timeout: Duration,
}

/// Nobody answered.
#[derive(Debug, thiserror::Error)]
#[error("no answer from a sidecar at {listen}")]
pub struct NoAnswer {
    listen: Listen,
    source: Box<dyn Error + Send + Sync>,
}

/// Asks the sidecar that listens at `listen`.
pub async fn ask(listen: Listen, question: Question) -> Result<(StatusCode, String), NoAnswer> {
    let answer = tokio::time::timeout(question.timeout, exchange(listen, question)).await;
    answer.map_err(Into::into).flatten().map_err(|source| NoAnswer { listen, source })
}

async fn exchange(
    listen: Listen,
    question: Question,
) -> Result<(StatusCode, String), Box<dyn Error + Send + Sync>> {
    let stream = connect(listen).await?;
    let host = stream.peer_addr()?.to_string();
    let request = Request::builder()
        .method(question.method)
        .uri(question.path)
        .header("Host", host)
        .header("Baton-Request", "1")
        .body(Empty::<Bytes>::new())?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let answer = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LARGEST_BODY).collect().await?;
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

async fn connect(listen: Listen) -> io::Result<TcpStream> {
    let mut result = Err(io::ErrorKind::AddrNotAvailable.into());
    for address in listen.reachable_at() {
        result = TcpStream::connect(address).await;
        if result.is_ok() {
            break;
        }
    }
    result
}
