//! Why a private folder, or a file in it, is not used: each reason with the command that helps.
//!
//! Pure. The flag that named the directory stands in the error around this one.

use rustix::fs::{FileType, Stat};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a folder, or a file in it, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The file system said no.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// The action that failed.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It is not on a local file system.
    #[error(
        "{} is on {kind}: the file backend needs a local file system, on which all candidates see \
         one lock",
        path.display()
    )]
    Remote {
        /// The directory or folder.
        path: PathBuf,
        /// The kind of the file system.
        kind: &'static str,
    },
    /// Another user owns it.
    #[error(
        "{} belongs to uid {owner}, who could change it under uid {user}: run every process that \
         uses it as one user, or, while none runs, run: rm -r {}",
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
    /// Its mode lets every user change what is in it.
    #[error(
        "{} has mode {mode:04o}, so every user can change what is in it: see that its files are \
         yours, then run: chmod 700 {}",
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
        "{} has mode {mode:04o}, so every user can change it: see that its content is yours, then \
         run: chmod 600 {}",
        path.display(),
        Quoted(path)
    )]
    WritableFile {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A file that has another name, perhaps where other users reach it.
    #[error(
        "{} has more than one link, so other users may reach it by another name: look who linked \
         it, then run: rm {}",
        path.display(),
        Quoted(path)
    )]
    Linked {
        /// The file.
        path: PathBuf,
    },
    /// Something else stands in the folder's place.
    #[error(
        "{} is {kind}, which is never followed: name the directory that it stands for, or \
         run: rm {}",
        path.display(),
        Quoted(path)
    )]
    NotAFolder {
        /// The folder.
        path: PathBuf,
        /// The kind of thing that it is.
        kind: &'static str,
    },
    /// Something else stands in a file's place.
    #[error(
        "{} is {kind} and no regular file: look who made it, then run: rm -r {}",
        path.display(),
        Quoted(path)
    )]
    NotAFile {
        /// The file.
        path: PathBuf,
        /// The kind of thing that it is.
        kind: &'static str,
    },
    /// A file that is too large to be ours.
    #[error(
        "{} is larger than 64 KiB, which no file of ours is: look who wrote it, then run: rm {}",
        path.display(),
        Quoted(path)
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
}

impl FolderError {
    /// The file system's error while `doing` something with `path`.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }

    /// Whether the system denied us the right.
    pub(crate) fn is_refusal(&self) -> bool {
        use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
        match self {
            Self::Io { source, .. } => {
                [PermissionDenied, ReadOnlyFilesystem].contains(&source.kind())
            }
            Self::Remote { .. }
            | Self::Owner { .. }
            | Self::Writable { .. }
            | Self::WritableFile { .. }
            | Self::Linked { .. }
            | Self::NotAFolder { .. }
            | Self::NotAFile { .. }
            | Self::TooLarge { .. } => false,
        }
    }

    /// Whether it stays until a person changes what is there.
    pub(crate) fn is_unfit(&self) -> bool {
        match self {
            Self::Io { .. } => false,
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

/// A path as a shell reads it back.
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

/// The kind of a file, for people.
pub(super) fn kind_of(there: &Stat) -> &'static str {
    match FileType::from_raw_mode(there.st_mode) {
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
    fn a_command_to_paste_names_the_path_as_a_shell_reads_it() {
        for (path, quoted) in
            [("/tmp/a-b_1.c", "/tmp/a-b_1.c"), ("/a b", "'/a b'"), ("/$(x)'", r"'/$(x)'\'''")]
        {
            assert_eq!(Quoted(Path::new(path)).to_string(), quoted);
        }
    }
}
