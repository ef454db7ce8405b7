//! Notes for the next run: whether a process of the command may live.
//!
//! Touches the lock file of the state directory, on a blocking thread. Start with [`Notes`]. The
//! next run releases the election of a killed one only if the last note says that nothing runs.

use crate::process::blocking::run_blocking;
use crate::process::state_folder::StateLock;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long to wait for the state directory.
const PATIENCE: Duration = Duration::from_millis(500);

/// The notes of one run, in the lock of its state directory, if it has one.
#[derive(Debug)]
pub struct Notes {
    lock: Option<Arc<StateLock>>,
    /// Whether a note has failed. It may still be written, even after a later one.
    has_failed: bool,
}

impl Notes {
    /// Notes in `lock`.
    pub const fn new(lock: Option<Arc<StateLock>>) -> Self {
        Self { lock, has_failed: false }
    }

    /// The lock, which the guard holds too.
    pub fn lock(&self) -> Option<&StateLock> {
        self.lock.as_deref()
    }

    /// Notes that a command may run from now on. After an error, none may start: the last note may
    /// say that nothing runs.
    pub async fn command_may_run(&mut self) -> io::Result<()> {
        let written = self.write(StateLock::note_command).await;
        written.map_err(|error| io::Error::other(format!("the state directory: {error}")))
    }

    /// Notes that nothing runs. Without this note, the next run waits as other candidates do.
    pub async fn nothing_runs(&mut self) {
        self.write(StateLock::note_idle).await.ok();
    }

    async fn write(&mut self, note: fn(&StateLock) -> io::Result<()>) -> io::Result<()> {
        let Some(lock) = self.lock.clone() else { return Ok(()) };
        if self.has_failed {
            return Err(io::Error::other("an earlier write failed"));
        }
        let writing = run_blocking("a note in the state directory", move || note(&lock));
        let written = timeout(PATIENCE, writing).await;
        let written = written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        self.has_failed = written.is_err();
        written
    }
}
