//! One election's record in a folder of local files, read and replaced atomically.
//!
//! Touches the file system, and blocks: `file.rs` calls it off the runtime. A read needs no lock, since the record
//! is only ever replaced by a rename. A write is prepared and synced beside the record before the lock is
//! taken; inside the lock there is only compare and rename. The lock file itself is never
//! renamed: with lock and rename on one file two writers can each hold a lock of their own on what was and what is.
//! Each call opens the folder anew, and stays in the one that it opened.
//!
//! ```text
//!  DIR/<election>/record      the record, JSON
//!  DIR/<election>/lock        flock, held only inside `replace`
//!  DIR/<election>/<uuid>.tmp  what one write would make of it, locked by its writer while that lives
//! ```

use crate::config::ElectionName;
use crate::process::clock::Clock;
use crate::process::private_folder::{Exposure, FolderError, PrivateFolder};
use crate::store::file::record_json::{ForeignError, Stored};
use baton_election::instant::Instant;
use baton_election::record::messages::{Snapshot, Write};
use rustix::fs::{FsWord, statfs};
use std::fs::{File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use uuid::Uuid;

const RECORD: &str = "record";
const LOCK: &str = "lock";

/// How long to wait between two tries of the lock, at first and at the most.
const LOCK_WAITS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(16)];
/// File systems on which a lock or a rename may reach other machines late or not at all, by
/// `statfs(2)`: the network and cluster file systems that coreutils' `stat.c` lists. Nothing tells
/// whether FUSE is local.
const REMOTE: [(FsWord, &str); 21] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x00c3_6400, "Ceph"),
    (0x0102_1997, "9P"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x0bd0_0bd0, "Lustre"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0xaad7_aaea, "PanFS"),
    (0xbeef_dead, "StorNext"),
    (0xa501_fcf5, "VxFS"),
    (0x6573_5546, "FUSE, which may be remote"),
    (0x786f_4256, "a shared folder of VirtualBox"),
    (0xbacb_acbc, "a shared folder of VMware"),
    (0x7c7c_6673, "a shared folder of Parallels"),
];

/// Why a record could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    /// The folder, or a file in it, cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A file that is not ours to overwrite.
    #[error(
        "{} is not a record of an election: it was left as it is; move it away when no candidate of this election runs",
        path.display()
    )]
    Foreign { path: PathBuf, source: ForeignError },
    /// Somebody holds the lock.
    #[error("{} is still locked by another candidate, which may be stopped (fuser shows it)", path.display())]
    Locked { path: PathBuf },
    /// The machine took too long.
    #[error("there was no time left to replace {}", path.display())]
    OutOfTime { path: PathBuf },
    /// The folder was moved or replaced while its record was written.
    #[error("{} was moved or replaced while its record was written", path.display())]
    Moved { path: PathBuf },
}

/// What became of a write.
#[derive(Debug)]
pub(super) enum Replaced {
    Applied(Snapshot),
    Conflict,
}

/// Where one election's record is.
#[derive(Debug)]
pub(super) struct RecordFile {
    directory: PathBuf,
    election: ElectionName,
    folder: PathBuf,
    record: PathBuf,
}

/// What one write would make of the record. Each write has a file of its own: one that took too long may still be at
/// work when the next one begins. It is removed when it is dropped, unless it has become the record.
#[derive(Debug)]
struct Draft<'a> {
    folder: &'a PrivateFolder,
    name: String,
    file: File,
}

impl<'a> Draft<'a> {
    /// Writes and syncs a draft, and holds a lock on it so that nobody sweeps it away.
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

/// Best effort: what stays behind is swept by the next candidate that starts.
impl Drop for Draft<'_> {
    fn drop(&mut self) {
        self.folder.remove(&self.name).ok();
    }
}

impl RecordFile {
    /// The folder of `election` in `directory`, which must be there, local and writable.
    pub(super) fn open(directory: &Path, election: &ElectionName) -> Result<Self, FileError> {
        let folder = directory.join(election.as_str());
        let record = folder.join(RECORD);
        let this =
            Self { directory: directory.to_owned(), election: election.clone(), folder, record };
        // Check before making anything there.
        let around = statfs(directory)
            .map_err(|error| FolderError::io("look at", directory)(error.into()))?;
        refuse_remote(around.f_type, directory)?;
        if let Some(exposure) = Exposure::of(directory)? {
            tracing::warn!(
                "there may be two leaders if the candidates' folder is renamed, and {exposure}"
            );
        }
        let folder = this.make_folder()?;
        drop(Draft::write(&folder, b"")?);
        sweep(&folder);
        Ok(this)
    }

    /// The record as it is now.
    pub(super) fn read(&self) -> Result<Option<Snapshot>, FileError> {
        // A missing record or folder is a change to report; a missing directory is an unreachable
        // store.
        let folder = PrivateFolder::find(&self.directory, self.election.as_str(), refuse_remote)?;
        let Some(folder) = folder else { return Ok(None) };
        Ok(self.stored(&folder)?.map(|(_, snapshot)| snapshot))
    }

    /// Replaces the record if it still has the version that `write` names; gives up at `until`.
    pub(super) fn replace(&self, write: &Write, until: Instant) -> Result<Replaced, FileError> {
        // A call that waited for a disk behind others, and was given up long ago, must not keep it busy.
        if Clock.now() >= until {
            return Err(FileError::OutOfTime { path: self.record.clone() });
        }
        let folder = self.make_folder()?;
        let current = self.stored(&folder)?;
        if current.as_ref().map(|(_, snapshot)| &snapshot.version) != write.over.as_ref() {
            return Ok(Replaced::Conflict);
        }
        let uid = || Uuid::new_v4().to_string();
        let next = Stored::after(current.map(|(stored, _)| stored), write, Clock.wall(), uid)
            .map_err(self.foreign())?;
        let draft = Draft::write(&folder, &next.to_text())?;
        if self.swap(&folder, &draft, write, until)? {
            Ok(Replaced::Applied(next.snapshot().map_err(self.foreign())?))
        } else {
            Ok(Replaced::Conflict)
        }
    }

    /// The record, to be named.
    pub(super) fn path(&self) -> &Path {
        &self.record
    }

    /// The folder, to be watched.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Renames the draft to the record inside the lock, if the record still has the version that `write` names.
    fn swap(
        &self,
        folder: &PrivateFolder,
        draft: &Draft<'_>,
        write: &Write,
        until: Instant,
    ) -> Result<bool, FileError> {
        let lock = hold_lock(folder, until)?;
        if self.stored(folder)?.map(|(_, snapshot)| snapshot.version) != write.over {
            return Ok(false);
        }
        // A process that was stopped on the way here must not bring back a claim that nobody counts on any more.
        if Clock.now() >= until {
            return Err(FileError::OutOfTime { path: self.record.clone() });
        }
        folder.rename(&draft.name, RECORD)?;
        drop(lock);
        // The rename is durable before anybody counts on it; whoever replaces the record meanwhile syncs the same folder.
        folder.sync()?;
        // Other candidates never look into a folder that was moved away.
        if folder.is_in_place() {
            Ok(true)
        } else {
            Err(FileError::Moved { path: self.folder.clone() })
        }
    }

    fn stored(&self, folder: &PrivateFolder) -> Result<Option<(Stored, Snapshot)>, FileError> {
        let text = folder.read(RECORD)?;
        text.map(|text| Stored::parse(&text)).transpose().map_err(self.foreign())
    }

    /// Makes the election's folder, but never the directory around it: that one is the user's.
    fn make_folder(&self) -> Result<PrivateFolder, FolderError> {
        PrivateFolder::make(&self.directory, self.election.as_str(), refuse_remote)
    }

    fn foreign(&self) -> impl Fn(ForeignError) -> FileError {
        |source| FileError::Foreign { path: self.record.clone(), source }
    }
}

/// Holds the lock until the returned file is dropped.
fn hold_lock(folder: &PrivateFolder, until: Instant) -> Result<File, FileError> {
    let [mut wait, longest] = LOCK_WAITS;
    loop {
        let file = folder.lock_file(LOCK)?;
        match file.try_lock() {
            // The file may have been removed and replaced between opening and locking.
            Ok(()) if folder.has(LOCK, &file) => return Ok(file),
            Ok(()) | Err(TryLockError::WouldBlock) if Clock.now() + wait >= until => {
                return Err(FileError::Locked { path: folder.path().join(LOCK) });
            }
            Ok(()) | Err(TryLockError::WouldBlock) => thread::sleep(wait),
            Err(TryLockError::Error(source)) => {
                return Err(FolderError::io("lock", &folder.path().join(LOCK))(source).into());
            }
        }
        wait = longest.min(wait * 2);
    }
}

/// Removes drafts whose writers died.
fn sweep(folder: &PrivateFolder) {
    for name in folder.names().unwrap_or_default().iter().filter(|name| is_draft(name)) {
        if let Ok(Some(draft)) = folder.existing(name)
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

fn refuse_remote(file_system: FsWord, path: &Path) -> Result<(), FolderError> {
    match REMOTE.iter().find(|(magic, _)| *magic == file_system) {
        Some((_, kind)) => Err(FolderError::Remote { path: path.to_owned(), kind }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are those of linux/magic.h, and of coreutils' stat.c where the kernel has none.
    #[test]
    fn cluster_file_systems_are_refused_and_local_ones_are_not() {
        let refused =
            |magic| refuse_remote(magic, Path::new("/srv")).map_err(|error| error.to_string());
        let remote = [
            (0x6969, "NFS"),
            (0x6573_5546, "FUSE"),
            (0x7461_636f, "OCFS2"),
            (0x4750_4653, "GPFS"),
            (0x1983_0326, "BeeGFS"),
        ];
        for (magic, name) in remote {
            assert!(
                refused(magic).is_err_and(|error| error.contains(&format!("/srv is on {name}"))),
                "{name}"
            );
        }
        let local = [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630];
        assert!(
            local.into_iter().all(|magic| refused(magic).is_ok()),
            "ext4, XFS, btrfs, tmpfs, overlayfs"
        );
    }
}
