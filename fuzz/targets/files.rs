//! What stands in files that others may have damaged: an election's record, and the memory of the last run.
//!
//! The first byte says which of the two the rest is.

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

/// A directory in memory, with a record and a last run in it.
struct Disk {
    runtime: Runtime,
    directory: TempDir,
    store: FileStore,
    election: ElectionName,
}

impl Disk {
    fn new() -> Self {
        let memory = Some(Path::new("/dev/shm")).filter(|memory| memory.is_dir());
        let directory =
            memory.map_or_else(tempfile::tempdir, tempfile::tempdir_in).expect("a directory");
        let election: ElectionName = "orders".parse().expect("a name");
        let (call, retry) = (Duration::from_mins(1), Duration::from_secs(2));
        let store = FileStore::open(directory.path(), &election, call, retry).expect("it is ours");
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { runtime, directory, store, election }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(self.election.as_str()).join(name)
    }

    fn ask(&self, request: RecordRequest) -> Option<RecordEvent> {
        self.runtime.block_on(self.store.perform(request)).ok()
    }
}

pub(super) fn read(bytes: &[u8]) {
    let Some((kind, content)) = bytes.split_first() else { return };
    DISK.with(|disk| if kind % 2 == 0 { record(disk, content) } else { last_run(disk, content) });
}

/// What is a record is told as it stands there, and replaced by a larger one; anything else stays.
fn record(disk: &Disk, content: &[u8]) {
    let path = disk.file("record");
    fs::write(&path, content).expect("it is ours");
    let us = Identity::parse("us_1").expect("it is short");
    let Some(event) = disk.ask(RecordRequest::Read) else {
        let write = Write::over(None, Intent::Acquire, &us, Duration::from_secs(15));
        assert_eq!(
            disk.ask(RecordRequest::Write(write)),
            None,
            "nobody writes over what he cannot read"
        );
        return assert_eq!(fs::read(&path).ok().as_deref(), Some(content), "it is left as it was");
    };
    let RecordEvent::Read(Some(seen)) = event else {
        panic!("there is a file, and read was {event:?}")
    };
    says(&seen, content);
    let write = Write::over(Some(&seen), Intent::Acquire, &us, Duration::from_millis(15_001));
    let Some(RecordEvent::Applied(applied)) = disk.ask(RecordRequest::Write(write)) else {
        assert_eq!(
            seen.version.number,
            u128::MAX,
            "a record that was read can be replaced by a later one"
        );
        return assert_eq!(fs::read(&path).ok().as_deref(), Some(content), "it is left as it was");
    };
    assert!(token(&applied) > token(&seen), "{applied:?} is no later than {seen:?}");
    assert_eq!(applied.version.uid, seen.version.uid);
    assert_eq!(
        (applied.record.holder.as_ref(), applied.record.duration),
        (Some(&us), Some(Duration::from_millis(15_001)))
    );
    assert_eq!(
        disk.ask(RecordRequest::Read),
        Some(RecordEvent::Read(Some(applied))),
        "it reads back the same"
    );
}

fn token(snapshot: &Snapshot) -> FencingToken {
    FencingToken::new(snapshot.version.number)
}

fn says(seen: &Snapshot, content: &[u8]) {
    let json = super::json(content).expect("a record is JSON");
    // A derived reader takes an array of the fields in their order too.
    let field = |at: usize, name: &str| if json.is_array() { &json[at] } else { &json[name] };
    assert_eq!(field(0, "format"), "baton.record/1");
    let holder = seen.record.holder.as_ref().map_or("", Identity::as_str);
    assert_eq!(field(1, "holderIdentity"), holder);
    let milliseconds = seen.record.duration.map_or(0, |duration| duration.as_millis());
    assert_eq!(
        field(2, "leaseDurationMs").as_u64().map(u128::from),
        Some(milliseconds),
        "waited for is what it says"
    );
    assert_eq!(field(3, "acquireTime"), &seen.record.acquired.0);
    assert_eq!(field(4, "renewTime"), &seen.record.renewed.0);
    assert_eq!(field(5, "leaseTransitions"), seen.record.transitions);
    assert_eq!(field(6, "uid"), &*seen.version.uid);
    let version = field(7, "version").as_str().and_then(|version| version.parse().ok());
    assert_eq!(version, Some(seen.version.number));
}

/// Opens the memory. A process that another test forks holds our lock as well, until it calls exec.
fn open(disk: &Disk) -> (RunHistory, Result<Option<LastEnd>, LastEndError>) {
    let mut tries = 0;
    loop {
        match RunHistory::open(Some(disk.directory.path()), &disk.election) {
            Ok(opened) => return opened,
            Err(error) if tries == 1000 => panic!("the directory is usable: {error:?}"),
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
        tries += 1;
    }
}

/// A process may begin whatever it remembers, waits for no longer than one lease, and remembers itself.
fn last_run(disk: &Disk, content: &[u8]) {
    fs::write(disk.file("last-run"), content).expect("it is ours");
    let (first, remembered) = open(disk);
    let is_page = super::json(content).is_some();
    if let Ok(Some(end)) = &remembered {
        assert!(is_page, "remembered is {end:?}");
        // As it is logged, and exported.
        drop(humantime::format_rfc3339_seconds(end.at).to_string());
    }
    let seconds = Duration::from_secs;
    let durations = Durations {
        lease_duration: seconds(15),
        renew_deadline: seconds(10),
        retry_period: seconds(2),
        answer_validity: seconds(2),
    };
    let timing = Timing::new(durations, Drift::default()).expect("client-go's defaults pass");
    let delay = first.campaign_delay(&timing);
    assert!(delay <= seconds(15), "it waits for {delay:?}");
    first.begin().expect("the directory is usable");
    drop(first);
    let (second, killed) = open(disk);
    let killed = killed.expect("what we wrote can be read").expect("and is there");
    assert_eq!(killed.code, None, "the first one ended without a word");
    assert!(second.campaign_delay(&timing) > Duration::ZERO, "which is a bad end");
}
