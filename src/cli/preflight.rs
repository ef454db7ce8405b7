//! Checks for `check-config` that the files that `run` needs can be used.
//!
//! Touches those files, and changes none. Start with [`unusable_files`].

use crate::cli::Settings;
use crate::config::StoreKind;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

/// A file or directory that a flag names and that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UnusableFile {
    /// The directory of the file store.
    #[error(
        "--directory {0:?} cannot be used: create it on a local file system that all candidates \
         share"
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

/// Checks every file and directory that `settings` name for `store`.
pub fn unusable_files(settings: &Settings, store: StoreKind) -> Vec<UnusableFile> {
    let files: &[(&str, &Option<String>)] = match store {
        StoreKind::Lease => &[("kubeconfig", &settings.kubeconfig)],
        StoreKind::ZooKeeper => &[
            ("zookeeper-auth-file", &settings.zookeeper_auth_file),
            ("zookeeper-ca-file", &settings.zookeeper_ca_file),
            ("zookeeper-cert-file", &settings.zookeeper_cert_file),
            ("zookeeper-key-file", &settings.zookeeper_key_file),
        ],
        StoreKind::Etcd => &[
            ("etcd-user-file", &settings.etcd.user_file),
            ("etcd-ca-file", &settings.etcd.ca_file),
            ("etcd-cert-file", &settings.etcd.cert_file),
            ("etcd-key-file", &settings.etcd.key_file),
        ],
        StoreKind::File => return check_directory(settings).into_iter().collect(),
    };
    files.iter().filter_map(|(flag, path)| check_file(flag, path.as_deref()?)).collect()
}

fn check_directory(settings: &Settings) -> Option<UnusableFile> {
    let path = settings.directory.as_deref().filter(|path| !path.is_empty())?;
    let source = match fs::metadata(path) {
        Ok(found) if found.is_dir() => return None,
        Ok(_) => io::ErrorKind::NotADirectory.into(),
        Err(error) => error,
    };
    Some(UnusableFile::Directory(path.into(), source))
}

fn check_file(flag: &'static str, path: &str) -> Option<UnusableFile> {
    if path.is_empty() {
        return None;
    }
    // Opening a pipe blocks until its other end is open, so only regular files are opened.
    let source = match fs::metadata(path) {
        Ok(found) if found.is_dir() => io::ErrorKind::IsADirectory.into(),
        Ok(found) if found.is_file() => File::open(path).err()?,
        Ok(_) => return None,
        Err(error) => error,
    };
    Some(UnusableFile::File { flag, path: path.into(), source })
}
