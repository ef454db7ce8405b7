//! Shared by all tests that observe candidates: one clock, a journal of events, and a checker.
//!
//! A test crate includes it with `#[path]`. It starts no process and sends no request. Start with
//! [`Journal`], which records events, and [`check`], which checks them.

mod checker;
mod clock;
mod journal;
mod reply;
mod timing;

pub(crate) use checker::{Answer, History, Outcome, Property, Silence, check};
pub(crate) use clock::{Moment, eventually, succeeds, throughout, wait_for};
pub(crate) use journal::Journal;
pub(crate) use reply::Reply;
use std::sync::{Mutex, MutexGuard, PoisonError};
pub(crate) use timing::Timing;

/// Locks even a mutex that a panicking thread has poisoned: the timeline is printed after a
/// failure.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
