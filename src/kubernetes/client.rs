//! The client of an API server: kube's own stack of layers, less its retries and its log lines, over connections that
//! send at once, and with the HTTP status in every refusal.
//!
//! Touches certificates and keys that a kubeconfig names. Connecting is the first request's business.

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

/// How long a connection may take to be made; a call's own time-out may be shorter.
const CONNECT: Duration = Duration::from_secs(2);

/// The most that is read of a refusal, in bytes.
const LONGEST_REFUSAL: usize = 64 * 1024;

/// The most that is told of a refusal that is no Status, in characters.
const LONGEST_EXCERPT: usize = 200;

/// The longest message of a Status that is reported, in characters. One about missing rights names
/// user, verb, and Lease.
const LONGEST_MESSAGE: usize = 4000;

/// The most that a connection buffers of an unread answer, in bytes.
const LONGEST_BUFFER: usize = 64 * 1024;

/// The client that `config` describes.
///
/// kube repeats a PUT up to 15 times; the machine repeats what it knows the outcome of. And kube leaves Nagle's
/// algorithm on: where a TLS session is resumed, the end of the handshake and the first request are two small writes, of
/// which the second waits 40 ms for the server's delayed acknowledgement. A candidate that takes over makes just such a
/// connection, since its watch keeps the one that it had.
pub(super) fn client(config: &Config, resolver: Resolver) -> kube::Result<Client> {
    let mut tcp = HttpConnector::new_with_resolver(resolver);
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT));
    let connector = config.rustls_https_connector_with_connector(tcp)?;
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .layer(AndThenLayer::new(with_its_code))
        .service(
            legacy::Client::builder(TokioExecutor::new())
                .http1_max_buf_size(LONGEST_BUFFER)
                .build(connector),
        );
    Ok(Client::new(service, config.default_namespace.clone()))
}

/// Turns a refusal into an error with the code of its HTTP status. kube would take the code in the
/// body, which many proxies in front of an API server leave out. The message is foreign text and
/// ends in logs, so it becomes one line here, for all callers.
async fn with_its_code(response: Response<Incoming>) -> Result<Response<Incoming>, BoxError> {
    let code = response.status();
    if !code.is_client_error() && !code.is_server_error() {
        return Ok(response);
    }
    // A refusal is one, however much can be read of it.
    let body = Limited::new(response.into_body(), LONGEST_REFUSAL).collect().await;
    let body = body.map(Collected::to_bytes).unwrap_or_default();
    let mut status: Status = serde_json::from_slice(&body).unwrap_or_default();
    status.code = code.as_u16();
    status.message = if status.message.is_empty() {
        excerpt(&String::from_utf8_lossy(&body))
    } else {
        one_line(&status.message).chars().take(LONGEST_MESSAGE).collect()
    };
    Err(Box::new(kube::Error::Api(Box::new(status))))
}

/// The beginning of a text, in one line.
fn excerpt(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    one_line(&line).chars().take(LONGEST_EXCERPT).collect()
}
