//! An API server's client: kube's layers without its retries and logs, with `TCP_NODELAY`, and with
//! the HTTP status in every error.
//!
//! Touches the system's certificate authorities, if a kubeconfig names none. Start with [`client`].
//! The first request connects.

use super::api_server_error::ApiServerError;
use super::tls;
use super::tls::ClientIdentity;
use crate::process::resolver::Resolver;
use baton_election::text::one_line;
use http_body_util::{BodyExt as _, Collected, Limited};
use hyper::Response;
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt as _;
use kube::core::Status;
use kube::{Client, Config};
use std::time::Duration;
use tower::util::AndThenLayer;
use tower::{BoxError, ServiceBuilder};

/// The time limit of a TCP connection attempt; a call's own timeout may be shorter.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How much of an error response is read, in bytes.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// The longest excerpt of an error response that is not a Status, in characters.
const MAX_EXCERPT_CHARS: usize = 200;

/// The longest Status message that is kept, in characters: enough for one about missing rights,
/// which names the user, the verb, and the Lease.
const MAX_MESSAGE_CHARS: usize = 4000;

/// The size of a connection's read buffer, in bytes.
const READ_BUFFER_BYTES: usize = 64 * 1024;

/// Creates the client that `config` describes.
///
/// kube's own client would repeat a PUT up to 15 times, but only the election may repeat a write.
/// It also leaves Nagle's algorithm on. After a resumed TLS handshake, the last handshake message
/// and the first request are two small writes, and the second waits 40 ms for the server's delayed
/// acknowledgement. A candidate that takes over opens such a connection, since its watch occupies
/// the other.
pub(super) fn client(
    config: &Config,
    identity: Option<ClientIdentity>,
    resolver: Resolver,
) -> Result<Client, ApiServerError> {
    let mut tcp = HttpConnector::new_with_resolver(resolver);
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let connector = tls::connector(config, identity, tcp)?;
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(config.extra_headers_layer().map_err(ApiServerError::Impersonation)?)
        .layer(AndThenLayer::new(with_http_status))
        .service(
            legacy::Client::builder(TokioExecutor::new())
                .http1_max_buf_size(READ_BUFFER_BYTES)
                .build(connector),
        );
    Ok(Client::new(service, config.default_namespace.clone()))
}

/// Turns an error response into an error with its HTTP status. kube uses the code in the body,
/// which many proxies omit. The message is untrusted text for logs, so it becomes one line.
async fn with_http_status(response: Response<Incoming>) -> Result<Response<Incoming>, BoxError> {
    let code = response.status();
    if !code.is_client_error() && !code.is_server_error() {
        return Ok(response);
    }
    // The response is an error even if its body cannot be read.
    let body = Limited::new(response.into_body(), MAX_ERROR_BYTES).collect().await;
    let body = body.map(Collected::to_bytes).unwrap_or_default();
    let mut status: Status = serde_json::from_slice(&body).unwrap_or_default();
    status.code = code.as_u16();
    status.message = if status.message.is_empty() {
        excerpt(&String::from_utf8_lossy(&body))
    } else {
        one_line(&status.message).chars().take(MAX_MESSAGE_CHARS).collect()
    };
    Err(Box::new(kube::Error::Api(Box::new(status))))
}

/// The beginning of a text, on one line.
fn excerpt(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    one_line(&line).chars().take(MAX_EXCERPT_CHARS).collect()
}
