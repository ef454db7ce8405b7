//! One election's folder in the state directory, locked for the life of the process.
//!
//! Touches the file system, and blocks. Start with [`StateFolder::open`]. The lock proves to the
//! next run that this one has ended: it ends with the last process that holds the open file
//! (`flock(2)`). Under `baton exec` the guard of a command holds it too.
//!
//! ```text
//!  DIR/<election>/lock      flock; says "idle" if the command of a killed `baton exec` has ended
//!  DIR/<election>/last-run  how the last run ended (last_run.rs)
//!  DIR/<election>/session   the ZooKeeper session of the current run (ended_run.rs)
//! ```

use crate::config::ElectionName;
use crate::process::private_folder::remote::refuse_remote;
use crate::process::private_folder::{Exposure, FolderError, PrivateFolder};
use rustix::fs::{fstat, ftruncate};
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::Path;

const LOCK: &str = "lock";
/// The content of the lock file when no process of a command is left.
const IDLE: &[u8] = b"idle\n";

/// A locked folder.
#[derive(Debug)]
pub(super) struct StateFolder {
    folder: PrivateFolder,
    lock: StateLock,
    /// Whether the folder is on a file system that other machines may share.
    is_remote: bool,
}

/// The lock of a [`StateFolder`].
///
/// The file says "idle" if no process of a command is left. A run of `baton exec` erases that when
/// it begins. Only a guard that has lost its elector writes it, when its command has ended.
#[derive(Debug)]
pub struct StateLock(File);

/// The identity of a lock file: its device and inode. A copy of the folder has another lock file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LockId {
    device: u64,
    inode: u64,
}

impl StateFolder {
    /// Creates and locks the folder: two sidecars would overwrite each other's files.
    pub(super) fn open(directory: &Path, election: &ElectionName) -> Result<Self, FolderError> {
        let created = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        created.map_err(FolderError::io("create the directory", directory))?;
        let folder = PrivateFolder::open_or_create(directory, election.as_str(), |_, _| Ok(()))?;
        let is_remote = folder.check(refuse_remote).is_err();
        let lock = folder.open_state_lock(LOCK)?;
        let path = folder.path().join(LOCK);
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => FolderError::Locked { path },
            TryLockError::Error(source) => FolderError::io("lock", &path)(source),
        })?;
        match Exposure::of(directory)? {
            Some(exposure @ (Exposure::Owner { .. } | Exposure::Unmapped { .. })) => {
                tracing::warn!(
                    "another user can replace the saved end of the last run: {exposure}"
                );
            }
            // An emptyDir of Kubernetes is writable by all.
            Some(Exposure::Writable { .. }) | None => {}
        }
        Ok(Self { folder, lock: StateLock(lock), is_remote })
    }

    pub(super) const fn folder(&self) -> &PrivateFolder {
        &self.folder
    }

    pub(super) const fn lock(&self) -> &StateLock {
        &self.lock
    }

    /// The lock file's identity. `None` on a file system that other machines may share.
    pub(super) fn lock_id(&self) -> Option<LockId> {
        let stat = fstat(&self.lock.0).ok().filter(|_| !self.is_remote)?;
        Some(LockId { device: stat.st_dev, inode: stat.st_ino })
    }

    /// Erases "idle": a command can run from now on.
    pub(super) fn clear_idle(&self) -> Result<(), FolderError> {
        let erased = ftruncate(&self.lock.0, 0).map_err(io::Error::from);
        erased.map_err(FolderError::io("write", &self.folder.path().join(LOCK)))
    }

    /// Replaces a file by a rename, so that a kill leaves either the old or the new content.
    pub(super) fn replace(&self, name: &str, text: &[u8]) -> Result<(), FolderError> {
        let draft = format!("{name}.tmp");
        // A killed process may have left a draft. No other live process writes here.
        self.folder.remove(&draft)?;
        let written = self.folder.create_new(&draft)?.write_all(text);
        if let Err(error) = written {
            // Free the space on a full disk.
            self.folder.remove(&draft).ok();
            return Err(FolderError::io("write", &self.folder.path().join(&draft))(error));
        }
        self.folder.rename(&draft, name)
    }
}

impl StateLock {
    /// Takes a lock that another process of this program passed on.
    pub(crate) fn from_descriptor(descriptor: OwnedFd) -> Self {
        Self(descriptor.into())
    }

    /// The same lock, for another owner.
    pub(super) fn share(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Whether no process of a command is left.
    pub(super) fn is_idle(&self) -> bool {
        let mut text = [0; IDLE.len()];
        self.0.read_exact_at(&mut text, 0).is_ok() && text == IDLE
    }

    /// Writes "idle": no process of the command is left.
    pub(crate) fn set_idle(&self) -> io::Result<()> {
        self.0.write_all_at(IDLE, 0)
    }
}

impl AsFd for StateLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
