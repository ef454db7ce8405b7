//! The store of candidates on one machine: a record in a local directory, and inotify for its news.
//!
//! Touches the runtime's blocking threads and inotify. It turns the Lease machine's requests into calls of
//! `record_file.rs`, and decides nothing. A follower that hears every renewal does not poll.

mod record_file;
mod record_json;

use crate::config::ElectionName;
use crate::process::blocking::run_blocking;
use crate::process::clock::Clock;
use crate::store::{Store, StoreError};
use baton_election::record::RecordElection;
use baton_election::record::messages::{Intent, RecordEvent, RecordRequest};
use record_file::{FileError, RecordFile, Replaced};
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

/// An election's record in a local directory.
#[derive(Debug)]
pub struct FileStore {
    record: Arc<RecordFile>,
    call_timeout: Duration,
    retry_period: Duration,
    watch: RefCell<Option<Watch>>,
    /// The folder that is watched, while one is.
    watched: Cell<Option<Folder>>,
    wanted: Cell<bool>,
    /// The watch is to be turned on or off, or another folder has come to stand at its path.
    turned: Notify,
    told_deafness: Cell<bool>,
}

/// Why the file backend cannot begin.
#[derive(Debug, thiserror::Error)]
#[error(
    "the file backend cannot use {directory:?}: --directory must name a directory of a local file system in which this user may write"
)]
pub struct OpenError {
    directory: PathBuf,
    #[source]
    source: FileError,
}

/// An inotify on a folder.
#[derive(Debug)]
struct Watch {
    fd: AsyncFd<OwnedFd>,
    folder: Folder,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Folder {
    device: u64,
    inode: u64,
}

impl FileStore {
    /// The record of `election` in `directory`.
    pub fn open(
        directory: &Path,
        election: &ElectionName,
        call_timeout: Duration,
        retry_period: Duration,
    ) -> Result<Self, OpenError> {
        let record = RecordFile::open(directory, election)
            .map_err(|source| OpenError { directory: directory.to_owned(), source })?;
        Ok(Self {
            record: Arc::new(record),
            call_timeout,
            retry_period,
            watch: RefCell::new(None),
            watched: Cell::new(None),
            wanted: Cell::new(true),
            turned: Notify::new(),
            told_deafness: Cell::new(false),
        })
    }

    /// Runs `work` where it may block.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&RecordFile) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let record = Arc::clone(&self.record);
        run_blocking("a call to the record file", move || work(&record))
            .await
            .map_err(StoreError::from)
    }

    /// Waits until the record has changed, or may have while nobody watched.
    async fn changed(&self) {
        loop {
            // Taken out while it is waited for: a borrow must not be held over an await.
            match self.watch.take() {
                Some(watch) => {
                    let heard = tokio::select! {
                        heard = watch.record_changed() => heard.is_ok(),
                        () = self.turned.notified() => false,
                    };
                    if heard {
                        self.watch.replace(Some(watch));
                        return;
                    }
                    self.close(watch);
                }
                None if !self.wanted.get() => self.turned.notified().await,
                None => match Watch::new(self.record.folder()) {
                    Ok(watch) => {
                        self.watched.set(Some(watch.folder));
                        self.watch.replace(Some(watch));
                        return;
                    }
                    Err(error) => {
                        self.tell_deafness(&error);
                        tokio::time::sleep(self.retry_period).await;
                    }
                },
            }
        }
    }

    /// Closes a watch where it may block: the kernel lets whoever closes an inotify wait for a grace period of the whole
    /// machine, seconds on a busy one.
    fn close(&self, watch: Watch) {
        self.watched.set(None);
        drop(spawn_blocking(move || drop(watch)));
    }

    /// Turns the watch on or off. A leader needs none, since its next renewal meets whatever has happened, and one that
    /// ends must not wait for the kernel to close it.
    fn want_news(&self, wanted: bool) {
        if self.wanted.replace(wanted) != wanted {
            self.turned.notify_one();
        }
    }

    /// Says once why news come late, unless the folder is just away.
    fn tell_deafness(&self, error: &io::Error) {
        if error.kind() != io::ErrorKind::NotFound && !self.told_deafness.replace(true) {
            let (place, sysctl) = (self.place(), "fs.inotify.max_user_instances");
            tracing::warn!(
                "cannot watch {place}, so changes are seen at the next read only (see {sysctl}): {error}"
            );
        }
    }

    /// A folder that was moved away takes its watch with it: whoever reads looks whether that has happened.
    fn check_watch(&self) {
        if self.watched.get().is_some()
            && Folder::at(self.record.folder()).ok() != self.watched.get()
        {
            self.turned.notify_one();
        }
    }
}

impl Store<RecordElection> for FileStore {
    async fn perform(&self, request: RecordRequest) -> Result<RecordEvent, StoreError> {
        let until = Clock.now() + self.call_timeout;
        match request {
            RecordRequest::Read => {
                self.want_news(true);
                self.check_watch();
                self.blocking(RecordFile::read).await.map(RecordEvent::Read)
            }
            RecordRequest::Write(write) => {
                let leads = write.intent != Intent::Release;
                let replaced = self.blocking(move |record| record.replace(&write, until)).await?;
                Ok(match replaced {
                    Replaced::Applied(snapshot) => {
                        self.want_news(!leads);
                        RecordEvent::Applied(snapshot)
                    }
                    Replaced::Conflict => RecordEvent::Conflict,
                })
            }
        }
    }

    async fn next_event(&self) -> RecordEvent {
        loop {
            self.changed().await;
            // What cannot be read here is found, and told, by the read that follows on silence.
            if let Ok(snapshot) = self.blocking(RecordFile::read).await {
                return RecordEvent::WatchEvent(snapshot);
            }
        }
    }

    fn place(&self) -> String {
        self.record.path().display().to_string()
    }
}

impl From<FileError> for StoreError {
    fn from(error: FileError) -> Self {
        match &error {
            FileError::Folder(source) if source.is_refusal() => Self::Refused(Box::new(error)),
            FileError::Folder(source) if source.is_unfit() => Self::Unusable(Box::new(error)),
            FileError::Foreign { .. } => Self::Unusable(Box::new(error)),
            FileError::Folder(_)
            | FileError::Locked { .. }
            | FileError::OutOfTime { .. }
            | FileError::Moved { .. } => Self::Unreachable(Box::new(error)),
        }
    }
}

impl Watch {
    fn new(path: &Path) -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let folder = Folder::at(path)?;
        let flags = WatchFlags::MOVED_TO
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF;
        inotify::add_watch(&fd, path, flags | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW)?;
        #[expect(
            deprecated,
            reason = "what replaces it is unsafe; an OwnedFd that stays where it is upholds its terms"
        )]
        let fd = AsyncFd::new(fd)?;
        Ok(Self { fd, folder })
    }

    /// Waits until something became of the record; an error when the folder went away.
    async fn record_changed(&self) -> io::Result<()> {
        loop {
            let mut ready = self.fd.readable().await?;
            match read_events(self.fd.get_ref()) {
                Ok(Heard::Record) => return Ok(()),
                Ok(Heard::Other) => {}
                Ok(Heard::FolderGone) => return Err(io::ErrorKind::NotFound.into()),
                Err(Errno::WOULDBLOCK) => ready.clear_ready(),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Folder {
    fn at(path: &Path) -> io::Result<Self> {
        let there = rustix::fs::lstat(path)?;
        Ok(Self { device: there.st_dev, inode: there.st_ino })
    }
}

enum Heard {
    Record,
    Other,
    FolderGone,
}

/// Reads what has come, to the last event: a burst is one change.
fn read_events(fd: &OwnedFd) -> Result<Heard, Errno> {
    const GONE: ReadFlags = ReadFlags::DELETE_SELF
        .union(ReadFlags::MOVE_SELF)
        .union(ReadFlags::IGNORED)
        .union(ReadFlags::UNMOUNT);
    let mut buffer = [MaybeUninit::uninit(); 1024];
    let mut reader = inotify::Reader::new(fd, &mut buffer);
    let mut heard = Heard::Other;
    loop {
        let event = reader.next()?;
        if event.events().intersects(GONE) {
            return Ok(Heard::FolderGone);
        }
        let is_record = event.file_name().is_some_and(|name| name == c"record");
        // A queue that ran over may have swallowed anything.
        if is_record || event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
            heard = Heard::Record;
        }
        if reader.is_buffer_empty() {
            return Ok(heard);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::file::record_file::{FileError, RecordFile};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use tokio::runtime::Builder;

    #[test]
    fn a_panic_of_a_call_is_no_answer_of_the_store() {
        let directory = tempfile::tempdir().unwrap();
        let election = "orders".parse().unwrap();
        let second = Duration::from_secs(1);
        let store = FileStore::open(directory.path(), &election, second, second).unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let panics = |_: &RecordFile| -> Result<(), FileError> { panic!("a fault of ours") };
        let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(store.blocking(panics))));
        assert!(ended.is_err(), "it was told as {ended:?}");
    }
}
