//! Proves from the state directory that the previous run has ended.
//!
//! Touches the state directory. Start with [`ReleaseInfo::ended_run`]. Holding the lock that the
//! previous process held proves that this process has ended. A copy of the directory has another
//! lock. After a reboot, nothing is proved.
//!
//! An application that is declared to ask acts only until its last promise expires. A command has
//! ended once all its processes are reaped.

use crate::config::Config;
use crate::process::private_folder::FolderError;
use crate::process::state_folder::{LockId, StateFolder};
use baton_election::ended_run::EndedRun;
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

const SESSION: &str = "session";

/// The part of a saved run that lets the next run release its record or session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ReleaseInfo {
    identity: String,
    /// How long a promise can outlive the process.
    longest_promise: Duration,
    /// The lock that the run held.
    lock: LockId,
    /// Whether it ran commands, whose processes can outlive it.
    runs_command: bool,
}

/// A run whose record or session the next run may release.
#[derive(Debug, Clone)]
pub struct ReleasableRun {
    identity: Identity,
    longest_promise: Duration,
    runs_command: bool,
}

/// A ZooKeeper session that outlives its process.
#[derive(Clone, Serialize, Deserialize)]
pub struct SavedSession {
    /// Its number.
    pub id: u64,
    /// Its timeout.
    pub timeout: Duration,
    /// Its password. Anyone who knows it can close the session.
    pub password: Vec<u8>,
}

/// The content of the session file: a session, and the run that it belongs to.
#[derive(Serialize, Deserialize)]
struct SessionOfRun {
    identity: String,
    session: SavedSession,
}

/// Where the session of the current run is saved.
#[derive(Debug, Clone)]
pub struct SessionFile {
    state: Arc<StateFolder>,
    identity: Identity,
}

impl ReleasableRun {
    /// The run of `config` as `identity`. `None` if its application can act without a promise.
    pub fn new(config: &Config, identity: &Identity) -> Option<Self> {
        config.asks_by_declaration().then(|| Self {
            identity: identity.clone(),
            longest_promise: config.timing.longest_promise(),
            runs_command: config.exec.is_some(),
        })
    }

    /// Prepares `state` for this run, and returns the part to save. `None` if the lock proves
    /// nothing.
    pub(super) fn begin(&self, state: &StateFolder) -> Result<Option<ReleaseInfo>, FolderError> {
        if self.runs_command {
            state.clear_idle()?;
        }
        Ok(state.lock_id().map(|lock| ReleaseInfo {
            identity: self.identity.as_str().to_owned(),
            longest_promise: self.longest_promise,
            lock,
            runs_command: self.runs_command,
        }))
    }
}

impl ReleaseInfo {
    /// The run that saved this, if the lock of `state` proves at `now` that it has ended. The
    /// caller has checked that the machine has not been booted since.
    pub(super) fn ended_run(&self, state: &StateFolder, now: Instant) -> Option<EndedRun> {
        let held_this_lock = state.lock_id() == Some(self.lock);
        let runs_nothing = !self.runs_command || state.lock().is_idle();
        let identity = Identity::parse(&self.identity).ok()?;
        let promised_until = now + self.longest_promise;
        (held_this_lock && runs_nothing).then_some(EndedRun { identity, promised_until })
    }
}

impl SessionFile {
    /// The session file of the run `identity`.
    pub(super) fn of(identity: &Identity, state: Arc<StateFolder>) -> Self {
        Self { state, identity: identity.clone() }
    }

    /// Saves `session`. Blocks.
    pub fn save(&self, session: SavedSession) -> Result<(), FolderError> {
        let saved = SessionOfRun { identity: self.identity.as_str().to_owned(), session };
        let text = serde_json::to_vec(&saved).expect("strings and numbers serialize");
        self.state.replace(SESSION, &text)
    }
}

/// The session that `run` has saved; `None` if there is none that can be used.
pub(super) fn read_session(state: &StateFolder, run: &EndedRun) -> Option<SavedSession> {
    let text = state.folder().read(SESSION).ok().flatten()?;
    let saved: SessionOfRun = serde_json::from_slice(&text).ok()?;
    (saved.identity == run.identity.as_str()).then_some(saved.session)
}

/// Formats the session without its password.
impl std::fmt::Debug for SavedSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SavedSession").field("id", &self.id).finish_non_exhaustive()
    }
}
