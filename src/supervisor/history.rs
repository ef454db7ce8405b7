//! Opens the history of this sidecar's runs, begins this run in it, and saves its end.
//!
//! Touches the state directory, through [`RunHistory`]. Start with [`open`].

use super::outcome::RunOutcome;
use super::startup_log::log_previous_end;
use crate::config::Config;
use crate::error_chain::ErrorChain;
use crate::process::clock::Clock;
use crate::process::ended_run::ReleasableRun;
use crate::process::last_run::{LastEnd, LastEndError, RunEnd, RunHistory, RunHistoryError};
use crate::process::signals::Signals;
use crate::telemetry::metrics::Metrics;
use std::error::Error;
use std::mem::{forget, replace};
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// How often to try the lock of the state directory.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long to wait for a lock. A killed process releases its lock only when it has ended.
const KILLED_PROCESS_TIMEOUT: Duration = Duration::from_secs(1);
/// How long an ending process waits for its state directory.
const SAVE_TIMEOUT: Duration = Duration::from_millis(200);

/// An open history, and the end of the previous run.
#[derive(Debug)]
pub(super) struct OpenHistory {
    pub(super) history: RunHistory,
    pub(super) last: Result<Option<LastEnd>, LastEndError>,
}

/// Opens the history. `None` if a signal arrives first.
///
/// The guard of a killed `baton exec` holds the lock until its command has ended, which is no later
/// than the deadline of the claim. So `baton exec` waits up to one lease duration for the lock.
/// Others wait only for a process that was killed a moment ago.
pub(super) async fn open(
    config: &Config,
    signals: &mut Signals,
) -> Result<Option<OpenHistory>, RunHistoryError> {
    let lock_timeout = match config.exec {
        Some(_) => config.timing.lease_duration(),
        None => KILLED_PROCESS_TIMEOUT,
    };
    let until = Clock.now() + lock_timeout;
    let mut has_logged = false;
    loop {
        match RunHistory::open(config.state_directory.as_deref(), &config.election) {
            Err(error) if error.is_locked() && Clock.now() < until => {
                if !replace(&mut has_logged, true) {
                    tracing::info!(
                        "the state directory is locked: waiting for the previous run to end"
                    );
                }
            }
            opened => return opened.map(|(history, last)| Some(OpenHistory { history, last })),
        }
        tokio::select! {
            () = tokio::time::sleep(LOCK_POLL_INTERVAL) => {}
            () = signals.next() => return Ok(None),
        }
    }
}

/// Reports how the last run ended, and begins this one. Returns how long not to campaign, or `None`
/// if this run must end at once, so that the application restarts.
pub(super) fn begin(
    config: &Config,
    opened: OpenHistory,
    run: Option<&ReleasableRun>,
    metrics: &Metrics,
) -> Result<Option<(RunHistory, Duration)>, Box<dyn Error>> {
    let OpenHistory { mut history, last } = opened;
    let last = last.unwrap_or_else(|error| {
        tracing::warn!(event = "previous_end", "{}", ErrorChain(&error));
        None
    });
    let delay = history.campaign_delay(&config.timing);
    if let Some(last) = &last {
        metrics.set_last_end(last);
        log_previous_end(config, last, delay);
        if last.left_application_running(config.outlived_by_application()) {
            history.end_for_restart()?;
            return Ok(None);
        }
    }
    history.begin(run)?;
    Ok(Some((history, delay)))
}

/// Saves how this run ended, within [`SAVE_TIMEOUT`].
pub(super) async fn save(mut history: RunHistory, outcome: RunOutcome) {
    let end = RunEnd {
        exit: outcome.exit,
        reason: outcome.reason,
        led: outcome.led,
        is_bad: outcome.is_bad(),
        has_released: outcome.has_released(),
    };
    let saved = spawn_blocking(move || {
        let saved = history.end(end);
        // The process holds the lock to its very end, because its listeners may still answer.
        forget(history);
        saved
    });
    match timeout(SAVE_TIMEOUT, saved).await {
        Ok(Ok(Ok(()))) => {}
        Ok(Ok(Err(error))) => tracing::warn!("{}", ErrorChain(&error)),
        Ok(Err(_)) | Err(_) => {
            tracing::warn!("the state directory did not respond: the end of this run is not saved");
        }
    }
}
