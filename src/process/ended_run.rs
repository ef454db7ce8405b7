//! Whether the previous run in this place has certainly ended, and what the next run must know.
//!
//! Touches the state directory. Start with [`Trace::proves_end_of`]. Holding the lock that the
//! previous process held proves that this process has ended. A copy of the directory has another
//! lock. After a reboot, the trace does not count.
//!
//! If the application was declared to ask, it acts only until its last promise expires. A command
//! acts no more once all its processes are reaped.

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

/// The part of a saved run that lets the next run release for it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Trace {
    identity: String,
    /// How long a promise can outlive the process.
    longest_promise: Duration,
    /// The lock that the run held.
    lock: LockId,
    /// Whether it ran commands, whose processes can outlive it.
    runs_command: bool,
}

/// The present run, as its trace describes it.
#[derive(Debug, Clone)]
pub struct TracedRun {
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
    /// Its password, which lets whoever knows it close the session.
    pub password: Vec<u8>,
}

/// Where the session of the present run is saved.
#[derive(Debug, Clone)]
pub struct SessionFile(pub(super) Arc<StateFolder>);

impl TracedRun {
    /// The run of `config` as `identity`. `None` if its application can act without a promise: then
    /// the next run must not release what this one holds.
    pub fn new(config: &Config, identity: &Identity) -> Option<Self> {
        config.asks_by_declaration().then(|| Self {
            identity: identity.clone(),
            longest_promise: config.timing.longest_promise(),
            runs_command: config.exec.is_some(),
        })
    }

    /// The trace of this run in `state`. `None` if the lock proves nothing.
    pub(super) fn trace(&self, state: &StateFolder) -> Option<Trace> {
        Some(Trace {
            identity: self.identity.as_str().to_owned(),
            longest_promise: self.longest_promise,
            lock: state.proof()?,
            runs_command: self.runs_command,
        })
    }
}

impl Trace {
    /// The run that left this trace, if the lock of `state` proves at `now` that it has ended. The
    /// caller has checked that the machine has not been booted since.
    pub(super) fn proves_end_of(&self, state: &StateFolder, now: Instant) -> Option<EndedRun> {
        let held_this_lock = state.proof() == Some(self.lock);
        let runs_nothing = !self.runs_command || state.lock().is_idle();
        let identity = Identity::parse(&self.identity).ok()?;
        let acts_until = now + self.longest_promise;
        (held_this_lock && runs_nothing).then_some(EndedRun { identity, acts_until })
    }
}

impl SessionFile {
    /// The session that the previous run saved; `None` if it saved none that can be used.
    pub(super) fn read(&self) -> Option<SavedSession> {
        let text = self.0.folder().read(SESSION).ok().flatten()?;
        serde_json::from_slice(&text).ok()
    }

    /// Saves `session`. Blocks.
    pub fn save(&self, session: &SavedSession) -> Result<(), FolderError> {
        let text = serde_json::to_vec(session).expect("numbers serialize");
        self.0.replace(SESSION, &text)
    }

    /// Forgets the session of the previous run. Blocks.
    pub(super) fn clear(&self) -> Result<(), FolderError> {
        self.0.folder().remove(SESSION)
    }
}

/// Formats the session without its password.
impl std::fmt::Debug for SavedSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SavedSession").field("id", &self.id).finish_non_exhaustive()
    }
}
