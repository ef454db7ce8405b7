//! Files that may be damaged: an election's record and the file about the last run.
//!
//! The first byte selects one of the two for the rest.

use baton::config::ElectionName;
use baton::process::last_run::{LastEnd, LastEndError, RunHistory};
use baton::store::Store as _;
use baton::store::file::FileStore;
use baton_election::claim::FencingToken;
use baton_election::identity::Identity;
use baton_election::record::messages::{Intent, RecordEvent, RecordRequest, Snapshot, Write};
use baton_election::timing::{Drift, Durations, Timing};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;

thread_local! {
    static DISK: Disk = Disk::new();
}

/// A directory in memory that holds both files.
struct Disk {
    runtime: Runtime,
    directory: TempDir,
    store: FileStore,
    election: ElectionName,
}

impl Disk {
    fn new() -> Self {
        let memory = Some(Path::new("/dev/shm")).filter(|memory| memory.is_dir());
        let directory = memory
            .map_or_else(tempfile::tempdir, tempfile::tempdir_in)
            .expect("a temporary directory");
        let election: ElectionName = "orders".parse().expect("a name");
        let (call, retry) = (Duration::from_mins(1), Duration::from_secs(2));
        let store = FileStore::open(directory.path(), &election, call, retry)
            .expect("the directory is writable");
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { runtime, directory, store, election }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(self.election.as_str()).join(name)
    }

    fn perform(&self, request: RecordRequest) -> Option<RecordEvent> {
        self.runtime.block_on(self.store.perform(request)).ok()
    }
}

pub(super) fn read(bytes: &[u8]) {
    let Some((kind, content)) = bytes.split_first() else { return };
    DISK.with(|disk| if kind % 2 == 0 { record(disk, content) } else { last_run(disk, content) });
}

/// A valid record is read unchanged and can be replaced by one with a larger token. Anything else
/// stays in place.
fn record(disk: &Disk, content: &[u8]) {
    let path = disk.file("record");
    fs::write(&path, content).expect("the directory is writable");
    let us = Identity::parse("us_1").expect("a valid identity");
    let Some(event) = disk.perform(RecordRequest::Read) else {
        let write = Write::over(None, Intent::Acquire, &us, Duration::from_secs(15));
        assert_eq!(
            disk.perform(RecordRequest::Write(write)),
            None,
            "replaced an unreadable record"
        );
        return assert_eq!(fs::read(&path).ok().as_deref(), Some(content), "the file changed");
    };
    let RecordEvent::Read(Some(seen)) = event else {
        panic!("the file exists, but the read returned {event:?}")
    };
    check_record(&seen, content);
    let write = Write::over(Some(&seen), Intent::Acquire, &us, Duration::from_millis(15_001));
    let Some(RecordEvent::Applied(applied)) = disk.perform(RecordRequest::Write(write)) else {
        assert_eq!(seen.version.number, u128::MAX, "cannot replace a valid record");
        return assert_eq!(fs::read(&path).ok().as_deref(), Some(content), "the file changed");
    };
    assert!(token(&applied) > token(&seen), "{applied:?} is not later than {seen:?}");
    assert_eq!(applied.version.uid, seen.version.uid);
    assert_eq!(
        (applied.record.holder.as_ref(), applied.record.duration),
        (Some(&us), Some(Duration::from_millis(15_001)))
    );
    assert_eq!(
        disk.perform(RecordRequest::Read),
        Some(RecordEvent::Read(Some(applied))),
        "the record changed when read back"
    );
}

fn token(snapshot: &Snapshot) -> FencingToken {
    FencingToken::new(snapshot.version.number)
}

/// Compares a record with the JSON that it was read from.
fn check_record(seen: &Snapshot, content: &[u8]) {
    let json = super::json(content).expect("a record is JSON");
    // serde's derived parser also accepts an array of the fields in order.
    let field = |at: usize, name: &str| if json.is_array() { &json[at] } else { &json[name] };
    assert_eq!(field(0, "format"), "baton.record/1");
    let holder = seen.record.holder.as_ref().map_or("", Identity::as_str);
    assert_eq!(field(1, "holderIdentity"), holder);
    let milliseconds = seen.record.duration.map_or(0, |duration| duration.as_millis());
    assert_eq!(
        field(2, "leaseDurationMs").as_u64().map(u128::from),
        Some(milliseconds),
        "the duration differs"
    );
    assert_eq!(field(3, "acquireTime"), &seen.record.acquired.0);
    assert_eq!(field(4, "renewTime"), &seen.record.renewed.0);
    assert_eq!(field(5, "leaseTransitions"), seen.record.transitions);
    assert_eq!(field(6, "uid"), &*seen.version.uid);
    let version = field(7, "version").as_str().and_then(|version| version.parse().ok());
    assert_eq!(version, Some(seen.version.number));
}

/// Opens the file about the last run. Retries, because a process that another test forks holds the
/// lock until its exec.
fn open(disk: &Disk) -> (RunHistory, Result<Option<LastEnd>, LastEndError>) {
    let mut tries = 0;
    loop {
        match RunHistory::open(Some(disk.directory.path()), &disk.election) {
            Ok(opened) => return opened,
            Err(error) if tries == 1000 => panic!("cannot open the directory: {error:?}"),
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
        tries += 1;
    }
}

/// A process starts with any contents of the file. It waits for at most one lease duration and
/// records its own run.
fn last_run(disk: &Disk, content: &[u8]) {
    fs::write(disk.file("last-run"), content).expect("the directory is writable");
    let (mut first, remembered) = open(disk);
    let is_json = super::json(content).is_some();
    if let Ok(Some(end)) = &remembered {
        assert!(is_json, "read {end:?} from an invalid file");
        // Logs and metrics format the time; that must not panic.
        drop(humantime::format_rfc3339_seconds(end.at).to_string());
    }
    let seconds = Duration::from_secs;
    let durations = Durations {
        lease_duration: seconds(15),
        renew_deadline: seconds(10),
        retry_period: seconds(2),
        answer_validity: seconds(2),
    };
    let timing = Timing::new(durations, Drift::default()).expect("client-go's defaults are valid");
    let damping = first.campaign_delay(&timing);
    assert!(damping <= seconds(15), "the start is delayed by {damping:?}");
    first.begin(None).expect("the directory is usable");
    drop(first);
    let (second, killed) = open(disk);
    let killed = killed.expect("the file is valid").expect("the file exists");
    assert_eq!(killed.code, None, "the first run recorded no exit code");
    assert!(
        second.campaign_delay(&timing) > Duration::ZERO,
        "a run without an exit code ended badly"
    );
}
