//! Records how long each case waits for stores to start.
//!
//! It reads the monotonic clock and identifies cases by their threads. Start with
//! [`while_starting`].

use super::sampler::locked;
use std::cell::Cell;
use std::ptr;
use std::sync::{Mutex, OnceLock};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

static WAITS: Mutex<Vec<Wait>> = Mutex::new(Vec::new());

thread_local! {
    /// The case that this thread works for, if that is another thread.
    static CASE: Cell<Option<ThreadId>> = const { Cell::new(None) };
}

/// A wait of one case for one store.
#[derive(Clone, Copy)]
struct Wait {
    case: ThreadId,
    /// The address of the shared server, if the start belongs to one.
    shared: Option<usize>,
    ended: Instant,
    store: &'static str,
    took: Duration,
}

/// Measures how long a case waits for a store to start, even if the wait fails.
pub(crate) fn while_starting<T>(store: &'static str, wait: impl FnOnce() -> T) -> T {
    let _measured = Start { store, begun: Instant::now() };
    wait()
}

/// Returns a server that cases share. The first case starts it; its waits count for every case that
/// waited at the same time.
pub(crate) fn start_once<T>(shared: &'static OnceLock<T>, start: impl FnOnce() -> T) -> &'static T {
    let (begun, address) = (Instant::now(), ptr::from_ref(shared).addr());
    let started = shared.get_or_init(|| {
        let _sharing = Sharing { address, begun: Instant::now() };
        start()
    });
    let case = this_case();
    let mut waits = locked(&WAITS);
    let is_shared =
        |wait: &&Wait| wait.shared == Some(address) && wait.case != case && wait.ended >= begun;
    let own: Vec<Wait> =
        waits.iter().filter(is_shared).map(|wait| Wait { case, shared: None, ..*wait }).collect();
    waits.extend(own);
    started
}

/// The case that this thread works for.
pub(crate) fn this_case() -> ThreadId {
    CASE.get().unwrap_or_else(|| thread::current().id())
}

/// Counts the waits of this thread as waits of the case that started it.
pub(crate) fn work_for(case: ThreadId) {
    CASE.set(Some(case));
}

/// The longest wait of this case that ended since then, and its store.
pub(super) fn slowest(since: Instant) -> Option<(&'static str, Duration)> {
    let waits = locked(&WAITS);
    let own = waits.iter().filter(|wait| wait.case == this_case() && wait.ended >= since);
    own.max_by_key(|wait| wait.took).map(|wait| (wait.store, wait.took))
}

struct Start {
    store: &'static str,
    begun: Instant,
}

impl Drop for Start {
    fn drop(&mut self) {
        let (store, ended, took) = (self.store, Instant::now(), self.begun.elapsed());
        locked(&WAITS).push(Wait { case: this_case(), shared: None, ended, store, took });
    }
}

/// Marks the waits of a shared server's start when the start ends, even if it fails.
struct Sharing {
    address: usize,
    begun: Instant,
}

impl Drop for Sharing {
    fn drop(&mut self) {
        let case = this_case();
        let mut waits = locked(&WAITS);
        for wait in waits.iter_mut().filter(|wait| wait.case == case && wait.ended >= self.begun) {
            wait.shared = Some(self.address);
        }
    }
}
