//! The file store as a bystander sees it, and the timing of the candidates in it.

use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// client-go's three durations, and how long an answer is good.
#[derive(Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) lease_duration: Duration,
    pub(crate) renew_deadline: Duration,
    pub(crate) retry_period: Duration,
    pub(crate) answer_validity: Duration,
}

impl Timing {
    /// For tests that wait for leases to run out.
    pub(crate) const FAST: Self = Self::of_ms(1500, 1000, 200, 200);
    /// For tests in which nothing may run out, however busy the machine is.
    pub(crate) const CALM: Self = Self::of_ms(4000, 3000, 500, 500);
    /// For tests of the release: nobody would hear of it so soon by looking once a retry period.
    pub(crate) const SLOW: Self = Self::of_ms(8000, 6000, 2000, 1000);

    pub(crate) const fn of_ms(lease: u64, renew: u64, retry: u64, validity: u64) -> Self {
        Self {
            lease_duration: Duration::from_millis(lease),
            renew_deadline: Duration::from_millis(renew),
            retry_period: Duration::from_millis(retry),
            answer_validity: Duration::from_millis(validity),
        }
    }

    /// How long the election may be without a leader after a crash: README, "What is promised", with the default drift.
    pub(crate) fn takeover(self) -> Duration {
        self.lease_duration.mul_f64(1.1) + 2 * self.retry_period
    }
}

/// A directory of elections.
pub(crate) struct Store {
    directory: PathBuf,
}

impl Store {
    pub(crate) fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn record_path(&self, election: &str) -> PathBuf {
        self.directory.join(election).join("record")
    }

    /// The record, if there is one; a torn one is a fault.
    pub(crate) fn record(&self, election: &str) -> Option<Value> {
        let text = fs::read(self.record_path(election)).ok()?;
        Some(serde_json::from_slice(&text).expect("a record is one JSON object"))
    }

    /// The identity in the record; empty when it was released or is not there.
    pub(crate) fn holder(&self, election: &str) -> String {
        let record = self.record(election).unwrap_or_default();
        record["holderIdentity"].as_str().unwrap_or_default().to_owned()
    }

    /// Puts something else in the record's place, between two writes of the candidates.
    pub(crate) fn spoil(&self, election: &str, content: &[u8]) {
        let lock = File::open(self.directory.join(election).join("lock")).expect("a candidate has made it");
        lock.lock().expect("the candidates hold it for a moment only");
        let spoilt = self.directory.join("spoilt");
        fs::write(&spoilt, content).expect("the store is ours");
        fs::rename(&spoilt, self.record_path(election)).expect("the store is ours");
    }

    /// The process that is inside the lock of an election, without touching the lock.
    pub(crate) fn inside_lock(&self, election: &str) -> Option<u32> {
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
        let entries = fs::read_dir(self.directory.join(election)).expect("the election has a folder");
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}
