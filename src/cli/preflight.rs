//! Looks, for `check-config`, for the files that `run` will need.
//!
//! Touches files, and only to see whether they are there. Start with [`missing`].

use crate::cli::Settings;
use crate::config::Kind;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

/// Something that a flag names and that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Missing {
    /// The directory of the file backend.
    #[error(
        "--directory {0:?} cannot be used: create it on a local file system that all candidates share"
    )]
    Directory(PathBuf, #[source] io::Error),
    /// A file of credentials or certificates.
    #[error("--{flag} {path:?} cannot be read: create it, or name the right file")]
    File {
        /// The flag.
        flag: &'static str,
        /// The path that it names.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Every file and directory that `settings` name for the store `chosen` and that is missing.
pub fn missing(settings: &Settings, chosen: Kind) -> Vec<Missing> {
    let files: &[(&str, &Option<String>)] = match chosen {
        Kind::Lease => &[("kubeconfig", &settings.kubeconfig)],
        Kind::ZooKeeper => &[
            ("zookeeper-auth-file", &settings.zookeeper_auth_file),
            ("zookeeper-ca-file", &settings.zookeeper_ca_file),
            ("zookeeper-cert-file", &settings.zookeeper_cert_file),
            ("zookeeper-key-file", &settings.zookeeper_key_file),
        ],
        Kind::File => return directory(settings).into_iter().collect(),
    };
    files.iter().filter_map(|(flag, typed)| file(flag, typed.as_deref()?)).collect()
}

fn directory(settings: &Settings) -> Option<Missing> {
    let path = settings.directory.as_deref().filter(|path| !path.is_empty())?;
    let source = match fs::metadata(path) {
        Ok(found) if found.is_dir() => return None,
        Ok(_) => io::ErrorKind::NotADirectory.into(),
        Err(error) => error,
    };
    Some(Missing::Directory(path.into(), source))
}

fn file(flag: &'static str, path: &str) -> Option<Missing> {
    if path.is_empty() {
        return None;
    }
    // A pipe would keep us waiting for its other end, so it is looked at and not opened.
    let source = match fs::metadata(path) {
        Ok(found) if found.is_dir() => io::ErrorKind::IsADirectory.into(),
        Ok(found) if found.is_file() => File::open(path).err()?,
        Ok(_) => return None,
        Err(error) => error,
    };
    Some(Missing::File { flag, path: path.into(), source })
}
