//! Errors of private folders and their files, most with a command that remedies them.
//!
//! Pure. Start with [`FolderError`]. The error around it names the flag.

use rustix::fs::{FileType, Stat};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A folder, or a file in it, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The file system failed.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// The action that failed.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The directory does not exist.
    #[error("the directory {} does not exist: create it", path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// Another process holds the lock.
    #[error("another process has locked {}: stop it, or pass another directory", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The folder is not on a local file system.
    #[error(
        "{} is on {kind}: pass a --directory on a local file system, where all candidates share \
         one lock",
        path.display()
    )]
    Remote {
        /// The directory or folder.
        path: PathBuf,
        /// The kind of the file system.
        kind: &'static str,
    },
    /// Another user owns the folder or file.
    #[error(
        "{} belongs to uid {owner}, which can change it, and not to uid {user}: run all processes \
         that use it as one user, or stop them and run: rm -r {}",
        path.display(),
        Quoted(path)
    )]
    Owner {
        /// The folder or file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The user of this process.
        user: u32,
    },
    /// The folder's mode lets every user change its files.
    #[error(
        "{} has mode {mode:04o}, so every user can change its files: check that they are yours, \
         then run: chmod 700 {}",
        path.display(),
        Quoted(path)
    )]
    Writable {
        /// The folder.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A file's mode lets every user change it.
    #[error(
        "{} has mode {mode:04o}, so every user can change it: check that its content is yours, \
         then run: chmod 600 {}",
        path.display(),
        Quoted(path)
    )]
    WritableFile {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A file has a second link, perhaps in a directory of another user.
    #[error(
        "{} has more than one link, so other users may reach it by another name: find out who \
         linked it, then run: rm {}",
        path.display(),
        Quoted(path)
    )]
    Linked {
        /// The file.
        path: PathBuf,
    },
    /// The path is not a folder.
    #[error(
        "{} is {kind} and not a directory (links are not followed): find out who created it, then \
         run: rm {}",
        path.display(),
        Quoted(path)
    )]
    NotAFolder {
        /// The folder.
        path: PathBuf,
        /// The file's type.
        kind: &'static str,
    },
    /// The path is not a regular file.
    #[error(
        "{} is {kind} and not a regular file: find out who created it, then run: rm -r {}",
        path.display(),
        Quoted(path)
    )]
    NotAFile {
        /// The file.
        path: PathBuf,
        /// The file's type.
        kind: &'static str,
    },
    /// A file is too large to be ours.
    #[error(
        "{} is larger than 64 KiB, so it is not a file of Baton: find out who wrote it, then run: \
         rm {}",
        path.display(),
        Quoted(path)
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
}

impl FolderError {
    /// Wraps the file system's error while `doing` something with `path`.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }

    /// Whether the system denied access.
    pub(crate) fn is_refusal(&self) -> bool {
        use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
        match self {
            Self::Io { source, .. } => {
                [PermissionDenied, ReadOnlyFilesystem].contains(&source.kind())
            }
            Self::Missing { .. }
            | Self::Locked { .. }
            | Self::Remote { .. }
            | Self::Owner { .. }
            | Self::Writable { .. }
            | Self::WritableFile { .. }
            | Self::Linked { .. }
            | Self::NotAFolder { .. }
            | Self::NotAFile { .. }
            | Self::TooLarge { .. } => false,
        }
    }

    /// Whether the error persists until you change the folder.
    pub(crate) fn is_permanent(&self) -> bool {
        match self {
            Self::Io { .. } | Self::Missing { .. } | Self::Locked { .. } => false,
            Self::Remote { .. }
            | Self::Owner { .. }
            | Self::Writable { .. }
            | Self::WritableFile { .. }
            | Self::Linked { .. }
            | Self::NotAFolder { .. }
            | Self::NotAFile { .. }
            | Self::TooLarge { .. } => true,
        }
    }
}

/// Displays a path quoted for a shell.
pub(super) struct Quoted<'a>(pub(super) &'a Path);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.0.to_string_lossy();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@".contains(c);
        if !path.is_empty() && path.chars().all(is_plain) {
            f.write_str(&path)
        } else {
            write!(f, "'{}'", path.replace('\'', r"'\''"))
        }
    }
}

/// The name of a file's type, for messages.
pub(super) fn kind_of(stat: &Stat) -> &'static str {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => "a file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "of an unknown kind",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_for_a_shell() {
        for (path, quoted) in
            [("/tmp/a-b_1.c", "/tmp/a-b_1.c"), ("/a b", "'/a b'"), ("/$(x)'", r"'/$(x)'\'''")]
        {
            assert_eq!(Quoted(Path::new(path)).to_string(), quoted);
        }
    }
}
