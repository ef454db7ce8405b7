//! Remembers how the last run ended, and delays or ends this run accordingly.
//!
//! Touches one small file in the state directory, an emptyDir, which outlives the process but not
//! its Pod. Start with [`RunHistory::open`]. The file says that the run is in progress until its
//! end is written, so a killed process counts too.
//!
//! * The nth bad end within ten minutes delays campaigning by 2ⁿ retry periods, at most one lease
//!   duration. kubelet itself has no back-off for `RestartAllContainers`: 151 restarts in 213 s
//!   were measured.
//! * If the previous run led and exited with 0, only its container was restarted, and its
//!   application is still running. With `--on-lost=exit`, this run then exits with 75 once to
//!   restart it, even if it cannot start itself.
//! * If the previous run saved what a release needs (`ended_run.rs`), this run can release its
//!   record.

use crate::config::{ElectionName, OnLost};
use crate::error_chain::ErrorChain;
use crate::process::clock::Clock;
use crate::process::ended_run::{
    ReleasableRun, ReleaseInfo, SavedSession, SessionFile, read_session,
};
use crate::process::exit::Exit;
use crate::process::private_folder::FolderError;
use crate::process::state_folder::{StateFolder, StateLock};
use baton_election::ended_run::EndedRun;
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::machine::Reason;
use baton_election::timing::Timing;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const LAST_RUN: &str = "last-run";

/// How long a bad end counts.
const BAD_END_WINDOW: Duration = Duration::from_mins(10);
/// The most bad ends to keep: enough for the longest delay.
const MAX_BAD_ENDS: usize = 16;

/// The last second of the year 9999, which RFC 3339 can represent, since 1970.
const MAX_UNIX_TIME: Duration = Duration::from_secs(253_402_300_799);

/// The log message of a run that exits with 75 before it starts.
pub const APPLICATION_LEFT_RUNNING: &str = "the previous run led and stopped cleanly, but its \
                                            application is still running: exiting once to restart \
                                            it";

/// The history of this sidecar's runs.
#[derive(Debug)]
pub struct RunHistory {
    state: Option<Arc<StateFolder>>,
    boot_id: String,
    bad_ends: Vec<Duration>,
    /// Saved for the next run: of this run, or of the previous one before [`Self::begin`].
    release_info: Option<ReleaseInfo>,
    /// The previous run, if this run may release its record, and its session.
    ended_run: Option<EndedRun>,
    session: Option<SavedSession>,
}

/// How this run ends.
#[derive(Debug, Clone, Copy)]
pub struct RunEnd {
    /// The exit.
    pub exit: Exit,
    /// The reason.
    pub reason: Reason,
    /// Whether the run led when it ended, or when its clean stop began.
    pub led: bool,
    /// Whether it delays the campaign of the next run.
    pub is_bad: bool,
    /// Whether the store certainly holds nothing of the run.
    pub has_released: bool,
}

/// How the previous run ended.
#[derive(Debug, Clone)]
pub struct LastEnd {
    /// The reason.
    pub reason: Reason,
    /// The exit code; `None` if the process was killed.
    pub code: Option<u8>,
    /// The wall-clock time of the end, or of the start if the process was killed.
    pub at: SystemTime,
    /// Whether the run led when it ended, or when its clean stop began.
    led: bool,
    same_boot: bool,
}

/// The state directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot use {}: pass a --state-directory that this sidecar alone uses and may write to",
    path.display()
)]
pub struct RunHistoryError {
    path: PathBuf,
    source: FolderError,
}

/// Why the end of the previous run is unknown. This run then starts as if it were the first.
#[derive(Debug, thiserror::Error)]
pub enum LastEndError {
    /// The file cannot be read.
    #[error("the end of the previous run is unknown")]
    Unreadable(#[source] FolderError),
    /// The file is damaged.
    #[error("{} is damaged, so the end of the previous run is unknown", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The parser's error.
        source: serde_json::Error,
    },
}

/// The content of the file. Instants count from the boot `boot_id`.
#[derive(Debug, Serialize, Deserialize)]
struct SavedRun {
    boot_id: String,
    /// The bad ends since that boot.
    bad_ends: Vec<Duration>,
    wall: SystemTime,
    /// The end of the run; absent while it runs.
    end: Option<SavedEnd>,
    /// Lets the next run release the record of this one.
    #[serde(default)]
    release_info: Option<ReleaseInfo>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct SavedEnd {
    reason: String,
    code: u8,
    led: bool,
}

impl RunHistory {
    /// Opens the history in `directory`, if one is given, and reads the end of the previous run.
    /// Writes nothing: the previous end stays until [`Self::begin`] or an end replaces it.
    pub fn open(
        directory: Option<&Path>,
        election: &ElectionName,
    ) -> Result<(Self, Result<Option<LastEnd>, LastEndError>), RunHistoryError> {
        let open = |directory: &Path| {
            let opened = StateFolder::open(directory, election).map(Arc::new);
            let path = directory.join(election.as_str());
            opened.map_err(|source| RunHistoryError { path, source })
        };
        let state = directory.map(open).transpose()?;
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .unwrap_or_default()
            .trim()
            .to_owned();
        let saved = state.as_ref().map_or(Ok(None), |state| read(state));
        let (release_info, ended_run, session) = (None, None, None);
        let bad_ends = Vec::new();
        let mut this = Self { state, boot_id, bad_ends, release_info, ended_run, session };
        let last = saved.map(|saved| saved.map(|run| this.continue_from(run)));
        Ok((this, last))
    }

    /// Saves that this run has started. `run` describes it, if the next run may release its record.
    pub fn begin(&mut self, run: Option<&ReleasableRun>) -> Result<(), RunHistoryError> {
        if let Some(state) = &self.state {
            let begun = run.map(|run| run.begin(state)).transpose();
            self.release_info =
                begun.map_err(|source| RunHistoryError { path: self.path(), source })?.flatten();
        }
        self.write(None)
    }

    /// The previous run, if it has ended and this run may release its record.
    pub fn ended_run(&self) -> Option<EndedRun> {
        self.ended_run.clone()
    }

    /// The ZooKeeper session of [`Self::ended_run`].
    pub fn ended_session(&self) -> Option<SavedSession> {
        self.session.clone()
    }

    /// Where the run `identity` saves its ZooKeeper session. `None` without a state directory.
    pub fn session_file(&self, identity: &Identity) -> Option<SessionFile> {
        self.state.clone().map(|state| SessionFile::of(identity, state))
    }

    /// The lock, for the commands of this run.
    pub fn share_lock(&self) -> io::Result<Option<StateLock>> {
        self.state.as_ref().map(|state| state.lock().share()).transpose()
    }

    /// How long to wait before campaigning.
    pub fn campaign_delay(&self, timing: &Timing) -> Duration {
        let bad = u32::try_from(self.bad_ends.len()).unwrap_or(u32::MAX);
        let factor = if bad == 0 { 0 } else { 2_u32.checked_pow(bad).unwrap_or(u32::MAX) };
        timing.retry_period().saturating_mul(factor).min(timing.lease_duration())
    }

    /// Saves the end of a run that cannot start, and returns its exit code: 75 if the application
    /// of the previous run must restart, else 2.
    pub fn refuse(directory: Option<&Path>, election: &ElectionName, on_lost: OnLost) -> Exit {
        // Without a usable history, no earlier application is known.
        let Ok((mut this, last)) = Self::open(directory, election) else { return Exit::Usage };
        let must_restart =
            last.ok().flatten().is_some_and(|last| last.left_application_running(on_lost));
        let (exit, saved) = if must_restart {
            tracing::warn!(event = "previous_end", "{APPLICATION_LEFT_RUNNING}");
            (Exit::Lost, this.end_for_restart())
        } else {
            let (exit, reason) = (Exit::Usage, Reason::Fault);
            (exit, this.end(RunEnd { exit, reason, led: false, is_bad: true, has_released: false }))
        };
        if let Err(error) = saved {
            tracing::warn!("{}", ErrorChain(&error));
        }
        exit
    }

    /// Saves how this run ends.
    pub fn end(&mut self, end: RunEnd) -> Result<(), RunHistoryError> {
        let RunEnd { exit, reason, led, is_bad, has_released } = end;
        if is_bad {
            self.add_bad_end(Clock.now());
        }
        if has_released {
            self.release_info = None;
        }
        self.write(Some(SavedEnd { reason: reason.as_str().to_owned(), code: exit.code(), led }))
    }

    /// Saves that this run ends at once to restart the application. This is no bad end, and must
    /// happen only once: if the file cannot be written, as on a full disk, removes it instead.
    pub fn end_for_restart(self) -> Result<(), RunHistoryError> {
        let end = SavedEnd {
            reason: Reason::Shutdown.as_str().to_owned(),
            code: Exit::Lost.code(),
            led: false,
        };
        let Err(error) = self.write(Some(end)) else { return Ok(()) };
        let Some(state) = &self.state else { return Err(error) };
        state.folder().remove(LAST_RUN).map_err(|source| RunHistoryError { source, ..error })
    }

    /// Continues the history of the previous run.
    fn continue_from(&mut self, run: SavedRun) -> LastEnd {
        let same_boot = run.boot_id == self.boot_id;
        if same_boot {
            self.bad_ends = run.bad_ends;
        }
        let info = run.release_info.filter(|_| same_boot && !self.boot_id.is_empty());
        if let (Some(info), Some(state)) = (&info, &self.state) {
            self.ended_run = info.ended_run(state, Clock.now());
            self.session = self.ended_run.as_ref().and_then(|run| read_session(state, run));
        }
        // Until this run begins, the saved part stays as it is.
        self.release_info = info;
        let last = match run.end {
            Some(end) => LastEnd {
                reason: Reason::parse(&end.reason).unwrap_or(Reason::Fault),
                code: Some(end.code),
                at: run.wall,
                led: end.led,
                same_boot,
            },
            None => {
                LastEnd { reason: Reason::Fault, code: None, at: run.wall, led: false, same_boot }
            }
        };
        // A killed process saved no end. It ended before now, at an unknown time.
        if last.code.is_none() && same_boot {
            self.add_bad_end(Clock.now());
        }
        self.drop_old_bad_ends(Clock.now());
        last
    }

    fn add_bad_end(&mut self, now: Instant) {
        self.bad_ends.push(now.elapsed_since_boot());
        self.drop_old_bad_ends(now);
    }

    fn drop_old_bad_ends(&mut self, now: Instant) {
        let now = now.elapsed_since_boot();
        self.bad_ends.retain(|end| *end <= now && now.saturating_sub(*end) < BAD_END_WINDOW);
        let surplus = self.bad_ends.len().saturating_sub(MAX_BAD_ENDS);
        self.bad_ends.drain(..surplus);
    }

    fn write(&self, end: Option<SavedEnd>) -> Result<(), RunHistoryError> {
        let Some(state) = &self.state else {
            return Ok(());
        };
        let run = SavedRun {
            boot_id: self.boot_id.clone(),
            bad_ends: self.bad_ends.clone(),
            wall: Clock.wall(),
            end,
            release_info: self.release_info.clone(),
        };
        let text = serde_json::to_vec(&run).expect("strings and numbers serialize");
        let replaced = state.replace(LAST_RUN, &text);
        replaced.map_err(|source| RunHistoryError { path: self.path(), source })
    }

    /// The file, for errors.
    fn path(&self) -> PathBuf {
        let folder = self.state.as_ref().map(|state| state.folder().path());
        folder.unwrap_or_else(|| Path::new("")).join(LAST_RUN)
    }
}

impl RunHistoryError {
    /// Whether another process holds the lock.
    pub fn is_locked(&self) -> bool {
        matches!(self.source, FolderError::Locked { .. })
    }
}

impl LastEnd {
    /// Whether the application of the previous run is still running and must restart.
    pub fn left_application_running(&self, on_lost: OnLost) -> bool {
        match on_lost {
            OnLost::Exit => self.same_boot && self.led && self.code == Some(Exit::Clean.code()),
            // The application polls, and needs no restart.
            OnLost::Stay => false,
        }
    }
}

fn read(state: &StateFolder) -> Result<Option<SavedRun>, LastEndError> {
    let folder = state.folder();
    let Some(text) = folder.read(LAST_RUN).map_err(LastEndError::Unreadable)? else {
        return Ok(None);
    };
    let damaged = |source| LastEndError::Damaged { path: folder.path().join(LAST_RUN), source };
    let run: SavedRun = serde_json::from_slice(&text).map_err(damaged)?;
    if run.wall > UNIX_EPOCH + MAX_UNIX_TIME {
        return Err(damaged(serde::de::Error::custom("its time is after the year 9999")));
    }
    Ok(Some(run))
}
