//! How the driver itself is: what probes ask about, as opposed to how the election stands.
//!
//! Touches a mutex, a notice of changes, and the wall clock's readings. A store that is away is no ill health; a driver that does not come
//! round is.

use crate::process::clock::Clock;
use baton_election::instant::Instant;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::Notify;

/// A shared record of the driver's life.
#[derive(Debug, Clone)]
pub struct Health {
    signs: Arc<Mutex<Signs>>,
    change: Arc<Notify>,
}

#[derive(Debug)]
struct Signs {
    /// When the driver turns at the latest, if anything is due.
    turn_due: Option<Instant>,
    last_contact: Option<SystemTime>,
    is_admitted: bool,
    last_change: SystemTime,
}

impl Default for Health {
    fn default() -> Self {
        let signs = Signs {
            turn_due: None,
            last_contact: None,
            is_admitted: false,
            last_change: Clock.wall(),
        };
        Self { signs: Arc::new(Mutex::new(signs)), change: Arc::new(Notify::new()) }
    }
}

impl Health {
    /// How long a driver may be late before it counts as stuck: longer than a starved machine delays a timer.
    const GRACE: Duration = Duration::from_secs(10);

    /// The driver sleeps until `wake`, or until a call in flight is over at `call_ends`. Without
    /// either nothing is due: a candidate that released waits for an order, however long that
    /// takes.
    pub(super) fn will_turn_by(&self, wake: Option<Instant>, call_ends: Option<Instant>) {
        self.signs().turn_due = wake.max(call_ends);
    }

    /// The store answered.
    pub(super) fn heard(&self) {
        self.signs().last_contact = Some(Clock.wall());
    }

    /// Whether the store lets us take part, as far as it has shown.
    pub(super) fn admit(&self, is_admitted: bool) {
        self.signs().is_admitted = is_admitted;
    }

    /// The standing changed.
    pub(super) fn changed(&self) {
        self.signs().last_change = Clock.wall();
        self.change.notify_one();
    }

    /// Waits for a change of standing, or finds that there was one since the last call. For one waiter.
    pub async fn next_change(&self) {
        self.change.notified().await;
    }

    /// Whether the driver comes round in time.
    pub fn is_turning(&self, now: Instant) -> bool {
        self.signs().turn_due.is_none_or(|due| now.since(due) < Self::GRACE)
    }

    /// When the store last answered, by the wall clock.
    pub fn last_contact(&self) -> Option<SystemTime> {
        self.signs().last_contact
    }

    /// Whether the store has let us take part, and has refused us no write since then that it never
    /// took.
    pub fn is_admitted(&self) -> bool {
        self.signs().is_admitted
    }

    /// When the standing last changed, by the wall clock.
    pub fn last_change(&self) -> SystemTime {
        self.signs().last_change
    }

    fn signs(&self) -> MutexGuard<'_, Signs> {
        self.signs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::since_boot(Duration::from_secs(seconds))
    }

    #[test]
    fn driver_without_a_timer_is_never_late() {
        let health = Health::default();
        health.will_turn_by(Some(at(1)), None);
        assert!(health.is_turning(at(10)) && !health.is_turning(at(11)), "a timer was due at 1 s");
        health.will_turn_by(None, None);
        assert!(health.is_turning(at(1_000_000)));
    }

    #[test]
    fn driver_with_a_call_in_flight_is_late_after_its_timeout() {
        let health = Health::default();
        for wake in [None, Some(at(1))] {
            health.will_turn_by(wake, Some(at(3)));
            assert!(health.is_turning(at(12)) && !health.is_turning(at(13)), "woken at {wake:?}");
        }
    }
}
