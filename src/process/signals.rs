//! Signals that ask the process to end, and what a clean stop says of its release.
//!
//! Touches tokio's signals, the clock, and `/proc/self/status` once. The first signal asks for a
//! clean stop, a second one for an end at once.

use crate::process::clock::Clock;
use crate::process::exit::Exit;
use baton_election::instant::Instant;
use std::time::Duration;
use std::{fs, io};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals within this time have one cause: `timeout` of coreutils signals the process, and then
/// its group.
const ONE_CAUSE: Duration = Duration::from_secs(1);

/// SIGTERM (kubelet, systemd), SIGINT (Ctrl-C) and SIGHUP (a terminal that is gone), caught from
/// now on.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// `None` where the process was started to survive its terminal, as by nohup.
    hang_up: Option<Signal>,
    /// When the last request to end came.
    asked_at: Option<Instant>,
}

impl Signals {
    /// Catches them.
    pub fn catch() -> io::Result<Self> {
        let hang_up = if ignores_hang_up() { None } else { Some(signal(SignalKind::hangup())?) };
        let (terminate, interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt, hang_up, asked_at: None })
    }

    /// The next request to end.
    pub async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
                () = next_of(&mut self.hang_up) => {}
            }
            let now = Clock.now();
            if self.asked_at.is_none_or(|asked| now.since(asked) >= ONE_CAUSE) {
                self.asked_at = Some(now);
                return;
            }
        }
    }
}

async fn next_of(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Whether SIGHUP was ignored when the process began. The mask has the first signal, SIGHUP, as its
/// lowest bit: proc(5).
fn ignores_hang_up() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 == 1)
}

/// The outcome of the release in a clean stop. The exit code is 0 for all of them; the log says
/// which one it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// The store holds nothing of this candidate.
    Confirmed,
    /// The store refuses this candidate.
    Refused,
    /// The store did not answer in time.
    Unconfirmed,
    /// The claim ended before the release.
    Expired,
    /// This candidate never held anything.
    Needless,
}

impl Release {
    /// Logs how the process stopped.
    pub fn tell(self) {
        let (release, code) = (self.as_str(), Exit::Clean.code());
        match self {
            Self::Confirmed => {
                tracing::info!(
                    event = "stopped",
                    release,
                    code,
                    "stopped: the store holds nothing of this candidate"
                );
            }
            Self::Needless => {
                tracing::info!(
                    event = "stopped",
                    release,
                    code,
                    "stopped: there was nothing to release"
                );
            }
            Self::Expired => tracing::warn!(
                event = "stopped",
                release,
                code,
                "stopped without a release: leadership ended by its deadline before"
            ),
            Self::Refused => tracing::warn!(
                event = "stopped",
                release,
                code,
                "stopped, but the store refuses the release: others wait for the lease to expire"
            ),
            Self::Unconfirmed => tracing::warn!(
                event = "stopped",
                release,
                code,
                "stopped, but the store did not confirm the release: others may wait for the lease to expire"
            ),
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Refused => "refused",
            Self::Unconfirmed => "unconfirmed",
            Self::Expired => "expired",
            Self::Needless => "needless",
        }
    }
}
