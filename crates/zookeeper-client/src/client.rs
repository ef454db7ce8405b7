//! One ZooKeeper session over one connection at a time.
//!
//! Touches sockets, through `dial.rs`. Start with [`Client`]. It connects only on request, and
//! neither retries nor queues requests. It needs no task of its own: [`Client::call`] and
//! [`Client::next_event`] read the connection while they are polled. Beyond its types, it
//! guarantees:
//!
//! * A request made while disconnected is never sent. A call that fails, or is dropped before its
//!   reply, closes the connection and discards what the kernel has not sent.
//! * A reply is returned before the watch events that the server sent after it.
//! * Dropping a client leaves its session to expire; only [`Client::close`] ends it.

use crate::dial::{ConnectError, ConnectRequest, DialError, Dialer, Transport};
use crate::frames::{Frames, InvalidFrameLength};
use crate::jute::{Decoder, Malformed};
use crate::operations::CloseSession;
use crate::resolve::Resolve;
use crate::servers::{Host, Servers};
use crate::wire;
use crate::wire::{Code, Grant, Operation, ServerMessage};
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
    /// In a random order, which spreads clients over the servers.
    hosts: Vec<Host>,
    /// The index of the host to try next.
    next_host: Cell<usize>,
    grant: RefCell<Option<Grant>>,
    /// The last transaction of this session that a server has reported.
    last_zxid: Cell<i64>,
    connection: RefCell<Option<ServerConnection>>,
    /// Wakes [`Client::next_event`]: the connection was replaced or closed, or its call has ended.
    changed: Notify,
}

/// Which session to request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionRequest {
    /// A new one.
    New,
    /// The session that was granted last.
    Resume,
}

/// An event that is not the reply to a request.
#[derive(Debug)]
pub enum ConnectionEvent {
    /// A watch that was set on this connection has fired.
    WatchFired,
    /// The connection is lost.
    Lost(ConnectionLoss),
}

/// Why a connection was lost.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionLoss {
    /// The server closed it.
    #[error("the server closed the connection")]
    Closed,
    /// The network failed.
    #[error("the connection to the server broke")]
    Broken(#[from] io::Error),
    /// The server announced a frame of invalid length.
    #[error("the server does not speak ZooKeeper's protocol")]
    Frame(#[from] InvalidFrameLength),
    /// The server sent a malformed message.
    #[error("the server does not speak ZooKeeper's protocol")]
    Malformed(#[from] Malformed),
    /// The server answered with an error that leaves the outcome unknown.
    #[error("the server could not complete the request")]
    Unfinished(#[source] Code),
}

/// Why a request has no reply.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The server did not perform the request.
    #[error(transparent)]
    Refused(Code),
    /// The client is disconnected. The request was not sent and never will be.
    #[error("not connected to a server, so nothing was sent")]
    NotSent,
    /// The request may have been performed.
    #[error("the outcome of the request is unknown")]
    Unknown(#[source] ConnectionLoss),
}

/// The xid of a reply, and its body or error.
type NumberedReply<'a> = (i32, Result<&'a [u8], Code>);

/// The current connection.
struct ServerConnection {
    stream: Transport,
    frames: Frames,
    next_xid: i32,
    /// Whether a call is in progress, which then reads the connection.
    has_call: bool,
    /// Whether a watch event is waiting to be returned.
    has_fired: bool,
}

impl<R: Resolve> Client<R> {
    /// A client of `servers`, not connected yet.
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
            connection: RefCell::default(),
            changed: Notify::new(),
        }
    }

    /// Takes over a session that another client was granted, and that it does not use any more. The
    /// next [`SessionRequest::Resume`] resumes it.
    pub fn take_over(&self, granted: Grant) {
        self.grant.replace(Some(granted));
        self.last_zxid.set(0);
    }

    /// Replaces the dialer; the next [`Self::connect`] uses it.
    pub fn set_dialer(&self, dialer: Dialer) {
        self.dialer.replace(Arc::new(dialer));
    }

    /// Drops the current connection and connects: tries each address of each server once, in
    /// rotation. Returns `None` if the session has expired.
    ///
    /// `timeout` is the session timeout to request. `within` bounds the whole attempt. One lookup
    /// or dial takes at most half of it, so that a silent server leaves time for another.
    pub async fn connect(
        &self,
        session: SessionRequest,
        timeout: Duration,
        within: Duration,
    ) -> Result<Option<Grant>, ConnectError> {
        self.disconnect();
        if session == SessionRequest::New {
            self.grant.take();
            self.last_zxid.set(0);
        }
        let before = self.grant.borrow().clone();
        let request =
            ConnectRequest { before: before.as_ref(), timeout, last_zxid: self.last_zxid.get() };
        let granted = self.dial_all(request, within).await?;
        Ok(granted.map(|(stream, grant)| {
            self.grant.replace(Some(grant.clone()));
            self.connection.replace(Some(ServerConnection::new(stream)));
            self.changed.notify_one();
            grant
        }))
    }

    /// Ends the session and deletes its ephemeral znodes.
    pub async fn close(&self) -> Result<(), CallError> {
        self.call(&CloseSession).await?;
        self.disconnect();
        self.grant.take();
        Ok(())
    }

    /// Sends a request and returns its reply. One call may be in progress at a time.
    pub async fn call<Q: Operation>(&self, request: &Q) -> Result<Q::Reply, CallError> {
        let call = PendingCall::start(self)?;
        let frame = wire::request(call.xid, request);
        let result = match call.exchange(&frame).await.map_err(CallError::Unknown)? {
            Ok(reply) => request
                .decode(&mut Decoder::new(&reply))
                .map_err(|error| CallError::Unknown(error.into()))?,
            Err(code @ (Code::SessionMoved | Code::Other(_))) => {
                return Err(CallError::Unknown(ConnectionLoss::Unfinished(code)));
            }
            Err(code) => {
                call.finish();
                return Err(CallError::Refused(code));
            }
        };
        call.finish();
        Ok(result)
    }

    /// The next event. Keep polling it, or a connection lost between calls goes unnoticed.
    pub async fn next_event(&self) -> ConnectionEvent {
        loop {
            if let Some(connection) = &mut *self.connection.borrow_mut()
                && !connection.has_call
                && std::mem::take(&mut connection.has_fired)
            {
                return ConnectionEvent::WatchFired;
            }
            let read = tokio::select! {
                read = poll_fn(|cx| self.poll_idle(cx)) => read,
                () = self.changed.notified() => continue,
            };
            let loss = match read.and_then(|frame| Ok(self.parse(&frame)?.map(|(xid, _)| xid))) {
                Ok(None) => continue,
                Ok(Some(xid)) => Malformed::UnexpectedReply(xid).into(),
                Err(loss) => loss,
            };
            self.connection.take();
            return ConnectionEvent::Lost(loss);
        }
    }

    async fn dial_all(
        &self,
        request: ConnectRequest<'_>,
        within: Duration,
    ) -> Result<Option<(Transport, Grant)>, ConnectError> {
        let dialer = Arc::clone(&self.dialer.borrow());
        let started = now();
        let share = || within.saturating_sub(started.elapsed()).min(within / 2);
        let mut failures = Vec::new();
        for _ in &self.hosts {
            if share().is_zero() {
                break;
            }
            // Advance first, so that a call after a dropped attempt begins with the next host.
            let index = self.next_host.get();
            self.next_host.set((index + 1) % self.hosts.len());
            let host = &self.hosts[index];
            let resolved = self.resolver.look_up(&host.name, share()).await;
            let mut addresses = resolved.unwrap_or_else(|error| {
                failures.push(DialError::Resolve(host.clone(), error));
                Vec::new()
            });
            addresses.sort_by_cached_key(|_| Uuid::new_v4());
            for mut address in addresses {
                address.set_port(host.port);
                if share().is_zero() {
                    break;
                }
                match dialer.dial(host, address, request, share()).await {
                    Ok(granted) => return Ok(granted),
                    Err(error) => failures.push(error),
                }
            }
        }
        Err(ConnectError::new(failures))
    }

    fn disconnect(&self) {
        self.connection.take();
        self.changed.notify_one();
    }

    /// Reads the next frame while no call is in progress.
    fn poll_idle(&self, cx: &mut Context<'_>) -> Poll<Result<Vec<u8>, ConnectionLoss>> {
        match &mut *self.connection.borrow_mut() {
            Some(connection) if !connection.has_call => connection.poll_frame(cx),
            Some(_) | None => Poll::Pending,
        }
    }

    /// Parses a frame: records a watch event, or returns a reply.
    fn parse<'a>(&self, frame: &'a [u8]) -> Result<Option<NumberedReply<'a>>, Malformed> {
        let (message, zxid) = wire::parse_message(frame)?;
        self.last_zxid.set(self.last_zxid.get().max(zxid.unwrap_or_default()));
        match message {
            ServerMessage::Reply(xid, result) => Ok(Some((xid, result))),
            ServerMessage::WatchFired => {
                if let Some(connection) = &mut *self.connection.borrow_mut() {
                    connection.has_fired = true;
                }
                Ok(None)
            }
        }
    }
}

/// A call in progress. Unless it finishes, dropping it closes the connection.
struct PendingCall<'a, R> {
    client: &'a Client<R>,
    xid: i32,
}

impl<'a, R: Resolve> PendingCall<'a, R> {
    fn start(client: &'a Client<R>) -> Result<Self, CallError> {
        let mut connection = client.connection.borrow_mut();
        let connection = connection.as_mut().ok_or(CallError::NotSent)?;
        assert!(!std::mem::replace(&mut connection.has_call, true), "another call is in progress");
        let xid = connection.next_xid;
        connection.next_xid = xid.checked_add(1).unwrap_or(1);
        Ok(Self { client, xid })
    }

    async fn exchange(&self, frame: &[u8]) -> Result<Result<Vec<u8>, Code>, ConnectionLoss> {
        let mut sent = 0;
        poll_fn(|cx| self.with_connection(|connection| connection.poll_send(cx, frame, &mut sent)))
            .await?;
        loop {
            let frame =
                poll_fn(|cx| self.with_connection(|connection| connection.poll_frame(cx))).await?;
            match self.client.parse(&frame)? {
                None => {}
                Some((xid, result)) if xid == self.xid => return Ok(result.map(<[u8]>::to_vec)),
                Some((xid, _)) => return Err(Malformed::UnexpectedReply(xid).into()),
            }
        }
    }

    fn with_connection<T>(
        &self,
        poll: impl FnOnce(&mut ServerConnection) -> Poll<Result<T, ConnectionLoss>>,
    ) -> Poll<Result<T, ConnectionLoss>> {
        self.client
            .connection
            .borrow_mut()
            .as_mut()
            .map_or(Poll::Ready(Err(ConnectionLoss::Closed)), poll)
    }

    fn finish(self) {
        if let Some(connection) = &mut *self.client.connection.borrow_mut() {
            connection.has_call = false;
        }
    }
}

impl<R> Drop for PendingCall<'_, R> {
    fn drop(&mut self) {
        self.client.connection.borrow_mut().take_if(|connection| connection.has_call);
        self.client.changed.notify_one();
    }
}

impl ServerConnection {
    fn new(stream: Transport) -> Self {
        Self { stream, frames: Frames::default(), next_xid: 1, has_call: false, has_fired: false }
    }

    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        frame: &[u8],
        sent: &mut usize,
    ) -> Poll<Result<(), ConnectionLoss>> {
        while *sent < frame.len() {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, &frame[*sent..]))? {
                0 => return Poll::Ready(Err(ConnectionLoss::Closed)),
                written => *sent += written,
            }
        }
        Pin::new(&mut self.stream).poll_flush(cx).map_err(ConnectionLoss::from)
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<u8>, ConnectionLoss>> {
        loop {
            if let Some(frame) = self.frames.pop()? {
                return Poll::Ready(Ok(frame));
            }
            let mut bytes = [0; 8 << 10];
            let mut buffer = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
            if buffer.filled().is_empty() {
                return Poll::Ready(Err(ConnectionLoss::Closed));
            }
            self.frames.push(buffer.filled());
        }
    }
}

/// The start of an attempt to connect. Its clock may stop during suspend, because it only bounds
/// the attempt.
#[expect(clippy::disallowed_methods, reason = "no claim counts from this instant")]
fn now() -> Instant {
    Instant::now()
}

impl<R> fmt::Debug for Client<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}
