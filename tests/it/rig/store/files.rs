//! A directory of elections, and what tests do to its files.

use super::{Store, Timing};
use crate::rig::{NOISE, folder_in_memory};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

pub(crate) struct Files {
    directory: PathBuf,
    _parent: Option<TempDir>,
}

impl Files {
    /// A new store in a folder on a disk.
    pub(crate) fn on_disk() -> Self {
        Self::within(TempDir::with_prefix("baton-").expect("temporary folders can be made"))
    }

    /// The store in this directory.
    pub(crate) fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), _parent: None }
    }

    fn within(folder: TempDir) -> Self {
        let directory = folder.path().join("store");
        fs::create_dir(&directory).expect("the folder is new");
        Self { directory, _parent: Some(folder) }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn record_path(&self, election: &str) -> PathBuf {
        self.directory.join(election).join("record")
    }

    /// Replaces the record between two writes of the candidates.
    pub(crate) fn corrupt(&self, election: &str, content: &[u8]) {
        let _blocked = self.block(election);
        let corrupted = self.directory.join("corrupted");
        fs::write(&corrupted, content).expect("the store is ours");
        fs::rename(&corrupted, self.record_path(election)).expect("the store is ours");
    }

    /// Blocks every write of an election until the result is dropped.
    pub(crate) fn block(&self, election: &str) -> File {
        let lock = File::open(self.directory.join(election).join("lock"))
            .expect("a candidate has created it");
        lock.lock().expect("candidates hold it for a moment only");
        lock
    }

    /// The process that holds the lock of an election, found without touching the lock.
    pub(crate) fn lock_holder(&self, election: &str) -> Option<u32> {
        let inode = fs::metadata(self.directory.join(election).join("lock")).ok()?.ino();
        let locks = fs::read_to_string("/proc/locks").expect("Linux lists its locks");
        // 7: FLOCK  ADVISORY  WRITE 4711 fe:00:131078 0 EOF
        locks.lines().find_map(|lock| {
            let mut fields = lock.split_whitespace().skip(1);
            let (kind, pid, file) = (fields.next()?, fields.nth(2)?, fields.next()?);
            let found = kind == "FLOCK" && file.rsplit(':').next()?.parse() == Ok(inode);
            if found { pid.parse().ok() } else { None }
        })
    }

    /// The names of all files of an election.
    pub(crate) fn files(&self, election: &str) -> Vec<String> {
        let entries =
            fs::read_dir(self.directory.join(election)).expect("the election has a folder");
        let mut names: Vec<String> = entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Store for Files {
    const FAST: Timing = Timing::of_ms(1500, 1000, 200, 200);
    const CALM: Timing = Timing::of_ms(4000, 3000, 500, 500);
    const SLOW: Timing = Timing::of_ms(8000, 6000, 2000, 1000);
    const NOISE: Duration = NOISE;

    fn fresh() -> Self {
        Self::within(folder_in_memory())
    }

    fn flags(&self) -> BTreeMap<&'static str, String> {
        let directory = self.directory.to_str().expect("the paths of the rig are UTF-8");
        BTreeMap::from([("--backend", "file".to_owned()), ("--directory", directory.to_owned())])
    }

    fn holder(&self, election: &str) -> String {
        let Ok(text) = fs::read(self.record_path(election)) else { return String::new() };
        let record: Value = serde_json::from_slice(&text).expect("a record is one JSON object");
        record["holderIdentity"].as_str().unwrap_or_default().to_owned()
    }

    fn written(&self, election: &str) -> SystemTime {
        let record = self.record_path(election).metadata();
        record.and_then(|record| record.modified()).expect("the record is there")
    }

    fn remove(&self, election: &str) {
        fs::remove_file(self.record_path(election)).expect("the record is there");
    }
}
