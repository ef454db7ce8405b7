//! Writes the answer to a file that expires by itself (`--status-file`).
//!
//! Touches that file, and the election only through [`Reader`](crate::driver::leadership::Reader).
//! Start with [`keep_current`]. The promise is recorded before the file is written, and it
//! stands even if the write fails or hangs. So a late write can only publish a promise that a
//! release has already waited for.
//!
//! One write runs at a time, by rename, so a reader sees whole files only. Nothing is synchronized
//! to the disk, because a file of another boot counts for nothing.

use crate::error_chain::ErrorChain;
use crate::http::AppState;
use crate::http::leader::LeaderBody;
use crate::process::blocking::run_blocking;
use crate::process::clock::Clock;
use baton_election::instant::Instant;
use baton_election::leadership::{Answer, Status};
use serde::Serialize;
use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::{self, OpenOptions, Permissions};
use std::future::pending;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// Everyone may read the file.
const MODE: u32 = 0o644;
/// How far `/proc/uptime` lags behind the clock: it has two decimals. Readers may use it.
const UPTIME_LAG: Duration = Duration::from_millis(10);
/// The most that `/proc/uptime` may differ from the clock.
const MAX_UPTIME_DIFFERENCE: Duration = Duration::from_millis(20);

/// Why the status file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StatusFileError {
    /// The file cannot be written.
    #[error("cannot write --status-file {path}: check its directory and its permissions")]
    Write {
        /// The file.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// The clock of its readers is unknown.
    #[error("cannot read {path}, so --status-file cannot be used: leave it out")]
    Clock {
        /// The file that tells the time.
        path: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// Its readers have another clock than this process.
    #[error(
        "/proc/uptime is not the clock of this process, so readers of --status-file would be \
         misled: leave it out, or run outside of time namespaces and lxcfs"
    )]
    OtherClock,
}

/// The file, and what it says.
#[derive(Debug)]
pub struct StatusFile {
    path: PathBuf,
    boot_id: String,
    answer_validity: Duration,
    state: Arc<AppState>,
    has_failed: bool,
}

/// The content of the file. Fields are only ever added.
#[derive(Serialize)]
struct Content<'a> {
    #[serde(flatten)]
    answer: LeaderBody<'a>,
    /// The boot that the next two count from.
    boot_id: &'a str,
    /// The first and the last moment of the promise, in milliseconds since boot; zero without one.
    from_boottime_ms: u64,
    until_boottime_ms: u64,
}

impl StatusFile {
    /// Writes that this process does not lead, before it takes part. Promises are good for
    /// `answer_validity`.
    pub fn create(
        path: PathBuf,
        answer_validity: Duration,
        state: Arc<AppState>,
    ) -> Result<Self, StatusFileError> {
        check_clock()?;
        let boot_id = read_clock("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        let this = Self { path, boot_id, answer_validity, state, has_failed: false };
        let now = Clock.now();
        let text = this.text(&this.state.reader.peek(now), now);
        replace(&this.path, &text).map_err(|source| this.error(source))?;
        Ok(this)
    }

    /// Writes the file at every change, and often enough that a reader of a leader's file finds three
    /// quarters of the promise. A reader may need half of it, and may read just before each write.
    async fn run(mut self) -> Infallible {
        let reader = self.state.reader.clone();
        let renews_after = self.answer_validity / 4;
        loop {
            let mut change = pin!(reader.next_change());
            // Listens before it looks, so that no change is missed.
            change.as_mut().enable();
            let now = Clock.now();
            let answer = reader.promise_to_file(now);
            let (path, text) = (self.path.clone(), self.text(&answer, now));
            let written =
                run_blocking("the write of the status file", move || replace(&path, &text)).await;
            let is_due_again = matches!(answer.status, Status::Leading(_)) || written.is_err();
            self.report(written);
            tokio::select! {
                () = change => {}
                () = Clock.sleep_until(now + renews_after), if is_due_again => {}
            }
        }
    }

    /// Logs the first failure in a row, and the first success after it.
    fn report(&mut self, written: io::Result<()>) {
        let had_failed = std::mem::replace(&mut self.has_failed, written.is_err());
        match written {
            Err(source) if !had_failed => {
                let error = self.error(source);
                tracing::warn!(event = "status_file_failed", "{}", ErrorChain(&error));
            }
            Ok(()) if had_failed => {
                tracing::info!(event = "status_file_back", "the status file is written again");
            }
            Ok(()) | Err(_) => {}
        }
    }

    fn error(&self, source: io::Error) -> StatusFileError {
        StatusFileError::Write { path: self.path.display().to_string(), source }
    }

    /// The file's text for an answer of `now`.
    fn text(&self, answer: &Answer, now: Instant) -> String {
        let [from, until] = match &answer.status {
            Status::Leading(promise) => [now, now + promise.valid_for].map(uptime_milliseconds),
            Status::Unknown | Status::Following { .. } | Status::Resigning => [0, 0],
        };
        let mut body = LeaderBody::new(&self.state, answer);
        // The promise counts from when the file was written, and not from when it is read.
        body.valid_for_ms = 0;
        let content = Content {
            answer: body,
            boot_id: &self.boot_id,
            from_boottime_ms: from,
            until_boottime_ms: until,
        };
        let mut text = serde_json::to_string(&content).expect("strings and numbers serialize");
        text.push('\n');
        text
    }
}

/// Keeps the status file current, if there is one.
pub async fn keep_current(status_file: Option<StatusFile>) -> Infallible {
    match status_file {
        Some(status_file) => status_file.run().await,
        None => pending().await,
    }
}

/// The milliseconds of `instant` as a reader of `/proc/uptime` may see them, which lags.
fn uptime_milliseconds(instant: Instant) -> u64 {
    let since_boot = instant.elapsed_since_boot().saturating_sub(UPTIME_LAG);
    u64::try_from(since_boot.as_millis()).unwrap_or(u64::MAX)
}

/// Replaces the file at `path` in one step.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut draft = OsString::from(path);
    draft.push(".new");
    // A draft of a killed process, or a link that another user has planted.
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&draft)?;
    // The umask may have taken bits away.
    file.set_permissions(Permissions::from_mode(MODE))?;
    file.write_all(text.as_bytes())?;
    fs::rename(&draft, path)
}

/// Checks that `/proc/uptime`, which readers may rely on, shows this process's clock.
fn check_clock() -> Result<(), StatusFileError> {
    // Without this file, the kernel has no time namespaces.
    let offsets = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    let before = Clock.now().elapsed_since_boot();
    let uptime = read_clock("/proc/uptime")?;
    let after = Clock.now().elapsed_since_boot();
    let uptime = parse_uptime(&uptime).ok_or(StatusFileError::OtherClock)?;
    let is_near =
        uptime + MAX_UPTIME_DIFFERENCE >= before && uptime <= after + MAX_UPTIME_DIFFERENCE;
    (is_near && !has_offset(&offsets)).then_some(()).ok_or(StatusFileError::OtherClock)
}

fn read_clock(path: &'static str) -> Result<String, StatusFileError> {
    fs::read_to_string(path).map_err(|source| StatusFileError::Clock { path, source })
}

/// The first number of `/proc/uptime`: proc(5).
fn parse_uptime(text: &str) -> Option<Duration> {
    let seconds = text.split_ascii_whitespace().next()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Whether a time namespace shifts the clock: `timens_offsets` in `time_namespaces(7)`.
fn has_offset(offsets: &str) -> bool {
    offsets.lines().any(|line| line.split_ascii_whitespace().skip(1).any(|part| part != "0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_shifted_clock_has_an_offset() {
        assert!(!has_offset("monotonic           0         0\nboottime            0         0\n"));
        assert!(has_offset("monotonic           0         0\nboottime        86400         0\n"));
        assert!(!has_offset(""));
    }

    #[test]
    fn uptime_has_two_decimals() {
        assert_eq!(parse_uptime("12.34 5.6\n"), Some(Duration::from_millis(12_340)));
        assert_eq!(parse_uptime("-1 2\n"), None);
        assert_eq!(parse_uptime(""), None);
    }

    #[test]
    fn promise_ends_early_enough_for_a_clock_that_lags() {
        let at = |milliseconds| Instant::since_boot(Duration::from_millis(milliseconds));
        assert_eq!([at(2_000), at(5)].map(uptime_milliseconds), [1_990, 0]);
    }

    #[test]
    fn replacement_is_whole_and_readable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("status");
        std::os::unix::fs::symlink("/nonexistent/planted", folder.path().join("status.new"))
            .unwrap();
        for text in ["one", "two"] {
            replace(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
