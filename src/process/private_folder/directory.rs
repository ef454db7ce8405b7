//! The directory around a private folder, and whether other users can rename what is in it.
//!
//! Touches the file system. Start with [`Exposure::of`]. A user that renames our folder can put another
//! in its place, but only the user knows whom they trust: an exposed directory is a warning.

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
    /// It belongs to another user.
    Owner { path: PathBuf, owner: u32, user: u32 },
    /// A user namespace shows each owner from outside as this one: the host's root, or any other.
    Unmapped { path: PathBuf, owner: u32 },
    /// Others may write to it, and it is not sticky.
    Writable { path: PathBuf },
}

impl Exposure {
    /// How `directory` is exposed, if it is.
    pub(crate) fn of(directory: &Path) -> Result<Option<Self>, FolderError> {
        let there = fstat(open_directory(directory)?);
        let there = there.map_err(|error| FolderError::io("look at", directory)(error.into()))?;
        let (path, owner, user) = (directory.to_owned(), there.st_uid, geteuid().as_raw());
        if ![user, TRUSTED_UID].contains(&owner) {
            return Ok(Some(if Some(owner) == overflow_uid() {
                Self::Unmapped { path, owner }
            } else {
                Self::Owner { path, owner, user }
            }));
        }
        let is_writable =
            there.st_mode & WRITE_BY_GROUP_OR_OTHERS != 0 && there.st_mode & STICKY == 0;
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
                    "{path} belongs to uid {owner}, which can rename the folders in it: unless you trust \
                     this user, run: chown {user} {quoted}"
                )
            }
            Self::Unmapped { path, owner } => write!(
                f,
                "{} belongs to uid {owner}, which can rename the folders in it: in a user namespace this uid \
                 stands for every user outside it, so see from outside that root or a user you trust owns it",
                path.display()
            ),
            Self::Writable { path } => write!(
                f,
                "other users can rename the folders in {}: take the right to write from them (chmod go-w), \
                 or let each user rename only their own (chmod +t)",
                path.display()
            ),
        }
    }
}

/// Opens the directory around a folder. Links on the way to it are followed, since the user named it.
pub(super) fn open_directory(path: &Path) -> Result<OwnedFd, FolderError> {
    let io = |error: Errno| FolderError::io("find the directory", path)(error.into());
    open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(io)
}

/// The uid that user namespaces show for users they do not map.
fn overflow_uid() -> Option<u32> {
    fs::read_to_string("/proc/sys/kernel/overflowuid").ok()?.trim().parse().ok()
}
