//! A folder that only one user can enter, and the small files in it.
//!
//! Touches the file system, and blocks. Start with [`PrivateFolder::open_or_create`]. Other users
//! may share the parent directory (`/tmp`, a volume), so nothing here follows a symbolic link,
//! truncates a file, waits for a pipe, or reads without a limit. Every call uses the folder's
//! descriptor, so a folder that replaces it is never touched.

mod directory;
mod error;
pub(crate) mod remote;

pub(crate) use directory::Exposure;
pub use error::FolderError;

use directory::open_directory;
use error::{Quoted, kind_of};
use rustix::fs::{
    AtFlags, Dir, FileType, FsWord, Mode, OFlags, Stat, fchmod, fstat, fstatfs, mkdirat, openat,
    renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The largest file to read. Our own files are far smaller.
pub(crate) const MAX_FILE_BYTES: u64 = 64 << 10;

/// The mode bits that let other users write, or do anything.
const WRITE_BY_OTHERS: u32 = 0o002;
const WRITE_BY_GROUP_OR_OTHERS: u32 = 0o022;
const ANY_BY_GROUP_OR_OTHERS: u32 = 0o077;
/// The mode bit of a directory in which users may rename and remove only their own entries, as in
/// `/tmp`.
const STICKY: u32 = 0o1000;
/// The permission bits of a mode.
const MODE_BITS: u32 = 0o7777;

/// Root, which can change any file in any case.
const TRUSTED_UID: u32 = 0;

/// Refuses some file systems, by their `statfs(2)` type.
pub(crate) type FileSystemCheck = fn(FsWord, &Path) -> Result<(), FolderError>;

/// A folder of mode 0700 that belongs to this user.
#[derive(Debug)]
pub(crate) struct PrivateFolder {
    file: File,
    path: PathBuf,
}

impl PrivateFolder {
    /// Opens the folder `name` in `directory`, and creates it if it is missing. `directory` must
    /// exist. `check` may refuse the folder's file system.
    pub(crate) fn open_or_create(
        directory: &Path,
        name: &str,
        check: FileSystemCheck,
    ) -> Result<Self, FolderError> {
        let (parent, path) = (open_directory(directory)?, directory.join(name));
        match mkdirat(&parent, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(FolderError::io("create the folder", &path)(error.into())),
        }
        Self::open_in(&parent, name, path.clone(), check)?
            .ok_or_else(|| FolderError::io("open the folder", &path)(Errno::NOENT.into()))
    }

    /// Opens the folder `name` in `directory`, if it exists.
    pub(crate) fn open_existing(
        directory: &Path,
        name: &str,
        check: FileSystemCheck,
    ) -> Result<Option<Self>, FolderError> {
        Self::open_in(&open_directory(directory)?, name, directory.join(name), check)
    }

    /// The path that the folder was opened at, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the path still leads to this folder and not to a replacement.
    pub(crate) fn is_in_place(&self) -> bool {
        match (fstat(&self.file), rustix::fs::lstat(&self.path)) {
            (Ok(held), Ok(stat)) => is_same(&held, &stat),
            _ => false,
        }
    }

    /// Applies `check` to the folder's file system.
    pub(crate) fn check(&self, check: FileSystemCheck) -> Result<(), FolderError> {
        let found = fstatfs(&self.file)
            .map_err(|error| FolderError::io("inspect", &self.path)(error.into()))?;
        check(found.f_type, &self.path)
    }

    /// Reads a file, if it exists.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, FolderError> {
        let Some(file) = self.open(name, OFlags::RDONLY)? else { return Ok(None) };
        let mut text = Vec::new();
        // The size does not limit the read: a file may grow meanwhile, and files of /proc have
        // none.
        let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text);
        read.map_err(FolderError::io("read", &self.path.join(name)))?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(FolderError::TooLarge { path: self.path.join(name) });
        }
        Ok(Some(text))
    }

    /// Creates a file for writing. Fails if it exists.
    pub(crate) fn create_new(&self, name: &str) -> Result<File, FolderError> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
        self.open(name, flags)?
            .ok_or_else(|| FolderError::io("write", &self.path.join(name))(Errno::NOENT.into()))
    }

    /// Opens a lock file, and creates it if it is missing. Its content stays.
    ///
    /// The mode is 0600, even for a file that an earlier version created: `flock` needs no write
    /// access, so any user who can read a lock file could hold it forever. A shared OFD lock, which
    /// excludes an exclusive one, needs only read access too.
    pub(crate) fn open_lock_file(&self, name: &str) -> Result<File, FolderError> {
        self.open_lock(name, OFlags::RDONLY)
    }

    /// Opens a lock file whose content this process may replace, and creates it if it is missing.
    pub(crate) fn open_state_lock(&self, name: &str) -> Result<File, FolderError> {
        self.open_lock(name, OFlags::RDWR)
    }

    fn open_lock(&self, name: &str, access: OFlags) -> Result<File, FolderError> {
        let flags = OFlags::CREATE | access;
        let io = |error: Errno| FolderError::io("open", &self.path.join(name))(error.into());
        let file = self.open(name, flags)?.ok_or_else(|| io(Errno::NOENT))?;
        let stat = fstat(&file).map_err(io)?;
        if stat.st_uid == geteuid().as_raw() && stat.st_mode & ANY_BY_GROUP_OR_OTHERS != 0 {
            fchmod(&file, Mode::RUSR | Mode::WUSR).map_err(io)?;
        }
        Ok(file)
    }

    /// Opens a file for reading, if it exists: a regular file that no other user can change.
    pub(crate) fn open_file(&self, name: &str) -> Result<Option<File>, FolderError> {
        self.open(name, OFlags::RDONLY)
    }

    /// Whether the folder has `file` itself under `name` and not a replacement.
    pub(crate) fn has(&self, name: &str, file: &File) -> bool {
        match (fstat(file), statat(&self.file, name, AtFlags::SYMLINK_NOFOLLOW)) {
            (Ok(held), Ok(stat)) => is_same(&held, &stat),
            _ => false,
        }
    }

    /// Renames a file, and replaces any file of the new name.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), FolderError> {
        let renamed = renameat(&self.file, from, &self.file, to);
        renamed.map_err(|error| FolderError::io("replace", &self.path.join(to))(error.into()))
    }

    /// Removes a file, if it exists. Removes a link itself and not its target.
    pub(crate) fn remove(&self, name: &str) -> Result<(), FolderError> {
        match unlinkat(&self.file, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(FolderError::io("remove", &self.path.join(name))(error.into())),
        }
    }

    /// Makes the last renames durable.
    pub(crate) fn sync(&self) -> Result<(), FolderError> {
        self.file.sync_all().map_err(FolderError::io("sync", &self.path))
    }

    /// The names in the folder that are UTF-8, as all of ours are.
    pub(crate) fn names(&self) -> Result<Vec<String>, FolderError> {
        let io = |error: Errno| FolderError::io("list", &self.path)(error.into());
        let entries =
            Dir::read_from(&self.file).map_err(io)?.collect::<Result<Vec<_>, _>>().map_err(io)?;
        Ok(entries
            .iter()
            .filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned))
            .collect())
    }

    fn open_in(
        parent: &OwnedFd,
        name: &str,
        path: PathBuf,
        check: FileSystemCheck,
    ) -> Result<Option<Self>, FolderError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(parent, name, flags, Mode::empty()) {
            Ok(fd) => {
                let folder = Self { file: fd.into(), path };
                folder.check(check)?;
                folder.restrict_access()?;
                Ok(Some(folder))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                Err(FolderError::NotAFolder { kind: kind_at(parent, name), path })
            }
            Err(error) => Err(FolderError::io("open the folder", &path)(error.into())),
        }
    }

    /// Refuses a folder that another user owns or that every user can write to. Revokes any lesser
    /// access of others: earlier versions created readable folders, and kubelet makes a volume with
    /// an `fsGroup` writable by the group at each start of a Pod. [`Self::open`] refuses files that
    /// the group may have put there.
    fn restrict_access(&self) -> Result<(), FolderError> {
        let io = |error: Errno| FolderError::io("restrict", &self.path)(error.into());
        let stat = fstat(&self.file).map_err(io)?;
        let (owner, user, mode) = (stat.st_uid, geteuid().as_raw(), stat.st_mode & MODE_BITS);
        let path = || self.path.clone();
        if owner != user {
            return Err(FolderError::Owner { path: path(), owner, user });
        }
        if mode & WRITE_BY_OTHERS != 0 {
            return Err(FolderError::Writable { path: path(), mode });
        }
        if mode & ANY_BY_GROUP_OR_OTHERS != 0 {
            fchmod(&self.file, Mode::RWXU).map_err(io)?;
            let (path, access) = (
                self.path.display(),
                if mode & WRITE_BY_GROUP_OR_OTHERS != 0 {
                    "replace its files"
                } else {
                    "hold its lock"
                },
            );
            tracing::warn!(
                "changed the mode of {path} from {mode:04o} to 0700: other users could {access}"
            );
        }
        Ok(())
    }

    /// Opens a regular file that no other user can change. Its mode may let the group write, as
    /// kubelet sets it: the group cannot reach it, because the folder is closed and the file has
    /// one link.
    fn open(&self, name: &str, flags: OFlags) -> Result<Option<File>, FolderError> {
        let path = self.path.join(name);
        // With NONBLOCK, a pipe without a writer opens at once, and is refused below.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match openat(&self.file, name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(fd) => File::from(fd),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => {
                return Err(match statat(&self.file, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) if !is_regular(&stat) => {
                        FolderError::NotAFile { path, kind: kind_of(&stat) }
                    }
                    _ => FolderError::io("open", &path)(error.into()),
                });
            }
        };
        let stat = fstat(&file).map_err(|error| FolderError::io("inspect", &path)(error.into()))?;
        let user = geteuid().as_raw();
        if !is_regular(&stat) {
            return Err(FolderError::NotAFile { path, kind: kind_of(&stat) });
        }
        // Root may own a file here.
        if ![user, TRUSTED_UID].contains(&stat.st_uid) {
            return Err(FolderError::Owner { path, owner: stat.st_uid, user });
        }
        if stat.st_nlink > 1 {
            return Err(FolderError::Linked { path });
        }
        if stat.st_mode & WRITE_BY_OTHERS != 0 {
            return Err(FolderError::WritableFile { path, mode: stat.st_mode & MODE_BITS });
        }
        Ok(Some(file))
    }
}

fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

fn kind_at(parent: &OwnedFd, name: &str) -> &'static str {
    statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).map_or("gone", |stat| kind_of(&stat))
}
