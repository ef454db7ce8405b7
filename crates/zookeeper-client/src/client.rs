//! One session with an ensemble, over one connection at a time: requests and their replies, and news in between.
//!
//! Touches sockets, through `dial.rs`. It connects when it is told to, repeats nothing, keeps nothing for later, and
//! needs no task: whoever waits for a reply or for news reads the connection meanwhile. What holds beyond the types:
//!
//! * What was asked without a connection is not sent, then or later. A call that fails, or is dropped before it has its
//!   reply, takes its connection with it, and what the kernel had not sent of it.
//! * A reply comes before the news that the server sent behind it.
//! * A client that is dropped leaves its session to run out: only [`Client::close`] ends it.

use crate::dial::{DialError, Dialer, Stream, Wish};
use crate::frames::{Frames, NoFrame};
use crate::jute::{Malformed, Reader};
use crate::requests::Close;
use crate::resolve::Resolve;
use crate::servers::{Host, Servers};
use crate::wire;
use crate::wire::{Code, Grant, Received, Request};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::sync::Notify;

use uuid::Uuid;

/// A client of an ensemble.
pub struct Client<R> {
    dialer: RefCell<Arc<Dialer>>,
    resolver: R,
    /// In an order of our own, so that a thousand clients do not all go to the first.
    hosts: Vec<Host>,
    /// Whose turn it is.
    next_host: Cell<usize>,
    grant: RefCell<Option<Grant>>,
    /// The last transaction of this session that a server told us of.
    last_zxid: Cell<i64>,
    link: RefCell<Option<Link>>,
    /// The connection is another one, or none, or no call reads it any more.
    turned: Notify,
}

/// Which session to connect with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Session {
    /// A new one.
    New,
    /// The one that was granted last.
    Same,
}

/// News that nobody asked for.
#[derive(Debug)]
pub enum News {
    /// A watch that was set on this connection has fired.
    Fired,
    /// The connection is lost.
    Lost(Lost),
}

/// Why a connection is lost.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// By the server.
    #[error("the server closed the connection")]
    Closed,
    /// By the network.
    #[error("the connection to the server broke")]
    Broken(#[from] io::Error),
    /// The server sends something else.
    #[error("the server does not speak ZooKeeper's protocol")]
    Frame(#[from] NoFrame),
    /// The server sends something else.
    #[error("the server does not speak ZooKeeper's protocol")]
    Malformed(#[from] Malformed),
    /// The server does not know either what became of a request.
    #[error("the server could not finish the request")]
    Unfinished(#[source] Code),
}

/// Why a request has no reply.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The server did not do it, and says why.
    #[error(transparent)]
    Refused(Code),
    /// There is no connection, so it was not sent and never will be.
    #[error("no server is connected, and nothing was sent")]
    NotSent,
    /// It may have been done or not.
    #[error("what became of the request is unknown")]
    Unknown(#[source] Lost),
}

/// Why no server gave us a session: what each said that was tried.
#[derive(Debug, thiserror::Error)]
#[error("no server grants a session")]
pub struct ConnectError(Vec<DialError>);

/// A request's number, and the body of its reply or why there is none.
type Answer<'a> = (i32, Result<&'a [u8], Code>);

/// The present connection.
struct Link {
    stream: Stream,
    frames: Frames,
    next_xid: i32,
    /// Whether a call reads what comes.
    is_called: bool,
    has_fired: bool,
}

impl<R: Resolve> Client<R> {
    /// A client of `servers` that is not connected yet.
    pub fn new(servers: &Servers, dialer: Dialer, resolver: R) -> Self {
        let mut hosts = servers.hosts.clone();
        hosts.sort_by_cached_key(|_| Uuid::new_v4());
        Self {
            dialer: RefCell::new(Arc::new(dialer)),
            resolver,
            hosts,
            next_host: Cell::new(0),
            grant: RefCell::default(),
            last_zxid: Cell::new(0),
            link: RefCell::default(),
            turned: Notify::new(),
        }
    }

    /// Lets the connections from now on be opened by another dialer.
    pub fn dial_by(&self, dialer: Dialer) {
        self.dialer.replace(Arc::new(dialer));
    }

    /// Connects, and forgets the connection that there was: each address of each server is tried once, from the server on
    /// whose turn it is. `None` when the session is over.
    ///
    /// `timeout` is the session time-out to ask for. `within` bounds the whole of it, and looking a name up or trying an
    /// address takes half of it at the most, so that one that does not answer leaves another a chance.
    pub async fn connect(
        &self,
        session: Session,
        timeout: Duration,
        within: Duration,
    ) -> Result<Option<Grant>, ConnectError> {
        self.forget();
        if session == Session::New {
            self.grant.take();
            self.last_zxid.set(0);
        }
        let before = self.grant.borrow().clone();
        let wish = Wish { before: before.as_ref(), timeout, last_zxid: self.last_zxid.get() };
        let granted = self.dial_all(wish, within).await?;
        Ok(granted.map(|(stream, grant)| {
            self.grant.replace(Some(grant.clone()));
            self.link.replace(Some(Link::new(stream)));
            self.turned.notify_one();
            grant
        }))
    }

    /// Ends the session, and with it every znode that lives as long as it.
    pub async fn close(&self) -> Result<(), CallError> {
        self.call(&Close).await?;
        self.forget();
        self.grant.take();
        Ok(())
    }

    /// Does what `request` says, and returns the reply.
    pub async fn call<Q: Request>(&self, request: &Q) -> Result<Q::Reply, CallError> {
        let call = Call::begin(self)?;
        let frame = wire::ask(call.xid, request);
        let result = match call.exchange(&frame).await.map_err(CallError::Unknown)? {
            Ok(reply) => request
                .decode(&mut Reader::new(&reply))
                .map_err(|error| CallError::Unknown(error.into()))?,
            Err(code @ (Code::SessionMoved | Code::Other(_))) => {
                return Err(CallError::Unknown(Lost::Unfinished(code)));
            }
            Err(code) => {
                call.end();
                return Err(CallError::Refused(code));
            }
        };
        call.end();
        Ok(result)
    }

    /// The next news; to be polled always, or a lost connection goes unnoticed while nobody calls.
    pub async fn next_news(&self) -> News {
        loop {
            if let Some(link) = &mut *self.link.borrow_mut()
                && !link.is_called
                && std::mem::take(&mut link.has_fired)
            {
                return News::Fired;
            }
            let heard = tokio::select! {
                heard = poll_fn(|cx| self.poll_idle(cx)) => heard,
                () = self.turned.notified() => continue,
            };
            let lost =
                match heard.and_then(|frame| Ok(self.understand(&frame)?.map(|(xid, _)| xid))) {
                    Ok(None) => continue,
                    Ok(Some(xid)) => Malformed::Unasked(xid).into(),
                    Err(lost) => lost,
                };
            self.link.take();
            return News::Lost(lost);
        }
    }

    async fn dial_all(
        &self,
        wish: Wish<'_>,
        within: Duration,
    ) -> Result<Option<(Stream, Grant)>, ConnectError> {
        let dialer = Arc::clone(&self.dialer.borrow());
        let begun = now();
        let share = || within.saturating_sub(begun.elapsed()).min(within / 2);
        let mut failures = Vec::new();
        for _ in &self.hosts {
            if share().is_zero() {
                break;
            }
            // The turn passes on first: an attempt that is dropped must not be the next one too.
            let turn = self.next_host.get();
            self.next_host.set((turn + 1) % self.hosts.len());
            let host = &self.hosts[turn];
            let found = self.resolver.look_up(&host.name, share()).await;
            let mut addresses = found.unwrap_or_else(|error| {
                failures.push(DialError::Resolve(host.clone(), error));
                Vec::new()
            });
            addresses.sort_by_cached_key(|_| Uuid::new_v4());
            for mut address in addresses {
                address.set_port(host.port);
                if share().is_zero() {
                    break;
                }
                match dialer.dial(host, address, wish, share()).await {
                    Ok(granted) => return Ok(granted),
                    Err(error) => failures.push(error),
                }
            }
        }
        Err(ConnectError(failures))
    }

    fn forget(&self) {
        self.link.take();
        self.turned.notify_one();
    }

    /// The next frame, while no call reads.
    fn poll_idle(&self, cx: &mut Context<'_>) -> Poll<Result<Vec<u8>, Lost>> {
        match &mut *self.link.borrow_mut() {
            Some(link) if !link.is_called => link.poll_frame(cx),
            Some(_) | None => Poll::Pending,
        }
    }

    /// What a frame says; news are kept, and a reply is returned.
    fn understand<'a>(&self, frame: &'a [u8]) -> Result<Option<Answer<'a>>, Malformed> {
        let (received, zxid) = wire::received(frame)?;
        self.last_zxid.set(self.last_zxid.get().max(zxid.unwrap_or_default()));
        match received {
            Received::Reply(xid, result) => Ok(Some((xid, result))),
            Received::Fired => {
                if let Some(link) = &mut *self.link.borrow_mut() {
                    link.has_fired = true;
                }
                Ok(None)
            }
        }
    }
}

/// A request in flight: unless it comes to its end, the connection goes with it.
struct Call<'a, R> {
    client: &'a Client<R>,
    xid: i32,
}

impl<'a, R: Resolve> Call<'a, R> {
    fn begin(client: &'a Client<R>) -> Result<Self, CallError> {
        let mut link = client.link.borrow_mut();
        let link = link.as_mut().ok_or(CallError::NotSent)?;
        assert!(
            !std::mem::replace(&mut link.is_called, true),
            "one request is in flight at a time"
        );
        let xid = link.next_xid;
        link.next_xid = xid.checked_add(1).unwrap_or(1);
        Ok(Self { client, xid })
    }

    async fn exchange(&self, frame: &[u8]) -> Result<Result<Vec<u8>, Code>, Lost> {
        let mut sent = 0;
        poll_fn(|cx| self.with_link(|link| link.poll_send(cx, frame, &mut sent))).await?;
        loop {
            let frame = poll_fn(|cx| self.with_link(|link| link.poll_frame(cx))).await?;
            match self.client.understand(&frame)? {
                None => {}
                Some((xid, result)) if xid == self.xid => return Ok(result.map(<[u8]>::to_vec)),
                Some((xid, _)) => return Err(Malformed::Unasked(xid).into()),
            }
        }
    }

    fn with_link<T>(
        &self,
        use_it: impl FnOnce(&mut Link) -> Poll<Result<T, Lost>>,
    ) -> Poll<Result<T, Lost>> {
        self.client.link.borrow_mut().as_mut().map_or(Poll::Ready(Err(Lost::Closed)), use_it)
    }

    fn end(self) {
        if let Some(link) = &mut *self.client.link.borrow_mut() {
            link.is_called = false;
        }
    }
}

impl<R> Drop for Call<'_, R> {
    fn drop(&mut self) {
        self.client.link.borrow_mut().take_if(|link| link.is_called);
        self.client.turned.notify_one();
    }
}

impl Link {
    fn new(stream: Stream) -> Self {
        Self { stream, frames: Frames::default(), next_xid: 1, is_called: false, has_fired: false }
    }

    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        frame: &[u8],
        sent: &mut usize,
    ) -> Poll<Result<(), Lost>> {
        while *sent < frame.len() {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, &frame[*sent..]))? {
                0 => return Poll::Ready(Err(Lost::Closed)),
                written => *sent += written,
            }
        }
        Pin::new(&mut self.stream).poll_flush(cx).map_err(Lost::from)
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<u8>, Lost>> {
        loop {
            if let Some(frame) = self.frames.pop()? {
                return Poll::Ready(Ok(frame));
            }
            let mut bytes = [0; 8 << 10];
            let mut buffer = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
            if buffer.filled().is_empty() {
                return Poll::Ready(Err(Lost::Closed));
            }
            self.frames.push(buffer.filled());
        }
    }
}

/// Only how long attempts take hangs on this, so a clock that stops in suspend will do.
#[expect(clippy::disallowed_methods, reason = "no claim counts from this instant")]
fn now() -> Instant {
    Instant::now()
}

impl ConnectError {
    /// Why each attempt failed.
    pub fn failures(&self) -> &[DialError] {
        &self.0
    }

    /// Whether a server refused what we are, which trying again does not cure.
    pub fn is_refusal(&self) -> bool {
        self.0.iter().any(|failure| matches!(failure, DialError::Refused { .. }))
    }
}

impl<R> fmt::Debug for Client<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}
