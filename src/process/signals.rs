//! Catches the signals that stop the process, and logs how a clean stop ended.
//!
//! Touches tokio's signals, the clock, and `/proc/self/status`. Start with [`Signals::catch`]. The
//! first signal requests a clean stop, the second an immediate end.

use crate::process::clock::Clock;
use crate::process::exit::Exit;
use baton_election::instant::Instant;
use std::time::Duration;
use std::{fs, io};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals within this time count as one: coreutils' `timeout` signals the process, and then its
/// group.
const DEDUPLICATION_WINDOW: Duration = Duration::from_secs(1);

/// The stream of SIGTERM (kubelet, systemd), SIGINT (Ctrl-C), and SIGHUP (a closed terminal).
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// `None` if the process was started to survive its terminal, as by nohup.
    hang_up: Option<Signal>,
    /// When the last signal that counted arrived.
    last_at: Option<Instant>,
}

impl Signals {
    /// Starts to catch the signals.
    pub fn catch() -> io::Result<Self> {
        let hang_up = if ignores_hang_up() { None } else { Some(signal(SignalKind::hangup())?) };
        let (terminate, interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt, hang_up, last_at: None })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
                () = next_of(&mut self.hang_up) => {}
            }
            let now = Clock.now();
            if self.last_at.is_none_or(|last| now.since(last) >= DEDUPLICATION_WINDOW) {
                self.last_at = Some(now);
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

/// Whether SIGHUP was ignored when the process started. SIGHUP is the lowest bit of the mask:
/// proc(5).
fn ignores_hang_up() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 == 1)
}

/// The outcome of the release in a clean stop. No outcome changes the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopOutcome {
    /// The store holds nothing of this candidate.
    Confirmed,
    /// The store refuses this candidate.
    Refused,
    /// The store did not answer in time.
    Unconfirmed,
    /// The claim expired before the release.
    Expired,
    /// There was nothing to release.
    NothingToRelease,
}

impl StopOutcome {
    /// Logs the clean stop with this outcome, which leads to `exit`.
    pub fn log(self, exit: Exit) {
        let (release, code) = (self.as_str(), exit.code());
        match self {
            Self::Confirmed => {
                tracing::info!(
                    event = "stopped",
                    release,
                    code,
                    "stopped: the store holds nothing of this candidate"
                );
            }
            Self::NothingToRelease => {
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
                "stopped without a release: leadership had ended by its deadline"
            ),
            Self::Refused => tracing::warn!(
                event = "stopped",
                release,
                code,
                "stopped, but the store refused the release: other candidates wait for the lease \
                 to expire"
            ),
            Self::Unconfirmed => tracing::warn!(
                event = "stopped",
                release,
                code,
                "stopped, but the store did not confirm the release: other candidates may wait for \
                 the lease to expire"
            ),
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Refused => "refused",
            Self::Unconfirmed => "unconfirmed",
            Self::Expired => "expired",
            Self::NothingToRelease => "needless",
        }
    }
}
