//! What the sidecar is compared with: axum, one thread, and one route that answers a constant.
//!
//! Runs in a process of its own: one in the client's would not be measured alone.

use crate::Result;
use axum::Router;
use axum::routing::get;
use axum::serve::ListenerExt as _;
use tokio::net::TcpListener;

/// What makes the bench's program this server; a length follows.
pub(crate) const ARGUMENT: &str = "baseline";

pub(crate) fn serve(length: &str) -> Result<()> {
    let body = "x".repeat(length.parse()?);
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run(body))
}

#[expect(clippy::print_stderr, reason = "where the address is read")]
async fn run(body: String) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    eprintln!("{}", serde_json::json!({ "listen": listener.local_addr()?.to_string() }));
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    let body: &'static str = body.leak();
    let router = Router::new().route("/leader", get(move || async move { body }));
    Ok(axum::serve(listener, router).await?)
}
