//! The rig's clock, and waiting on it.
//!
//! It reads `CLOCK_BOOTTIME` without the sidecar's own code, which it must be able to check. No
//! process test sleeps elsewhere: these functions poll.

use rustix::time::{ClockId, clock_gettime};
use std::fmt;
use std::ops::Add;
use std::thread;
use std::time::Duration;

/// A moment on the rig's clock, as the time since the rig was created.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Duration);

impl Moment {
    pub(crate) const fn from_ms(ms: u64) -> Self {
        Self(Duration::from_millis(ms))
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
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

const POLL: Duration = Duration::from_millis(5);

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

    /// Converts a time since boot, as another process reported it.
    pub(crate) fn moment(self, since_boot: Duration) -> Moment {
        Moment(since_boot.saturating_sub(self.origin))
    }
}

/// Polls until there is a value. Panics if there is none `within` the bound.
#[track_caller]
pub(crate) fn wait_for<T>(within: Duration, what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    succeeds(within, what, || poll().ok_or(""))
}

/// Tries until it succeeds. Panics with the last error if it does not `within` the bound.
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
            Err(error) => assert!(
                since_boot() < until,
                "this did not become true within {within:?}: {what}\n{error}"
            ),
        }
        thread::sleep(POLL);
    }
}

/// Polls until a condition holds. Panics if it does not `within` the bound.
#[track_caller]
pub(crate) fn eventually(within: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(within, what, || holds().then_some(()));
}

/// Polls for the whole `span`. Panics if the condition does not hold.
#[track_caller]
pub(crate) fn throughout(span: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let until = since_boot() + span;
    while let Some(left) = until.checked_sub(since_boot()) {
        assert!(holds(), "{left:?} before the end of {span:?}, this stopped holding: {what}");
        thread::sleep(POLL);
    }
}

fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let seconds =
        u64::try_from(time.tv_sec).expect("a clock that starts at boot is never negative");
    let nanos = u32::try_from(time.tv_nsec).expect("nanoseconds stay below one second");
    Duration::new(seconds, nanos)
}
