//! A minimal HTTP client: one connection and one timeout for each request. The demo uses it too.
//!
//! Start with [`Origin::send`]. A connection is never reused: after a timeout, the late response
//! would be read as the response to the next request.

use axum::http::{Request, Response, Uri, header, request};
use http_body_util::{BodyExt as _, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::str::FromStr;
use std::time::Duration;
use tokio::net::TcpStream;

/// The largest response body that is read.
const MAX_RESPONSE_BYTES: usize = 1 << 20;

/// The server named by `http://HOST:PORT`.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    host: String,
    address: String,
}

/// Why a request got no response. Callers treat all causes alike.
pub(crate) type RequestError = Box<dyn Error + Send + Sync>;

impl Origin {
    /// Sends `request`, whose URI is a path, and reads the whole response within `timeout`.
    pub(crate) async fn send(
        &self,
        request: request::Builder,
        body: String,
        timeout: Duration,
    ) -> Result<Response<String>, RequestError> {
        let request = request.header(header::HOST, &self.host).body(body)?;
        tokio::time::timeout(timeout, self.exchange(request)).await?
    }

    async fn exchange(&self, request: Request<String>) -> Result<Response<String>, RequestError> {
        let stream = TcpStream::connect(&self.address).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let response = async move {
            let (parts, body) = sender.send_request(request).await?.into_parts();
            let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await?.to_bytes();
            Ok(Response::from_parts(parts, String::from_utf8(body.into())?))
        };
        // The connection does the I/O. It closes when `response` drops the sender.
        let (response, _closed) = tokio::join!(response, connection);
        response
    }
}

/// A text is not an origin.
#[derive(Debug, thiserror::Error)]
#[error("not an origin: write http://HOST:PORT without a path")]
pub(crate) struct InvalidOrigin;

impl FromStr for Origin {
    type Err = InvalidOrigin;

    fn from_str(text: &str) -> Result<Self, InvalidOrigin> {
        let uri: Uri = text.parse().map_err(|_| InvalidOrigin)?;
        let is_origin =
            uri.scheme_str() == Some("http") && uri.path() == "/" && uri.query().is_none();
        let authority = uri.authority().filter(|_| is_origin).ok_or(InvalidOrigin)?;
        let port = authority.port_u16().unwrap_or(80);
        let address = format!("{}:{port}", authority.host());
        Ok(Self { host: authority.to_string(), address })
    }
}
