//! One election's record in a folder of local files, read and replaced atomically.
//!
//! Touches the file system, and blocks: `file.rs` calls it off the runtime. A read needs no lock, since the record
//! is only ever replaced by a rename. A write is prepared and synced beside the record before the lock is
//! taken; inside the lock there is only compare and rename. The lock file itself is never
//! renamed: with lock and rename on one file two writers can each hold a lock of their own on what was and what is.
//!
//! ```text
//!  DIR/<election>/record      the record, JSON
//!  DIR/<election>/lock        flock, held only inside `replace`
//!  DIR/<election>/<uuid>.tmp  what one write would make of it, locked by its writer while that lives
//! ```

use crate::clock::{Clock, Instant};
use crate::config::ElectionName;
use crate::election::record::{Intent, Record, Snapshot, Stamp, Version, Write};
use crate::identity::Identity;
use rustix::fs::{FsWord, fstat, stat, statfs};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use uuid::Uuid;

/// What tells our records from other files.
const FORMAT: &str = "baton.record/1";
/// How long to wait between two tries of the lock, at first and at the most.
const LOCK_WAITS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(16)];
/// File systems on which a lock or a rename may reach other machines late or not at all, by `statfs(2)`.
const REMOTE: [(FsWord, &str); 9] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x00c3_6400, "Ceph"),
    (0x0102_1997, "9P"),
    (0x5346_414f, "AFS"),
    (0x0bd0_0bd0, "Lustre"),
    (0x0116_1970, "GFS2"),
];

/// Why a record could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    /// The file system said no.
    #[error("cannot {doing} {}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
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
    /// Not a local file system.
    #[error("{} is on {kind}: the file backend needs a local file system, on which all candidates see one lock", path.display())]
    Remote { path: PathBuf, kind: &'static str },
}

/// Why a file is not a record.
#[derive(Debug, thiserror::Error)]
pub(super) enum ForeignError {
    #[error("it is not the JSON of a record")]
    Json(#[from] serde_json::Error),
    #[error("its format is {0:?}")]
    Format(String),
    #[error("its version is the largest that there is, so that no token after it could be larger")]
    LastVersion,
    #[error("its holder cannot be an identity")]
    Holder(#[from] crate::identity::IdentityError),
}

/// What became of a write.
#[derive(Debug)]
pub(super) enum Replaced {
    Applied(Snapshot),
    Conflict,
}

/// A record as its file spells it: a Lease's words.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    format: String,
    holder_identity: String,
    lease_duration_ms: u64,
    acquire_time: String,
    renew_time: String,
    lease_transitions: u32,
    uid: String,
    #[serde(with = "decimal")]
    version: u128,
}

/// A number that JSON readers would round, as a decimal string.
mod decimal {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(number: &u128, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u128, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// The folder of one election.
#[derive(Debug)]
pub(super) struct RecordFile {
    directory: PathBuf,
    folder: PathBuf,
    record: PathBuf,
    lock: PathBuf,
}

/// What one write would make of the record. Each write has a file of its own: one that took too long may still be at
/// work when the next one begins. It is removed when it is dropped, unless it has become the record.
#[derive(Debug)]
struct Draft {
    path: PathBuf,
    file: File,
}

impl Draft {
    /// Writes and syncs a draft, and holds a lock on it so that nobody sweeps it away.
    fn write(folder: &Path, text: &[u8]) -> Result<Self, FileError> {
        let path = folder.join(format!("{}.tmp", Uuid::new_v4()));
        let file = File::create_new(&path).map_err(io_error("write", &path))?;
        let mut draft = Self { path, file };
        let locked = draft.file.try_lock().map_err(io::Error::from);
        let written = locked.and_then(|()| draft.file.write_all(text)).and_then(|()| draft.file.sync_all());
        written.map_err(io_error("write", &draft.path))?;
        Ok(draft)
    }
}

/// Best effort: what stays behind is swept by the next candidate that starts.
impl Drop for Draft {
    fn drop(&mut self) {
        fs::remove_file(&self.path).ok();
    }
}

impl RecordFile {
    /// The folder of `election` in `directory`, which must be there, local and writable.
    pub(super) fn open(directory: &Path, election: &ElectionName) -> Result<Self, FileError> {
        let folder = directory.join(election.as_str());
        let this =
            Self { record: folder.join("record"), lock: folder.join("lock"), directory: directory.to_owned(), folder };
        let file_system = statfs(directory).map_err(io::Error::from).map_err(io_error("look at", directory))?;
        if let Some((_, kind)) = REMOTE.iter().find(|(magic, _)| *magic == file_system.f_type) {
            return Err(FileError::Remote { path: directory.to_owned(), kind });
        }
        this.make_folder()?;
        drop(Draft::write(&this.folder, b"")?);
        this.sweep();
        Ok(this)
    }

    /// The record as it is now.
    pub(super) fn read(&self) -> Result<Option<Snapshot>, FileError> {
        Ok(self.stored()?.map(|(_, snapshot)| snapshot))
    }

    /// Replaces the record if it still has the version that `write` names; gives up at `until`.
    pub(super) fn replace(&self, write: &Write, until: Instant) -> Result<Replaced, FileError> {
        // A call that waited for a disk behind others, and was given up long ago, must not keep it busy.
        if Clock.now() >= until {
            return Err(FileError::OutOfTime { path: self.record.clone() });
        }
        let Some(stored) = self.next(write)? else {
            return Ok(Replaced::Conflict);
        };
        let text = serde_json::to_vec(&stored).expect("a record of texts and numbers is JSON");
        self.make_folder()?;
        let draft = Draft::write(&self.folder, &text)?;
        if self.swap(&draft, write, until)? {
            Ok(Replaced::Applied(snapshot(&stored).map_err(self.foreign())?))
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

    /// The record that `write` makes of the one that is there; `None` where another one is there.
    fn next(&self, write: &Write) -> Result<Option<Stored>, FileError> {
        let current = self.stored()?;
        if current.as_ref().map(|(_, snapshot)| &snapshot.version) != write.over.as_ref() {
            return Ok(None);
        }
        let (uid, floor, acquired) = match current {
            Some((stored, _)) => {
                let next = stored.version.checked_add(1).ok_or(ForeignError::LastVersion).map_err(self.foreign())?;
                (stored.uid, next, Some(stored.acquire_time))
            }
            None => (Uuid::new_v4().to_string(), 0, None),
        };
        // Larger than the one before, and after a deletion, of which nothing is left, by the wall clock. The time that is
        // written is made from it, so that every renewal shows even while the wall clock stands still.
        let version = floor.max(microseconds_since_epoch(Clock.wall()));
        let now = time_of(version);
        let acquire_time = match write.intent {
            Intent::Renew => acquired.unwrap_or_else(|| now.clone()),
            Intent::Acquire | Intent::Release => now.clone(),
        };
        Ok(Some(Stored {
            format: FORMAT.to_owned(),
            holder_identity: write.holder.as_ref().map(ToString::to_string).unwrap_or_default(),
            lease_duration_ms: milliseconds_rounded_up(write.duration),
            acquire_time,
            renew_time: now,
            lease_transitions: write.transitions,
            uid,
            version,
        }))
    }

    /// Renames the draft to the record inside the lock, if the record still has the version that `write` names.
    fn swap(&self, draft: &Draft, write: &Write, until: Instant) -> Result<bool, FileError> {
        let lock = self.lock(until)?;
        if self.read()?.map(|snapshot| snapshot.version) != write.over {
            return Ok(false);
        }
        // A process that was stopped on the way here must not bring back a claim that nobody counts on any more.
        if Clock.now() >= until {
            return Err(FileError::OutOfTime { path: self.record.clone() });
        }
        fs::rename(&draft.path, &self.record).map_err(io_error("replace", &self.record))?;
        drop(lock);
        // The rename is durable before anybody counts on it; whoever replaces the record meanwhile syncs the same folder.
        let folder = File::open(&self.folder).map_err(io_error("open", &self.folder))?;
        folder.sync_all().map_err(io_error("sync", &self.folder))?;
        Ok(true)
    }

    /// Holds the lock until the returned file is dropped.
    fn lock(&self, until: Instant) -> Result<File, FileError> {
        let [mut wait, longest] = LOCK_WAITS;
        loop {
            let file = OpenOptions::new().read(true).append(true).create(true).open(&self.lock);
            let file = file.map_err(io_error("open", &self.lock))?;
            match file.try_lock() {
                // Somebody may have removed the file between opening and locking, and another one taken its place.
                Ok(()) if is_same_file(&file, &self.lock) => return Ok(file),
                Ok(()) | Err(TryLockError::WouldBlock) if Clock.now() + wait >= until => {
                    return Err(FileError::Locked { path: self.lock.clone() });
                }
                Ok(()) | Err(TryLockError::WouldBlock) => thread::sleep(wait),
                Err(TryLockError::Error(source)) => {
                    return Err(io_error("lock", &self.lock)(source));
                }
            }
            wait = longest.min(wait * 2);
        }
    }

    fn stored(&self) -> Result<Option<(Stored, Snapshot)>, FileError> {
        let text = match fs::read(&self.record) {
            Ok(text) => text,
            // A record that is gone, alone or with its folder, is news; a directory that is gone is a store that is away.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.directory.is_dir() => {
                return Ok(None);
            }
            Err(source) if self.directory.is_dir() => return Err(io_error("read", &self.record)(source)),
            Err(source) => return Err(io_error("find the directory", &self.directory)(source)),
        };
        let stored: Stored = serde_json::from_slice(&text).map_err(ForeignError::from).map_err(self.foreign())?;
        let snapshot = snapshot(&stored).map_err(self.foreign())?;
        Ok(Some((stored, snapshot)))
    }

    /// Removes drafts whose writers died.
    fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
        };
        for path in entries.flatten().map(|entry| entry.path()).filter(|path| is_draft(path)) {
            if File::open(&path).is_ok_and(|draft| draft.try_lock().is_ok()) {
                fs::remove_file(&path).ok();
            }
        }
    }

    /// Makes the election's folder, but never the directory around it: that one is the user's.
    fn make_folder(&self) -> Result<(), FileError> {
        match fs::create_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && self.folder.is_dir() => Ok(()),
            made => made.map_err(io_error("make the folder", &self.folder)),
        }
    }

    fn foreign(&self) -> impl Fn(ForeignError) -> FileError {
        |source| FileError::Foreign { path: self.record.clone(), source }
    }
}

fn snapshot(stored: &Stored) -> Result<Snapshot, ForeignError> {
    if stored.format != FORMAT {
        return Err(ForeignError::Format(stored.format.clone()));
    }
    let holder = Some(stored.holder_identity.as_str()).filter(|holder| !holder.is_empty());
    let record = Record {
        holder: holder.map(Identity::parse).transpose()?,
        duration: Some(Duration::from_millis(stored.lease_duration_ms)).filter(|duration| !duration.is_zero()),
        transitions: stored.lease_transitions,
        acquired: Stamp(stored.acquire_time.clone()),
        renewed: Stamp(stored.renew_time.clone()),
    };
    Ok(Snapshot { version: Version { uid: Arc::from(stored.uid.as_str()), number: stored.version }, record })
}

/// Whether a file is called as our drafts are; nothing else is ours to remove.
fn is_draft(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    path.extension().is_some_and(|extension| extension == "tmp")
        && stem.is_some_and(|stem| Uuid::parse_str(stem).is_ok())
}

fn is_same_file(file: &File, path: &Path) -> bool {
    match (fstat(file), stat(path)) {
        (Ok(held), Ok(there)) => (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino),
        _ => false,
    }
}

fn io_error(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> FileError {
    move |source| FileError::Io { doing, path: path.to_owned(), source }
}

fn milliseconds_rounded_up(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn time_of(version: u128) -> String {
    let since_epoch = Duration::from_micros(u64::try_from(version).unwrap_or(u64::MAX));
    // The last moment that RFC 3339 can write; whoever edits a version beyond it sees that.
    let last = UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    humantime::format_rfc3339_micros(UNIX_EPOCH.checked_add(since_epoch).map_or(last, |time| time.min(last)))
        .to_string()
}

fn microseconds_since_epoch(wall: SystemTime) -> u128 {
    wall.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros())
}
