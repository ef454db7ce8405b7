//! Points in time for election decisions.
//!
//! Pure. [`Instant`] has no `now()`: callers pass the time in. An instant is meaningless on another
//! machine, so it never leaves the process.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

/// A moment on this machine's clock, measured from its boot. Time spent suspended counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    /// The moment `elapsed` after boot.
    pub const fn since_boot(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// The time from boot to this moment.
    pub const fn elapsed_since_boot(self) -> Duration {
        self.0
    }

    /// The time from `earlier` to this moment, or zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Saturates: a record may hold a lease duration of centuries, which must not cause a panic.
impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "boot+{:?}", self.0)
    }
}
