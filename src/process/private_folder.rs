//! A folder that one user alone can enter, and the small files in it.
//!
//! Touches the file system, and blocks. Other users may share the directory around the folder
//! (`/tmp`, a volume), so nothing here follows a symbolic link, truncates a file, waits for a pipe
//! or reads without a bound. Every call goes through the folder's descriptor: a folder that takes
//! its place later is never touched. Start with [`PrivateFolder::make`].

mod directory;
mod error;

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

/// Our files are far smaller. A longer one is not ours, and is not read.
pub(crate) const MAX_FILE_BYTES: u64 = 64 << 10;

/// The bits of a mode by which users besides the owner may write, or do anything at all.
const WRITE_BY_OTHERS: u32 = 0o002;
const WRITE_BY_GROUP_OR_OTHERS: u32 = 0o022;
const ANY_BY_GROUP_OR_OTHERS: u32 = 0o077;
/// A directory in which each user may rename and remove their own entries alone, as in `/tmp`.
const STICKY: u32 = 0o1000;
/// The permission bits of a mode.
const MODE_BITS: u32 = 0o7777;

/// Root: it may change any file anyway.
const TRUSTED_UID: u32 = 0;

/// Refuses a file system, by what `statfs(2)` calls it.
pub(crate) type Check = fn(FsWord, &Path) -> Result<(), FolderError>;

/// A folder of mode 0700 that belongs to this user.
#[derive(Debug)]
pub(crate) struct PrivateFolder {
    file: File,
    path: PathBuf,
}

impl PrivateFolder {
    /// The folder `name` in `directory`, made if it is not there. `directory` must exist. `check`
    /// may refuse the file system that the folder is on.
    pub(crate) fn make(directory: &Path, name: &str, check: Check) -> Result<Self, FolderError> {
        let (around, path) = (open_directory(directory)?, directory.join(name));
        match mkdirat(&around, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(FolderError::io("make the folder", &path)(error.into())),
        }
        Self::open_in(&around, name, path.clone(), check)?
            .ok_or_else(|| FolderError::io("open the folder", &path)(Errno::NOENT.into()))
    }

    /// The folder `name` in `directory`; `None` if there is none.
    pub(crate) fn find(
        directory: &Path,
        name: &str,
        check: Check,
    ) -> Result<Option<Self>, FolderError> {
        Self::open_in(&open_directory(directory)?, name, directory.join(name), check)
    }

    /// Where the folder was opened, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether `directory` still has this very folder under its name.
    pub(crate) fn is_in_place(&self) -> bool {
        match (fstat(&self.file), rustix::fs::lstat(&self.path)) {
            (Ok(held), Ok(there)) => is_same(&held, &there),
            _ => false,
        }
    }

    /// A file's content; `None` if there is no such file.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, FolderError> {
        let Some(file) = self.open(name, OFlags::RDONLY)? else { return Ok(None) };
        let mut text = Vec::new();
        // A file may grow while it is read, and those of /proc have no size.
        let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text);
        read.map_err(FolderError::io("read", &self.path.join(name)))?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(FolderError::TooLarge { path: self.path.join(name) });
        }
        Ok(Some(text))
    }

    /// Makes a file that is not there yet, to be written.
    pub(crate) fn create_new(&self, name: &str) -> Result<File, FolderError> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
        self.open(name, flags)?
            .ok_or_else(|| FolderError::io("write", &self.path.join(name))(Errno::NOENT.into()))
    }

    /// A file to hold a lock on, made if it is not there. Its content stays.
    ///
    /// `flock` needs no right to write, so any user who can read a lock file can hold it for ever.
    /// OFD locks are no better: their shared kind keeps an exclusive one out. Hence the mode 0600,
    /// which an older file gets too.
    pub(crate) fn lock_file(&self, name: &str) -> Result<File, FolderError> {
        let flags = OFlags::CREATE | OFlags::RDONLY;
        let io = |error: Errno| FolderError::io("open", &self.path.join(name))(error.into());
        let file = self.open(name, flags)?.ok_or_else(|| io(Errno::NOENT))?;
        let there = fstat(&file).map_err(io)?;
        if there.st_uid == geteuid().as_raw() && there.st_mode & ANY_BY_GROUP_OR_OTHERS != 0 {
            fchmod(&file, Mode::RUSR | Mode::WUSR).map_err(io)?;
        }
        Ok(file)
    }

    /// A file that is there, to be read. It is a regular file, and no other user can change it.
    pub(crate) fn existing(&self, name: &str) -> Result<Option<File>, FolderError> {
        self.open(name, OFlags::RDONLY)
    }

    /// Whether the folder has this very file under this name.
    pub(crate) fn has(&self, name: &str, file: &File) -> bool {
        match (fstat(file), statat(&self.file, name, AtFlags::SYMLINK_NOFOLLOW)) {
            (Ok(held), Ok(there)) => is_same(&held, &there),
            _ => false,
        }
    }

    /// Renames a file, over any file of the new name.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), FolderError> {
        let renamed = renameat(&self.file, from, &self.file, to);
        renamed.map_err(|error| FolderError::io("replace", &self.path.join(to))(error.into()))
    }

    /// Removes a file, if it is there. It removes a link itself, not the link's target.
    pub(crate) fn remove(&self, name: &str) -> Result<(), FolderError> {
        match unlinkat(&self.file, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(FolderError::io("remove", &self.path.join(name))(error.into())),
        }
    }

    /// Makes the last renames survive a loss of power.
    pub(crate) fn sync(&self) -> Result<(), FolderError> {
        self.file.sync_all().map_err(FolderError::io("sync", &self.path))
    }

    /// The names in the folder. A name that is not UTF-8 is none of ours.
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
        around: &OwnedFd,
        name: &str,
        path: PathBuf,
        check: Check,
    ) -> Result<Option<Self>, FolderError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(around, name, flags, Mode::empty()) {
            Ok(fd) => {
                let found = fstatfs(&fd)
                    .map_err(|error| FolderError::io("look at", &path)(error.into()))?;
                check(found.f_type, &path)?;
                let folder = Self { file: fd.into(), path };
                folder.keep_others_out()?;
                Ok(Some(folder))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                Err(FolderError::NotAFolder { kind: kind_at(around, name), path })
            }
            Err(error) => Err(FolderError::io("open the folder", &path)(error.into())),
        }
    }

    /// Refuses a folder that another user owns, or to which every user can write. A folder that others
    /// can only read, or its group can write to, is closed to them: earlier versions made such folders,
    /// and for an `fsGroup` kubelet makes them so at each start of a Pod. [`Self::open`] refuses the
    /// files that the group could plant there.
    fn keep_others_out(&self) -> Result<(), FolderError> {
        let io = |error: Errno| FolderError::io("restrict", &self.path)(error.into());
        let there = fstat(&self.file).map_err(io)?;
        let (owner, user, mode) = (there.st_uid, geteuid().as_raw(), there.st_mode & MODE_BITS);
        let path = || self.path.clone();
        if owner != user {
            return Err(FolderError::Owner { path: path(), owner, user });
        }
        if mode & WRITE_BY_OTHERS != 0 {
            return Err(FolderError::Writable { path: path(), mode });
        }
        if mode & ANY_BY_GROUP_OR_OTHERS != 0 {
            fchmod(&self.file, Mode::RWXU).map_err(io)?;
            let (path, could) = (
                self.path.display(),
                if mode & WRITE_BY_GROUP_OR_OTHERS != 0 {
                    "replace its files"
                } else {
                    "hold its lock"
                },
            );
            tracing::warn!(
                "{path} had mode {mode:04o}, by which other users could {could}: it has 0700 now"
            );
        }
        Ok(())
    }

    /// Opens a regular file that no other user can change. Its group may write to it by its mode, as
    /// kubelet sets it, but cannot reach it: the folder is closed, and the file has no other name.
    fn open(&self, name: &str, flags: OFlags) -> Result<Option<File>, FolderError> {
        let path = self.path.join(name);
        // A pipe without a writer opens at once. Its kind is checked before anything is read.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match openat(&self.file, name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(fd) => File::from(fd),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => {
                return Err(match statat(&self.file, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(there) if !is_regular(&there) => {
                        FolderError::NotAFile { path, kind: kind_of(&there) }
                    }
                    _ => FolderError::io("open", &path)(error.into()),
                });
            }
        };
        let there =
            fstat(&file).map_err(|error| FolderError::io("look at", &path)(error.into()))?;
        let user = geteuid().as_raw();
        if !is_regular(&there) {
            return Err(FolderError::NotAFile { path, kind: kind_of(&there) });
        }
        // Root may have put this one here.
        if ![user, TRUSTED_UID].contains(&there.st_uid) {
            return Err(FolderError::Owner { path, owner: there.st_uid, user });
        }
        if there.st_nlink > 1 {
            return Err(FolderError::Linked { path });
        }
        if there.st_mode & WRITE_BY_OTHERS != 0 {
            return Err(FolderError::WritableFile { path, mode: there.st_mode & MODE_BITS });
        }
        Ok(Some(file))
    }
}

fn is_regular(there: &Stat) -> bool {
    FileType::from_raw_mode(there.st_mode) == FileType::RegularFile
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

fn kind_at(around: &OwnedFd, name: &str) -> &'static str {
    statat(around, name, AtFlags::SYMLINK_NOFOLLOW).map_or("gone", |there| kind_of(&there))
}
