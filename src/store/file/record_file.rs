//! One election's record in a local folder, read and replaced atomically.
//!
//! Touches the file system, and blocks, so `file.rs` calls it on blocking threads. Start with
//! [`RecordFile`]. Reads take no lock, since only a rename replaces the record. A write prepares
//! and syncs a draft, takes the lock, compares versions, and renames the draft. The lock is a file
//! of its own: with a lock on the record itself, one writer could hold the old file's lock and
//! another the new file's. Each call opens the folder again and stays in the one it opened.
//!
//! ```text
//!  DIR/<election>/record      the record, JSON
//!  DIR/<election>/lock        flock, held only inside `replace`
//!  DIR/<election>/<uuid>.tmp  the draft of one write, locked by its writer
//! ```

use crate::config::ElectionName;
use crate::process::clock::Clock;
use crate::process::private_folder::remote::refuse_remote;
use crate::process::private_folder::{Exposure, FolderError, PrivateFolder};
use crate::store::file::record_json::{RecordFormatError, StoredRecord};
use baton_election::instant::Instant;
use baton_election::record::messages::{Snapshot, Write};
use rustix::fs::statfs;
use rustix::io::Errno;
use std::fs::{File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use uuid::Uuid;

const RECORD: &str = "record";
const LOCK: &str = "lock";

/// The first and the longest pause between attempts to take the lock.
const LOCK_RETRY_PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(16)];

/// Why a record could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecordFileError {
    /// The folder or a file in it cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The file is not a record.
    #[error(
        "{} is not an election's record, so it was left unchanged: move it away while no \
         candidate of this election runs",
        path.display()
    )]
    Foreign { path: PathBuf, source: RecordFormatError },
    /// Another process holds the lock.
    #[error(
        "{} is still locked by another candidate, which may be paused (fuser shows it)",
        path.display()
    )]
    Locked { path: PathBuf },
    /// The deadline of the call has passed.
    #[error("ran out of time to replace {}", path.display())]
    OutOfTime { path: PathBuf },
    /// The folder was moved or replaced during a write.
    #[error("{} was moved or replaced while its record was written", path.display())]
    Moved { path: PathBuf },
}

/// The outcome of a write.
#[derive(Debug)]
pub(super) enum ReplaceOutcome {
    Applied(Snapshot),
    Conflict,
}

/// The location of one election's record.
#[derive(Debug)]
pub(super) struct RecordFile {
    directory: PathBuf,
    election: ElectionName,
    folder: PathBuf,
    record: PathBuf,
}

/// The file in which one write prepares a record, removed on drop unless it has become the record.
/// Each write has its own, since an earlier one that timed out may still be running.
#[derive(Debug)]
struct Draft<'a> {
    folder: &'a PrivateFolder,
    name: String,
    file: File,
}

impl<'a> Draft<'a> {
    /// Writes and syncs a draft, and locks it to protect it from [`sweep`].
    fn write(folder: &'a PrivateFolder, text: &[u8]) -> Result<Self, FolderError> {
        let name = format!("{}.tmp", Uuid::new_v4());
        let file = folder.create_new(&name)?;
        let mut draft = Self { folder, name, file };
        let locked = draft.file.try_lock().map_err(io::Error::from);
        let written =
            locked.and_then(|()| draft.file.write_all(text)).and_then(|()| draft.file.sync_all());
        written.map_err(FolderError::io("write", &folder.path().join(&draft.name)))?;
        Ok(draft)
    }
}

/// Best effort: the next candidate that starts removes what is left.
impl Drop for Draft<'_> {
    fn drop(&mut self) {
        self.folder.remove(&self.name).ok();
    }
}

impl RecordFile {
    /// The record of `election` in `directory`. Touches nothing.
    pub(super) fn new(directory: &Path, election: &ElectionName) -> Self {
        let folder = directory.join(election.as_str());
        let record = folder.join(RECORD);
        Self { directory: directory.to_owned(), election: election.clone(), folder, record }
    }

    /// Opens the folder of `election` in `directory`, which must exist, be local, and be writable.
    pub(super) fn open(directory: &Path, election: &ElectionName) -> Result<Self, RecordFileError> {
        let record_file = Self::new(directory, election);
        // Check before creating anything.
        let stat = statfs(directory).map_err(|error| match error {
            Errno::NOENT => FolderError::Missing { path: directory.to_owned() },
            error => FolderError::io("inspect", directory)(error.into()),
        })?;
        refuse_remote(stat.f_type, directory)?;
        if let Some(exposure) = Exposure::of(directory)? {
            tracing::warn!(
                "two candidates may lead if the election's folder is renamed, and {exposure}"
            );
        }
        let folder = record_file.create_folder()?;
        drop(Draft::write(&folder, b"")?);
        sweep(&folder);
        Ok(record_file)
    }

    /// Reads the current record.
    pub(super) fn read(&self) -> Result<Option<Snapshot>, RecordFileError> {
        // A missing record or folder counts as deleted, a missing directory as unreachable.
        let folder =
            PrivateFolder::open_existing(&self.directory, self.election.as_str(), refuse_remote)?;
        let Some(folder) = folder else { return Ok(None) };
        Ok(self.stored(&folder)?.map(|(_, snapshot)| snapshot))
    }

    /// Replaces the record if it still has the version in `write`. Fails at `deadline`.
    pub(super) fn replace(
        &self,
        write: &Write,
        deadline: Instant,
    ) -> Result<ReplaceOutcome, RecordFileError> {
        // A call that has waited too long for a blocking thread must not keep the disk busy.
        if Clock.now() >= deadline {
            return Err(RecordFileError::OutOfTime { path: self.record.clone() });
        }
        let folder = self.create_folder()?;
        let current = self.stored(&folder)?;
        if current.as_ref().map(|(_, snapshot)| &snapshot.version) != write.over.as_ref() {
            return Ok(ReplaceOutcome::Conflict);
        }
        let uid = || Uuid::new_v4().to_string();
        let next = StoredRecord::after(current.map(|(stored, _)| stored), write, Clock.wall(), uid)
            .map_err(self.foreign())?;
        let draft = Draft::write(&folder, &next.to_text())?;
        if self.swap(&folder, &draft, write, deadline)? {
            Ok(ReplaceOutcome::Applied(next.snapshot().map_err(self.foreign())?))
        } else {
            Ok(ReplaceOutcome::Conflict)
        }
    }

    /// The path of the record.
    pub(super) fn path(&self) -> &Path {
        &self.record
    }

    /// The path of the folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Renames the draft to the record, under the lock, if the record still has the version in
    /// `write`.
    fn swap(
        &self,
        folder: &PrivateFolder,
        draft: &Draft<'_>,
        write: &Write,
        deadline: Instant,
    ) -> Result<bool, RecordFileError> {
        let lock = hold_lock(folder, deadline)?;
        if self.stored(folder)?.map(|(_, snapshot)| snapshot.version) != write.over {
            return Ok(false);
        }
        // After a pause of the process, the write must not restore a claim that has ended.
        if Clock.now() >= deadline {
            return Err(RecordFileError::OutOfTime { path: self.record.clone() });
        }
        folder.rename(&draft.name, RECORD)?;
        drop(lock);
        // Sync the rename before it is reported. A writer that replaces the record meanwhile syncs
        // the same folder.
        folder.sync()?;
        // Other candidates do not see a folder that was moved away.
        if folder.is_in_place() {
            Ok(true)
        } else {
            Err(RecordFileError::Moved { path: self.folder.clone() })
        }
    }

    fn stored(
        &self,
        folder: &PrivateFolder,
    ) -> Result<Option<(StoredRecord, Snapshot)>, RecordFileError> {
        let text = folder.read(RECORD)?;
        text.map(|text| StoredRecord::parse(&text)).transpose().map_err(self.foreign())
    }

    /// Creates the election's folder, but not the directory, which the user provides.
    fn create_folder(&self) -> Result<PrivateFolder, FolderError> {
        PrivateFolder::open_or_create(&self.directory, self.election.as_str(), refuse_remote)
    }

    fn foreign(&self) -> impl Fn(RecordFormatError) -> RecordFileError {
        |source| RecordFileError::Foreign { path: self.record.clone(), source }
    }
}

/// Takes the lock, which lasts until the returned file is dropped.
fn hold_lock(folder: &PrivateFolder, deadline: Instant) -> Result<File, RecordFileError> {
    let [mut pause, longest] = LOCK_RETRY_PAUSES;
    loop {
        let file = folder.open_lock_file(LOCK)?;
        match file.try_lock() {
            // The lock file may have been replaced between opening and locking.
            Ok(()) if folder.has(LOCK, &file) => return Ok(file),
            Ok(()) | Err(TryLockError::WouldBlock) if Clock.now() + pause >= deadline => {
                return Err(RecordFileError::Locked { path: folder.path().join(LOCK) });
            }
            Ok(()) | Err(TryLockError::WouldBlock) => thread::sleep(pause),
            Err(TryLockError::Error(source)) => {
                return Err(FolderError::io("lock", &folder.path().join(LOCK))(source).into());
            }
        }
        pause = longest.min(pause * 2);
    }
}

/// Removes the drafts of writers that have died.
fn sweep(folder: &PrivateFolder) {
    for name in folder.names().unwrap_or_default().iter().filter(|name| is_draft(name)) {
        if let Ok(Some(draft)) = folder.open_file(name)
            && draft.try_lock().is_ok()
        {
            folder.remove(name).ok();
        }
    }
}

/// Whether a file has the name of a draft. Other files are not ours to remove.
fn is_draft(name: &str) -> bool {
    name.strip_suffix(".tmp").is_some_and(|stem| Uuid::parse_str(stem).is_ok())
}
