//! The driver's health, for the probes.
//!
//! Touches a mutex and the wall clock. Start with [`Health`]. An unreachable store does not make
//! the driver unhealthy; a stalled election loop does.

use crate::process::clock::Clock;
use baton_election::instant::Instant;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::Notify;

/// The driver's health. Clones share it.
#[derive(Debug, Clone)]
pub struct Health {
    state: Arc<Mutex<HealthState>>,
    change: Arc<Notify>,
}

#[derive(Debug)]
struct HealthState {
    /// When the election loop must turn at the latest, if anything is due.
    turn_due: Option<Instant>,
    last_contact: Option<SystemTime>,
    is_admitted: bool,
    last_change: SystemTime,
    standing_since: SystemTime,
}

impl Default for Health {
    fn default() -> Self {
        let state = HealthState {
            turn_due: None,
            last_contact: None,
            is_admitted: false,
            last_change: Clock.wall(),
            standing_since: Clock.wall(),
        };
        Self { state: Arc::new(Mutex::new(state)), change: Arc::new(Notify::new()) }
    }
}

impl Health {
    /// How late the election loop may be before it counts as stalled: longer than an overloaded
    /// machine delays a timer.
    const STALL_TIMEOUT: Duration = Duration::from_secs(10);

    /// Records that the driver must turn again by the later of `wake` and `call_ends`, the timeout
    /// of the call in flight. Without either, nothing is due: a candidate that has released waits
    /// for an order.
    pub(super) fn expect_turn_by(&self, wake: Option<Instant>, call_ends: Option<Instant>) {
        self.state().turn_due = wake.max(call_ends);
    }

    /// Records that the store answered.
    pub(super) fn record_contact(&self) {
        self.state().last_contact = Some(Clock.wall());
    }

    /// Records whether the store grants this candidate the rights to take part.
    pub(super) fn set_admitted(&self, is_admitted: bool) {
        self.state().is_admitted = is_admitted;
    }

    /// Records that the standing changed.
    pub(super) fn record_change(&self) {
        self.state().last_change = Clock.wall();
        self.change.notify_one();
    }

    /// Records that another standing or leader is published.
    pub(super) fn record_standing(&self) {
        self.state().standing_since = Clock.wall();
    }

    /// The wall-clock time since which this standing and leader are published.
    pub fn standing_since(&self) -> SystemTime {
        self.state().standing_since
    }

    /// Waits for a change of standing. Returns at once if there was one since the last call.
    /// Supports one waiter.
    pub async fn next_change(&self) {
        self.change.notified().await;
    }

    /// Whether the election loop turns in time.
    pub fn is_progressing(&self, now: Instant) -> bool {
        self.state().turn_due.is_none_or(|due| now.since(due) < Self::STALL_TIMEOUT)
    }

    /// The wall-clock time of the store's last answer.
    pub fn last_contact(&self) -> Option<SystemTime> {
        self.state().last_contact
    }

    /// Whether the store grants this candidate the rights to take part, as far as its answers show.
    pub fn is_admitted(&self) -> bool {
        self.state().is_admitted
    }

    /// The wall-clock time of the last change of standing.
    pub fn last_change(&self) -> SystemTime {
        self.state().last_change
    }

    fn state(&self) -> MutexGuard<'_, HealthState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::since_boot(Duration::from_secs(seconds))
    }

    #[test]
    fn driver_without_a_timer_never_stalls() {
        let health = Health::default();
        health.expect_turn_by(Some(at(1)), None);
        assert!(
            health.is_progressing(at(10)) && !health.is_progressing(at(11)),
            "a timer was due at 1 s"
        );
        health.expect_turn_by(None, None);
        assert!(health.is_progressing(at(1_000_000)));
    }

    #[test]
    fn driver_stalls_when_a_call_outlasts_its_timeout() {
        let health = Health::default();
        for wake in [None, Some(at(1))] {
            health.expect_turn_by(wake, Some(at(3)));
            assert!(
                health.is_progressing(at(12)) && !health.is_progressing(at(13)),
                "woken at {wake:?}"
            );
        }
    }
}
