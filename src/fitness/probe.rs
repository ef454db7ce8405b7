//! Asks one URL of this machine once.
//!
//! Touches the network, to loopback addresses only: no proxy, no redirect, no name server. Start
//! with [`ask`].

use crate::config::LoopbackUrl;
use baton_election::duration::Rounded;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::io;
use std::pin::pin;
use std::time::Duration;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::yield_now;
use tokio::time::timeout;

/// How much of a body to read.
const MAX_BODY_BYTES: usize = 64 << 10;
/// The size of the buffers of a connection. Bounds the work of one poll, so that a flood does not
/// delay a renewal.
const BUFFER_BYTES: usize = 16 << 10;

/// The application did not say that it is fit.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProbeError {
    #[error("{url} did not answer completely within {}", Rounded::nearest(*.timeout))]
    TimedOut { url: LoopbackUrl, timeout: Duration },
    #[error("{url} answered {status}, which is not 2xx")]
    Status { url: LoopbackUrl, status: StatusCode },
    #[error("{url} cannot be reached")]
    Connect { url: LoopbackUrl, source: io::Error },
    #[error("{url} did not answer with HTTP")]
    Http { url: LoopbackUrl, source: hyper::Error },
    #[error("{url} cannot be asked")]
    Request { url: LoopbackUrl, source: hyper::http::Error },
}

/// Sends a GET request to `url`. It succeeds if a status of 2xx and the body, up to
/// [`MAX_BODY_BYTES`], arrive within `limit`.
pub(super) async fn ask(url: &LoopbackUrl, limit: Duration) -> Result<(), ProbeError> {
    let timed_out = |_| ProbeError::TimedOut { url: url.clone(), timeout: limit };
    timeout(limit, exchange(url)).await.map_err(timed_out)?
}

async fn exchange(url: &LoopbackUrl) -> Result<(), ProbeError> {
    let http = |source| ProbeError::Http { url: url.clone(), source };
    let connect_error = |source| ProbeError::Connect { url: url.clone(), source };
    let stream = connect(url).await.map_err(connect_error)?;
    let request = Request::get(url.path())
        .header("Host", url.authority())
        .header("Connection", "close")
        .body(Empty::<Bytes>::new())
        .map_err(|source| ProbeError::Request { url: url.clone(), source })?;
    let mut builder = http1::Builder::new();
    builder.max_buf_size(BUFFER_BYTES);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(http)?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(http)?;
        let status = response.status();
        if !status.is_success() {
            return Err(ProbeError::Status { url: url.clone(), status });
        }
        read(response.into_body()).await.map_err(http)
    };
    let mut answer = pin!(answer);
    tokio::select! {
        answer = &mut answer => answer,
        closed = connection => {
            closed.map_err(http)?;
            answer.await
        }
    }
}

/// Reads the body up to [`MAX_BODY_BYTES`], and lets other tasks run after each part.
async fn read(mut body: Incoming) -> Result<(), hyper::Error> {
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        bytes += frame?.data_ref().map_or(0, Bytes::len);
        if bytes > MAX_BODY_BYTES {
            break;
        }
        yield_now().await;
    }
    Ok(())
}

/// Connects to the first loopback address of `url` that accepts.
async fn connect(url: &LoopbackUrl) -> io::Result<TcpStream> {
    let mut result = Err(io::ErrorKind::AddrNotAvailable.into());
    for address in url.addresses().into_iter().filter(|address| address.ip().is_loopback()) {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
        let connecting = async {
            let socket = socket?;
            socket.set_recv_buffer_size(16 << 10)?;
            socket.connect(address).await
        };
        result = connecting.await;
        if result.is_ok() {
            break;
        }
    }
    result
}
