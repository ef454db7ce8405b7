//! A TCP stream with a write timeout.
//!
//! Touches one socket. Start with [`TimedStream`]. hyper limits how long reading a request may
//! take, but not how long writing an answer may take.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// How long writing an answer may block. Any answer fits into the kernel's buffers, so a client
/// that reads its answers never blocks a write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// A TCP stream whose writes fail with `TimedOut` if the client does not read.
///
/// The timeout runs from the first write that blocks until everything has been written, so a client
/// cannot extend it by reading slowly.
#[derive(Debug)]
pub(super) struct TimedStream {
    tcp: TcpStream,
    blocked: Option<Pin<Box<Sleep>>>,
    is_shut_down: bool,
}

impl TimedStream {
    pub(super) const fn new(tcp: TcpStream) -> Self {
        Self { tcp, blocked: None, is_shut_down: false }
    }

    /// Fails a write that has been blocked for too long.
    fn limit<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            return written;
        }
        let blocked = self.blocked.get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
        blocked.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(context, buffer)
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write(context, bytes);
        self.limit(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write_vectored(context, slices);
        self.limit(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    /// Ends the timeout: hyper flushes after everything has been written.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.blocked = None;
        Pin::new(&mut self.tcp).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut_down = Pin::new(&mut self.tcp).poll_shutdown(context);
        self.is_shut_down = shut_down.is_ready();
        shut_down
    }
}

impl Drop for TimedStream {
    /// Resets a connection that was not shut down, because the kernel would otherwise keep its
    /// unread data.
    fn drop(&mut self) {
        if !self.is_shut_down {
            self.tcp.set_zero_linger().ok();
        }
    }
}
