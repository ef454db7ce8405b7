//! One HTTP request, over a connection of its own and in a time of its own. The demo uses it too.
//!
//! A connection is never used twice: one on which an answer is missing could bring it later, as the
//! answer to the next question.

use axum::http::{Request, Response, Uri, header, request};
use http_body_util::{BodyExt as _, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::str::FromStr;
use std::time::Duration;
use tokio::net::TcpStream;

/// More than any answer here has.
const LONGEST_ANSWER: usize = 1 << 20;

/// Where to ask: what `http://HOST:PORT` names.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    host: String,
    address: String,
}

/// Why there is no answer; which of many reasons makes no difference to any caller.
pub(crate) type NoAnswer = Box<dyn Error + Send + Sync>;

impl Origin {
    /// Sends a request, whose URI is its path, and reads the answer to its end, in at most `within`.
    pub(crate) async fn send(
        &self,
        request: request::Builder,
        body: String,
        within: Duration,
    ) -> Result<Response<String>, NoAnswer> {
        let request = request.header(header::HOST, &self.host).body(body)?;
        tokio::time::timeout(within, self.exchange(request)).await?
    }

    async fn exchange(&self, request: Request<String>) -> Result<Response<String>, NoAnswer> {
        let stream = TcpStream::connect(&self.address).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let answer = async move {
            let (parts, body) = sender.send_request(request).await?.into_parts();
            let body = Limited::new(body, LONGEST_ANSWER).collect().await?.to_bytes();
            Ok(Response::from_parts(parts, String::from_utf8(body.into())?))
        };
        // The connection does the work, and ends when the answer, which owns the sender, has been read.
        let (answer, _closed) = tokio::join!(answer, connection);
        answer
    }
}

/// What is no origin.
#[derive(Debug, thiserror::Error)]
#[error("write it as http://HOST:PORT, with nothing after it")]
pub(crate) struct NotAnOrigin;

impl FromStr for Origin {
    type Err = NotAnOrigin;

    fn from_str(text: &str) -> Result<Self, NotAnOrigin> {
        let uri: Uri = text.parse().map_err(|_| NotAnOrigin)?;
        let plain = uri.scheme_str() == Some("http") && uri.path() == "/" && uri.query().is_none();
        let authority = uri.authority().filter(|_| plain).ok_or(NotAnOrigin)?;
        let port = authority.port_u16().unwrap_or(80);
        let address = format!("{}:{port}", authority.host());
        Ok(Self { host: authority.to_string(), address })
    }
}
