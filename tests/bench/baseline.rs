//! The baseline for the sidecar's HTTP server: axum on one thread, with one route and a constant
//! body.
//!
//! It runs in its own process, so that the client's work is not measured with it.

use crate::Result;
use axum::Router;
use axum::routing::get;
use axum::serve::ListenerExt as _;
use tokio::net::TcpListener;

/// The argument that makes the benchmark program this server. The body's length follows.
pub(crate) const ARGUMENT: &str = "baseline";

pub(crate) fn serve(length: &str) -> Result<()> {
    let body = "x".repeat(length.parse()?);
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run(body))
}

#[expect(clippy::print_stderr, reason = "the benchmark reads the address from stderr")]
async fn run(body: String) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    eprintln!("{}", serde_json::json!({ "listen": listener.local_addr()?.to_string() }));
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    let body: &'static str = body.leak();
    let router = Router::new().route("/leader", get(move || async move { body }));
    Ok(axum::serve(listener, router).await?)
}
