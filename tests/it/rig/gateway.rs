//! What stands before an API server in many places, as a load balancer does: it speaks HTTP, passes requests on, and
//! answers some of them itself, in words of its own.

use super::{Access, lock};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use futures_util::stream;
use hyper::Method;
use kube::Client;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use tokio::net::TcpListener;
use tokio::runtime;
use tokio::sync::oneshot;

/// An answer in the API server's stead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    pub(crate) code: u16,
    pub(crate) body: &'static str,
    /// Whether the connection is closed in the middle of it.
    pub(crate) is_cut: bool,
}

pub(crate) struct Gateway {
    address: SocketAddr,
    orders: Arc<Mutex<Orders>>,
    over: Option<oneshot::Sender<()>>,
    server: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Orders {
    page: Option<(Option<Method>, Page)>,
    watches: Option<Page>,
    answered: usize,
}

#[derive(Clone)]
struct AppState {
    client: Client,
    orders: Arc<Mutex<Orders>>,
}

impl Page {
    pub(crate) const fn new(code: u16, body: &'static str) -> Self {
        Self { code, body, is_cut: false }
    }
}

impl Gateway {
    /// Before the API server that `access` leads to. Whoever asks has to say who it is.
    pub(crate) fn before(access: &Access) -> Self {
        let orders = Arc::<Mutex<Orders>>::default();
        let (over, is_over) = oneshot::channel::<()>();
        let (bound, address) = std::sync::mpsc::channel();
        let server = thread::spawn({
            let (access, orders) = (access.clone(), Arc::clone(&orders));
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
                    let router =
                        Router::new().fallback(answer).with_state(AppState { client, orders });
                    tokio::select! {
                        ended = axum::serve(listener, router) => ended.expect("it serves"),
                        _ = is_over => {}
                    }
                });
            }
        });
        let address = address.recv().expect("it listens");
        Self { address, orders, over: Some(over), server: Some(server) }
    }

    /// As a kubeconfig names it.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on requests are answered by this page: all of them, or those with this method.
    pub(crate) fn answer(&self, method: Option<Method>, page: Page) {
        lock(&self.orders).page = Some((method, page));
    }

    /// From now on, answers watches with this page.
    pub(crate) fn answer_watches(&self, page: Page) {
        lock(&self.orders).watches = Some(page);
    }

    /// From now on requests are passed on.
    pub(crate) fn pass(&self) {
        let mut orders = lock(&self.orders);
        (orders.page, orders.watches) = (None, None);
    }

    /// How many requests were answered by a page.
    pub(crate) fn answered(&self) -> usize {
        lock(&self.orders).answered
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        drop(self.over.take());
        let server = self.server.take().expect("it is dropped once");
        assert!(server.join().is_ok() || thread::panicking(), "a gateway does not panic");
    }
}

async fn answer(State(desk): State<AppState>, request: Request) -> Response {
    let page = {
        let mut orders = lock(&desk.orders);
        let page = orders
            .page
            .clone()
            .filter(|(method, _)| method.as_ref().is_none_or(|one| one == request.method()));
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let page = page.map(|(_, page)| page).or_else(|| orders.watches.filter(|_| is_watch));
        orders.answered += usize::from(page.is_some());
        page
    };
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
    match desk.client.send(Request::from_parts(parts, body.to_vec().into())).await {
        Ok(response) => response.map(Body::new),
        Err(error) => {
            Response::builder().status(502).body(error.to_string().into()).expect("it is an answer")
        }
    }
}
