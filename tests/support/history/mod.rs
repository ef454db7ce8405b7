//! What every test that watches candidates shares: one clock, all that was heard, and the judgement over it.
//!
//! A test crate takes it in with `#[path]`. It starts nothing and asks nobody: start with [`Journal`], which
//! keeps what happened, and [`judge`], which says what of it must not be.

mod clock;
mod history;
mod journal;
mod reply;
mod timing;

pub(crate) use clock::{Moment, eventually, succeeds, throughout, wait_for};
pub(crate) use history::{Answer, Heard, History, Rule, Silence, judge};
pub(crate) use journal::Journal;
pub(crate) use reply::Reply;
use std::sync::{Mutex, MutexGuard, PoisonError};
pub(crate) use timing::Timing;

/// Locks also what a panicking thread has left locked: the story of a failure is told after it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
