//! How the last run ended, and what that asks of this one.
//!
//! Touches one small file in the state directory, which outlives a restart of the process but not its Pod (an
//! emptyDir). Start with [`Lifecycle::open`]. The file says "running" until an end is written over it, so a process
//! that was killed is remembered too.
//!
//! * The nth bad end within ten minutes delays campaigning by 2ⁿ retry periods, at most one lease duration: kubelet
//!   has no back-off for `RestartAllContainers` (151 restarts in 213 s were measured).
//! * A process whose predecessor here led and ended with 0 exits with 75 once, also where it cannot begin: its container
//!   alone was replaced, and the application beside it, which may rely on being restarted when leadership goes, was not.

use crate::config::{ElectionName, OnLost};
use crate::error_chain::ErrorChain;
use crate::process::clock::Clock;
use crate::process::exit::Exit;
use crate::process::private_folder::{Exposure, FolderError, PrivateFolder};
use baton_election::instant::Instant;
use baton_election::machine::Reason;
use baton_election::timing::Timing;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const LAST_RUN: &str = "last-run";
const DRAFT: &str = "last-run.tmp";
const LOCK: &str = "lock";

/// How long a bad end is held against the ones after it.
const MEMORY: Duration = Duration::from_mins(10);
/// More bad ends than this change nothing: the delay has long reached its bound.
const MOST_REMEMBERED: usize = 16;

/// The last moment that RFC 3339 can write, since 1970.
const LAST_SECOND: Duration = Duration::from_secs(253_402_300_799);

/// Why a run ends with 75 before it has begun.
pub const LEFT_BEHIND: &str = "the run before this one led and stopped cleanly, but its application is still here: exiting once to have it moved";

/// The memory of this sidecar's runs.
#[derive(Debug)]
pub struct Lifecycle {
    place: Option<Place>,
    boot_id: String,
    bad_ends: Vec<Duration>,
}

/// A folder that no other process uses.
#[derive(Debug)]
struct Place {
    folder: PrivateFolder,
    /// Held while the process lives.
    _lock: File,
}

/// How the run before this one ended.
#[derive(Debug, Clone)]
pub struct LastEnd {
    /// Why.
    pub reason: Reason,
    /// With which exit code; `None` if it was killed.
    pub code: Option<u8>,
    /// When, by the wall clock; of a killed process only its start is known.
    pub at: SystemTime,
    /// Whether it was leading when it ended, or before a clean stop.
    led: bool,
    same_boot: bool,
}

/// Why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {}: --state-directory must name a directory of this one sidecar's own, in which its user may write", path.display())]
pub struct LifecycleError {
    path: PathBuf,
    source: FolderError,
}

/// What a damaged file costs: the memory, and nothing else.
#[derive(Debug, thiserror::Error)]
pub enum Forgotten {
    /// It cannot be read.
    #[error("the end of the last run is forgotten")]
    Unreadable(#[source] FolderError),
    /// It is not what we wrote.
    #[error("{} is damaged, so how the last run ended is forgotten", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// The file. An instant means nothing without the boot that it counts from.
#[derive(Debug, Serialize, Deserialize)]
struct Page {
    boot_id: String,
    /// Bad ends since that boot.
    bad_ends: Vec<Duration>,
    wall: SystemTime,
    /// How the run ended; absent while it runs.
    end: Option<End>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct End {
    reason: String,
    code: u8,
    led: bool,
}

impl Lifecycle {
    /// Opens the memory in `directory`, if there is one, and reads how the last run ended. It
    /// writes nothing: an application that was left behind is remembered until its move is noted.
    pub fn open(
        directory: Option<&Path>,
        election: &ElectionName,
    ) -> Result<(Self, Result<Option<LastEnd>, Forgotten>), LifecycleError> {
        let place = directory.map(|directory| Place::open(directory, election)).transpose()?;
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .unwrap_or_default()
            .trim()
            .to_owned();
        let page = place.as_ref().map_or(Ok(None), |place| read(&place.folder));
        let mut this = Self { place, boot_id, bad_ends: Vec::new() };
        let last = page.map(|page| page.map(|page| this.remember(page)));
        Ok((this, last))
    }

    /// Notes that this run has begun.
    pub fn begin(&self) -> Result<(), LifecycleError> {
        self.write(None)
    }

    /// How long to wait before trying to lead.
    pub fn damping(&self, timing: &Timing) -> Duration {
        let bad = u32::try_from(self.bad_ends.len()).unwrap_or(u32::MAX);
        let factor = if bad == 0 { 0 } else { 2_u32.checked_pow(bad).unwrap_or(u32::MAX) };
        timing.retry_period().saturating_mul(factor).min(timing.lease_duration())
    }

    /// The exit code of a run that cannot begin: the application that its predecessor left behind is moved all the same.
    pub fn refuse(directory: Option<&Path>, election: &ElectionName, on_lost: OnLost) -> Exit {
        // A memory that cannot be used remembers no application.
        let Ok((this, last)) = Self::open(directory, election) else { return Exit::Usage };
        let left_behind =
            last.ok().flatten().is_some_and(|last| last.left_application_behind(on_lost));
        let (exit, noted) = if left_behind {
            tracing::warn!(event = "previous_end", "{LEFT_BEHIND}");
            (Exit::Lost, this.end_to_move())
        } else {
            (Exit::Usage, this.end(Exit::Usage, Reason::Fault, false))
        };
        if let Err(error) = noted {
            tracing::warn!("{}", ErrorChain(&error));
        }
        exit
    }

    /// Notes how this run ends.
    pub fn end(mut self, exit: Exit, reason: Reason, led: bool) -> Result<(), LifecycleError> {
        if exit != Exit::Clean {
            self.note_bad_end(Clock.now());
        }
        self.write(Some(End { reason: reason.as_str().to_owned(), code: exit.code(), led }))
    }

    /// Notes that this run ends at once, to have the application moved: no fault, and not to be
    /// repeated. If a full disk has no room for the note, this removes the memory.
    pub fn end_to_move(self) -> Result<(), LifecycleError> {
        let end = End {
            reason: Reason::Shutdown.as_str().to_owned(),
            code: Exit::Lost.code(),
            led: false,
        };
        let Err(error) = self.write(Some(end)) else { return Ok(()) };
        let Some(place) = &self.place else { return Err(error) };
        place.folder.remove(LAST_RUN).map_err(|source| LifecycleError { source, ..error })
    }

    fn remember(&mut self, page: Page) -> LastEnd {
        let same_boot = page.boot_id == self.boot_id;
        if same_boot {
            self.bad_ends = page.bad_ends;
        }
        let last = match page.end {
            Some(end) => LastEnd {
                reason: Reason::parse(&end.reason).unwrap_or(Reason::Fault),
                code: Some(end.code),
                at: page.wall,
                led: end.led,
                same_boot,
            },
            None => {
                LastEnd { reason: Reason::Fault, code: None, at: page.wall, led: false, same_boot }
            }
        };
        // A killed process wrote no end; it ended some time before now.
        if last.code.is_none() && same_boot {
            self.note_bad_end(Clock.now());
        }
        self.forget_old_ends(Clock.now());
        last
    }

    fn note_bad_end(&mut self, now: Instant) {
        self.bad_ends.push(now.elapsed_since_boot());
        self.forget_old_ends(now);
    }

    fn forget_old_ends(&mut self, now: Instant) {
        let now = now.elapsed_since_boot();
        self.bad_ends.retain(|end| *end <= now && now.saturating_sub(*end) < MEMORY);
        let surplus = self.bad_ends.len().saturating_sub(MOST_REMEMBERED);
        self.bad_ends.drain(..surplus);
    }

    fn write(&self, end: Option<End>) -> Result<(), LifecycleError> {
        let Some(place) = &self.place else {
            return Ok(());
        };
        let page = Page {
            boot_id: self.boot_id.clone(),
            bad_ends: self.bad_ends.clone(),
            wall: Clock.wall(),
            end,
        };
        let text = serde_json::to_vec(&page).expect("a page of texts and numbers is JSON");
        let path = || place.folder.path().join(LAST_RUN);
        replace(&place.folder, &text).map_err(|source| LifecycleError { path: path(), source })
    }
}

impl Place {
    /// Makes the folder, and locks it against a second sidecar: each would take the other's ends
    /// for its own.
    fn open(directory: &Path, election: &ElectionName) -> Result<Self, LifecycleError> {
        let path = directory.join(election.as_str());
        let opened = || {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
            made.map_err(FolderError::io("make the directory", directory))?;
            match Exposure::of(directory)? {
                Some(exposure @ (Exposure::Owner { .. } | Exposure::Unmapped { .. })) => {
                    tracing::warn!("the memory of the last run can be replaced, since {exposure}");
                }
                // As an emptyDir of Kubernetes is.
                Some(Exposure::Writable { .. }) | None => {}
            }
            let folder = PrivateFolder::make(directory, election.as_str(), |_, _| Ok(()))?;
            let lock = folder.lock_file(LOCK)?;
            lock.try_lock()
                .map_err(io::Error::from)
                .map_err(FolderError::io("lock", &path.join(LOCK)))?;
            Ok(Self { folder, _lock: lock })
        };
        opened().map_err(|source| LifecycleError { path: path.clone(), source })
    }
}

impl LastEnd {
    /// Whether the application beside us was left where it is though the sidecar that led it is gone.
    pub fn left_application_behind(&self, on_lost: OnLost) -> bool {
        match on_lost {
            OnLost::Exit => self.same_boot && self.led && self.code == Some(Exit::Clean.code()),
            // Its application asks, and needs no move.
            OnLost::Stay => false,
        }
    }
}

fn read(folder: &PrivateFolder) -> Result<Option<Page>, Forgotten> {
    let Some(text) = folder.read(LAST_RUN).map_err(Forgotten::Unreadable)? else {
        return Ok(None);
    };
    let damaged = |source| Forgotten::Damaged { path: folder.path().join(LAST_RUN), source };
    let page: Page = serde_json::from_slice(&text).map_err(damaged)?;
    if page.wall > UNIX_EPOCH + LAST_SECOND {
        return Err(damaged(serde::de::Error::custom("its time is beyond the year 9999")));
    }
    Ok(Some(page))
}

/// Replaces the file by a rename, so that a kill in between leaves the old page or the new one.
fn replace(folder: &PrivateFolder, text: &[u8]) -> Result<(), FolderError> {
    // A killed process may have left a draft: no other process writes here.
    folder.remove(DRAFT)?;
    let written = folder.create_new(DRAFT)?.write_all(text);
    if let Err(error) = written {
        // A full disk needs its room.
        folder.remove(DRAFT).ok();
        return Err(FolderError::io("write", &folder.path().join(DRAFT))(error));
    }
    folder.rename(DRAFT, LAST_RUN)
}
