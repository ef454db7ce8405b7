//! A gateway in front of an API server, like a load balancer: it forwards requests over HTTP and
//! can answer some of them itself.

use super::{Access, lock};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use futures_util::stream;
use hyper::Method;
use hyper::header::{DATE, HeaderValue};
use kube::Client;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use tokio::net::TcpListener;
use tokio::runtime;
use tokio::sync::oneshot;

/// A response that the gateway gives instead of the API server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    pub(crate) code: u16,
    pub(crate) body: &'static str,
    /// Whether the connection is closed in the middle of the body.
    pub(crate) is_cut: bool,
}

pub(crate) struct Gateway {
    address: SocketAddr,
    overrides: Arc<Mutex<Overrides>>,
    over: Option<oneshot::Sender<()>>,
    server: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Overrides {
    page: Option<(Option<Method>, Page)>,
    watches: Option<Page>,
    date: Option<&'static str>,
    unanswered: Option<Method>,
    answered: usize,
}

#[derive(Clone)]
struct GatewayState {
    client: Client,
    overrides: Arc<Mutex<Overrides>>,
}

impl Page {
    pub(crate) const fn new(code: u16, body: &'static str) -> Self {
        Self { code, body, is_cut: false }
    }
}

impl Gateway {
    /// Starts a gateway to the API server that `access` names. Clients must send their own
    /// credentials.
    pub(crate) fn before(access: &Access) -> Self {
        let overrides = Arc::<Mutex<Overrides>>::default();
        let (over, is_over) = oneshot::channel::<()>();
        let (bound, address) = std::sync::mpsc::channel();
        let server = thread::spawn({
            let (access, overrides) = (access.clone(), Arc::clone(&overrides));
            move || {
                let runtime = runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("a runtime can be made");
                runtime.block_on(async {
                    let client = access.without_credentials().await;
                    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
                        .await
                        .expect("there are free ports");
                    bound
                        .send(listener.local_addr().expect("it is bound"))
                        .expect("it is waited for");
                    let router = Router::new()
                        .fallback(answer)
                        .with_state(GatewayState { client, overrides });
                    tokio::select! {
                        ended = axum::serve(listener, router) => ended.expect("it serves"),
                        _ = is_over => {}
                    }
                });
            }
        });
        let address = address.recv().expect("it listens");
        Self { address, overrides, over: Some(over), server: Some(server) }
    }

    /// Its address, for a kubeconfig.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on, answers requests with this page: all of them, or those with this method.
    pub(crate) fn answer(&self, method: Option<Method>, page: Page) {
        lock(&self.overrides).page = Some((method, page));
    }

    /// From now on, answers watches with this page.
    pub(crate) fn answer_watches(&self, page: Page) {
        lock(&self.overrides).watches = Some(page);
    }

    /// From now on, never answers requests with this method.
    pub(crate) fn hang(&self, method: Method) {
        lock(&self.overrides).unanswered = Some(method);
    }

    /// From now on, forwards answers with this `Date`.
    pub(crate) fn date_answers(&self, date: &'static str) {
        lock(&self.overrides).date = Some(date);
    }

    /// From now on, forwards every request.
    pub(crate) fn pass(&self) {
        let mut overrides = lock(&self.overrides);
        (overrides.page, overrides.watches) = (None, None);
    }

    /// How many requests it has answered with a page, or left without an answer.
    pub(crate) fn answered(&self) -> usize {
        lock(&self.overrides).answered
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        drop(self.over.take());
        let server = self.server.take().expect("it is dropped once");
        assert!(server.join().is_ok() || thread::panicking(), "a gateway does not panic");
    }
}

async fn answer(State(state): State<GatewayState>, request: Request) -> Response {
    let (page, hangs) = {
        let mut overrides = lock(&state.overrides);
        let page = overrides
            .page
            .clone()
            .filter(|(method, _)| method.as_ref().is_none_or(|method| method == request.method()));
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let page = page.map(|(_, page)| page).or_else(|| overrides.watches.filter(|_| is_watch));
        let hangs = overrides.unanswered.as_ref() == Some(request.method());
        overrides.answered += usize::from(page.is_some() || hangs);
        (page, hangs)
    };
    if hangs {
        return std::future::pending().await;
    }
    if let Some(Page { code, body, is_cut }) = page {
        let cut = is_cut.then(|| Err(io::ErrorKind::BrokenPipe.into()));
        let parts: Vec<io::Result<&str>> = [Ok(body)].into_iter().chain(cut).collect();
        return Response::builder()
            .status(code)
            .body(Body::from_stream(stream::iter(parts)))
            .expect("it is an answer");
    }
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    match state.client.send(Request::from_parts(parts, body.to_vec().into())).await {
        Ok(mut response) => {
            if let Some(date) = lock(&state.overrides).date {
                response.headers_mut().insert(DATE, HeaderValue::from_static(date));
            }
            response.map(Body::new)
        }
        Err(error) => {
            Response::builder().status(502).body(error.to_string().into()).expect("it is an answer")
        }
    }
}
