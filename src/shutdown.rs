//! Signals that ask the process to end.
//!
//! Touches tokio's signals. The first asks for a clean stop, the second for an end at once.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM (kubelet, systemd) and SIGINT (Ctrl-C), caught from now on.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Catches them.
    pub fn catch() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// The next of them.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
