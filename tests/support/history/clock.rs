//! The rig's only clock, and waiting on it.
//!
//! `CLOCK_BOOTTIME`, read apart from the sidecar's own code: what judges a clock must not be that clock.
//! The sleeps between two looks are the only sleeps of the process tests.

use rustix::time::{ClockId, clock_gettime};
use std::fmt;
use std::ops::Add;
use std::thread;
use std::time::Duration;

/// A moment on the rig's clock, told as the time since the rig was made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Duration);

impl Moment {
    pub(crate) const fn from_ms(ms: u64) -> Self {
        Self(Duration::from_millis(ms))
    }

    /// The time from `earlier` to this moment; zero when `earlier` is the later one.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0 + duration)
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.4}", self.0.as_secs_f64())
    }
}

const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

#[derive(Clone, Copy)]
pub(crate) struct Clock {
    origin: Duration,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { origin: since_boot() }
    }

    pub(crate) fn now(self) -> Moment {
        Moment(since_boot().saturating_sub(self.origin))
    }

    /// The moment at which another process told this time since boot.
    pub(crate) fn moment(self, since_boot: Duration) -> Moment {
        Moment(since_boot.saturating_sub(self.origin))
    }
}

/// Looks until there is something to return, and panics where there is nothing `within` the bound.
#[track_caller]
pub(crate) fn wait_for<T>(within: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    succeeds(within, what, || look().ok_or(""))
}

/// Tries until it succeeds, and panics with what it was told last where it does not `within` the bound.
#[track_caller]
pub(crate) fn succeeds<T, E: fmt::Display>(
    within: Duration,
    what: &str,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> T {
    let until = since_boot() + within;
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(why) => assert!(
                since_boot() < until,
                "this did not come true within {within:?}: {what}\n{why}"
            ),
        }
        thread::sleep(BETWEEN_LOOKS);
    }
}

/// Looks until something holds, and panics where it does not `within` the bound.
#[track_caller]
pub(crate) fn eventually(within: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(within, what, || holds().then_some(()));
}

/// Looks for the whole `span`, and panics where something does not hold.
#[track_caller]
pub(crate) fn throughout(span: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let until = since_boot() + span;
    while let Some(left) = until.checked_sub(since_boot()) {
        assert!(holds(), "{left:?} before the end of {span:?} this held no more: {what}");
        thread::sleep(BETWEEN_LOOKS);
    }
}

fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let seconds =
        u64::try_from(time.tv_sec).expect("a clock that starts at boot is never negative");
    let nanos = u32::try_from(time.tv_nsec).expect("nanoseconds stay below one second");
    Duration::new(seconds, nanos)
}
