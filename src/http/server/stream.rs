//! A connection whose client has to take its answers in time.
//!
//! Touches one socket. hyper bounds how long a request may take to come, and not how long an answer
//! may take to go.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// How long an answer may wait for its client to read: the kernel's buffers take any answer of ours
/// at once.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// A TCP connection that fails when its client does not read.
///
/// The time counts from the first write that has to wait until all that was written has gone, so
/// that a client that reads a little now and then gains nothing.
#[derive(Debug)]
pub(super) struct Stream {
    tcp: TcpStream,
    stuck: Option<Pin<Box<Sleep>>>,
    is_shut_down: bool,
}

impl Stream {
    pub(super) const fn new(tcp: TcpStream) -> Self {
        Self { tcp, stuck: None, is_shut_down: false }
    }

    /// Fails a write that has waited for too long.
    fn bound<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            return written;
        }
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
        stuck.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write(context, bytes);
        self.bound(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write_vectored(context, slices);
        self.bound(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    /// hyper flushes when everything has been written.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stuck = None;
        Pin::new(&mut self.tcp).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut_down = Pin::new(&mut self.tcp).poll_shutdown(context);
        self.is_shut_down = shut_down.is_ready();
        shut_down
    }
}

impl Drop for Stream {
    /// A connection that is cut short leaves nothing behind: otherwise the kernel would keep unread
    /// data.
    fn drop(&mut self) {
        if !self.is_shut_down {
            self.tcp.set_zero_linger().ok();
        }
    }
}
