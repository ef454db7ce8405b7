//! The file store, for candidates on one machine: a record in a local directory, and inotify.
//!
//! Touches the runtime's blocking threads and inotify. It turns the record election's requests into
//! calls of `record_file.rs` and decides nothing. Start with [`FileStore`].

mod record_file;
mod record_json;

use crate::config::ElectionName;
use crate::process::blocking::run_blocking;
use crate::process::clock::Clock;
use crate::store::{Store, StoreError};
use baton_election::record::RecordElection;
use baton_election::record::messages::{Intent, RecordEvent, RecordRequest};
use record_file::{RecordFile, RecordFileError, ReplaceOutcome};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;

/// An election held in a local directory.
#[derive(Debug)]
pub struct FileStore {
    record: Arc<RecordFile>,
    call_timeout: Duration,
    retry_period: Duration,
    watch: RefCell<Option<FolderWatch>>,
    /// The folder that is being watched, if any.
    watched_folder: Cell<Option<FolderId>>,
    should_watch: Cell<bool>,
    /// The watch must be opened, closed, or reopened.
    watch_changed: Notify,
    has_warned: Cell<bool>,
}

/// Why the file store cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "the file store cannot use {directory:?}: --directory must name a directory on a local file \
     system in which this user may write"
)]
pub struct FileStoreError {
    directory: PathBuf,
    #[source]
    source: RecordFileError,
}

/// An inotify watch of a folder.
#[derive(Debug)]
struct FolderWatch {
    fd: AsyncFd<OwnedFd>,
    folder: FolderId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FolderId {
    device: u64,
    inode: u64,
}

impl FileStore {
    /// Opens the record of `election` in `directory`.
    pub fn open(
        directory: &Path,
        election: &ElectionName,
        call_timeout: Duration,
        retry_period: Duration,
    ) -> Result<Self, FileStoreError> {
        let record = RecordFile::open(directory, election)
            .map_err(|source| FileStoreError { directory: directory.to_owned(), source })?;
        Ok(Self::of(record, call_timeout, retry_period))
    }

    /// The record of `election` in `directory`, for a process that only reads. Touches nothing.
    pub fn for_reading(
        directory: &Path,
        election: &ElectionName,
        call_timeout: Duration,
        retry_period: Duration,
    ) -> Self {
        Self::of(RecordFile::new(directory, election), call_timeout, retry_period)
    }

    fn of(record: RecordFile, call_timeout: Duration, retry_period: Duration) -> Self {
        Self {
            record: Arc::new(record),
            call_timeout,
            retry_period,
            watch: RefCell::new(None),
            watched_folder: Cell::new(None),
            should_watch: Cell::new(true),
            watch_changed: Notify::new(),
            has_warned: Cell::new(false),
        }
    }

    /// Runs `work` on a blocking thread.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&RecordFile) -> Result<T, RecordFileError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let record = Arc::clone(&self.record);
        run_blocking("access to the record file", move || work(&record))
            .await
            .map_err(StoreError::from)
    }

    /// Waits until the record has changed, or may have changed unwatched.
    async fn changed(&self) {
        loop {
            // Take it out: a borrow must not be held across an await.
            match self.watch.take() {
                Some(watch) => {
                    let has_changed = tokio::select! {
                        result = watch.record_changed() => result.is_ok(),
                        () = self.watch_changed.notified() => false,
                    };
                    if has_changed {
                        self.watch.replace(Some(watch));
                        return;
                    }
                    self.close(watch);
                }
                None if !self.should_watch.get() => self.watch_changed.notified().await,
                None => match FolderWatch::new(self.record.folder()) {
                    Ok(watch) => {
                        self.watched_folder.set(Some(watch.folder));
                        self.watch.replace(Some(watch));
                        return;
                    }
                    Err(error) => {
                        self.warn_watch_unavailable(&error);
                        tokio::time::sleep(self.retry_period).await;
                    }
                },
            }
        }
    }

    /// Closes a watch on a blocking thread: closing an inotify instance waits for a kernel grace
    /// period, which takes seconds on a busy machine.
    fn close(&self, watch: FolderWatch) {
        self.watched_folder.set(None);
        drop(spawn_blocking(move || drop(watch)));
    }

    /// Turns the watch on or off. A leader needs none, since its next renewal detects any change,
    /// and at its exit it must not wait for the kernel to close one.
    fn set_watching(&self, should_watch: bool) {
        if self.should_watch.replace(should_watch) != should_watch {
            self.watch_changed.notify_one();
        }
    }

    /// Warns once if the folder exists and cannot be watched.
    fn warn_watch_unavailable(&self, error: &io::Error) {
        if error.kind() != io::ErrorKind::NotFound && !self.has_warned.replace(true) {
            let (location, sysctl) = (self.location(), "fs.inotify.max_user_instances");
            tracing::warn!(
                "cannot watch {location}, so changes are noticed only by the next read (see \
                 {sysctl}): {error}"
            );
        }
    }

    /// Reopens the watch if its path leads to another folder by now: a moved folder keeps its
    /// watch.
    fn check_watch(&self) {
        if self.watched_folder.get().is_some()
            && FolderId::of(self.record.folder()).ok() != self.watched_folder.get()
        {
            self.watch_changed.notify_one();
        }
    }
}

impl Store<RecordElection> for FileStore {
    async fn perform(&self, request: RecordRequest) -> Result<RecordEvent, StoreError> {
        let deadline = Clock.now() + self.call_timeout;
        match request {
            RecordRequest::Read => {
                self.set_watching(true);
                self.check_watch();
                self.blocking(RecordFile::read).await.map(RecordEvent::Read)
            }
            RecordRequest::Write(write) => {
                let is_leading = write.intent != Intent::Release;
                let outcome = self.blocking(move |record| record.replace(&write, deadline)).await?;
                Ok(match outcome {
                    ReplaceOutcome::Applied(snapshot) => {
                        self.set_watching(!is_leading);
                        RecordEvent::Applied(snapshot)
                    }
                    ReplaceOutcome::Conflict => RecordEvent::Conflict,
                })
            }
        }
    }

    async fn next_event(&self) -> RecordEvent {
        loop {
            self.changed().await;
            // No report: without watch events, the machine sends a read, whose error is reported.
            if let Ok(snapshot) = self.blocking(RecordFile::read).await {
                return RecordEvent::WatchEvent(snapshot);
            }
        }
    }

    fn location(&self) -> String {
        self.record.path().display().to_string()
    }
}

impl From<RecordFileError> for StoreError {
    fn from(error: RecordFileError) -> Self {
        match &error {
            RecordFileError::Folder(source) if source.is_refusal() => {
                Self::Refused(Box::new(error))
            }
            RecordFileError::Folder(source) if source.is_permanent() => {
                Self::Unusable(Box::new(error))
            }
            RecordFileError::Foreign { .. } => Self::Unusable(Box::new(error)),
            RecordFileError::Folder(_)
            | RecordFileError::Locked { .. }
            | RecordFileError::OutOfTime { .. }
            | RecordFileError::Moved { .. } => Self::Unreachable(Box::new(error)),
        }
    }
}

impl FolderWatch {
    fn new(path: &Path) -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let folder = FolderId::of(path)?;
        let flags = WatchFlags::MOVED_TO
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF;
        inotify::add_watch(&fd, path, flags | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW)?;
        #[expect(
            deprecated,
            reason = "its replacement is unsafe; an OwnedFd that is not replaced meets its \
                      conditions"
        )]
        let fd = AsyncFd::new(fd)?;
        Ok(Self { fd, folder })
    }

    /// Waits until the record may have changed; fails if the folder was moved or deleted.
    async fn record_changed(&self) -> io::Result<()> {
        loop {
            let mut ready = self.fd.readable().await?;
            match read_events(self.fd.get_ref()) {
                Ok(FolderEvent::Record) => return Ok(()),
                Ok(FolderEvent::Other) => {}
                Ok(FolderEvent::FolderGone) => return Err(io::ErrorKind::NotFound.into()),
                Err(Errno::WOULDBLOCK) => ready.clear_ready(),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl FolderId {
    fn of(path: &Path) -> io::Result<Self> {
        let stat = rustix::fs::lstat(path)?;
        Ok(Self { device: stat.st_dev, inode: stat.st_ino })
    }
}

enum FolderEvent {
    Record,
    Other,
    FolderGone,
}

/// Reads all pending events; several changes count as one.
fn read_events(fd: &OwnedFd) -> Result<FolderEvent, Errno> {
    const GONE: ReadFlags = ReadFlags::DELETE_SELF
        .union(ReadFlags::MOVE_SELF)
        .union(ReadFlags::IGNORED)
        .union(ReadFlags::UNMOUNT);
    let mut buffer = [MaybeUninit::uninit(); 1024];
    let mut reader = inotify::Reader::new(fd, &mut buffer);
    let mut found = FolderEvent::Other;
    loop {
        let event = reader.next()?;
        if event.events().intersects(GONE) {
            return Ok(FolderEvent::FolderGone);
        }
        let is_record = event.file_name().is_some_and(|name| name == c"record");
        // After an overflow, any event may be missing.
        if is_record || event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
            found = FolderEvent::Record;
        }
        if reader.is_buffer_empty() {
            return Ok(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::file::record_file::{RecordFile, RecordFileError};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use tokio::runtime::Builder;

    #[test]
    fn panic_in_a_call_unwinds_its_caller() {
        let directory = tempfile::tempdir().unwrap();
        let election = "orders".parse().unwrap();
        let second = Duration::from_secs(1);
        let store = FileStore::open(directory.path(), &election, second, second).unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let panics = |_: &RecordFile| -> Result<(), RecordFileError> { panic!("a bug") };
        let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(store.blocking(panics))));
        assert!(ended.is_err(), "the panic was reported as {ended:?}");
    }
}
