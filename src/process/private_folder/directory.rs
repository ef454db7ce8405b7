//! Finds out whether other users can rename the folders in a directory.
//!
//! Touches the file system. Start with [`Exposure::of`]. A user who can rename our folder can
//! replace it. You may trust that user, so an exposed directory causes a warning and not an error.

use crate::process::private_folder::{
    FolderError, Quoted, STICKY, TRUSTED_UID, WRITE_BY_GROUP_OR_OTHERS,
};
use rustix::fs::{Mode, OFlags, fstat, open};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fmt;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// How other users can rename the folders in a directory.
#[derive(Debug)]
pub(crate) enum Exposure {
    /// Another user owns the directory.
    Owner { path: PathBuf, owner: u32, user: u32 },
    /// The owner is outside of this user namespace: the host's root, or any other user.
    Unmapped { path: PathBuf, owner: u32 },
    /// Other users can write to the directory, and it is not sticky.
    Writable { path: PathBuf },
}

impl Exposure {
    /// How `directory` is exposed; `None` if it is not.
    pub(crate) fn of(directory: &Path) -> Result<Option<Self>, FolderError> {
        let stat = fstat(open_directory(directory)?);
        let stat = stat.map_err(|error| FolderError::io("inspect", directory)(error.into()))?;
        let (path, owner, user) = (directory.to_owned(), stat.st_uid, geteuid().as_raw());
        if ![user, TRUSTED_UID].contains(&owner) {
            return Ok(Some(if Some(owner) == overflow_uid() {
                Self::Unmapped { path, owner }
            } else {
                Self::Owner { path, owner, user }
            }));
        }
        let is_writable =
            stat.st_mode & WRITE_BY_GROUP_OR_OTHERS != 0 && stat.st_mode & STICKY == 0;
        Ok(is_writable.then_some(Self::Writable { path }))
    }
}

impl fmt::Display for Exposure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner { path, owner, user } => {
                let (path, quoted) = (path.display(), Quoted(path));
                write!(
                    f,
                    "{path} belongs to uid {owner}, which can rename the folders in it: unless you \
                     trust that user, run: chown {user} {quoted}"
                )
            }
            Self::Unmapped { path, owner } => write!(
                f,
                "{} belongs to uid {owner}, which can rename the folders in it and represents \
                 every user outside of this user namespace: check from outside that root or a user \
                 you trust owns it",
                path.display()
            ),
            Self::Writable { path } => write!(
                f,
                "other users can rename the folders in {0}: run chmod go-w {1} or chmod +t {1}",
                path.display(),
                Quoted(path)
            ),
        }
    }
}

/// Opens the parent directory of a folder. Follows links, because the user chose the path.
pub(super) fn open_directory(path: &Path) -> Result<OwnedFd, FolderError> {
    let io = |error: Errno| FolderError::io("open the directory", path)(error.into());
    open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(io)
}

/// The uid that a user namespace shows for unmapped users.
fn overflow_uid() -> Option<u32> {
    fs::read_to_string("/proc/sys/kernel/overflowuid").ok()?.trim().parse().ok()
}
