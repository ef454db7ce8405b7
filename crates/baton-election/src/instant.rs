//! The instants that decisions are made with.
//!
//! Pure. [`Instant`] has no `now()`: whatever decides is handed the time. An instant never leaves the
//! process, because it means nothing on another machine.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

/// A moment on this machine's clock, counted from its boot; suspension counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    /// The moment `elapsed` after the machine's boot.
    pub const fn since_boot(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// How long after the boot this is.
    pub const fn elapsed_since_boot(self) -> Duration {
        self.0
    }

    /// The time from `earlier` to this moment; zero when `earlier` is the later one.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Saturates: a record may ask for the patience of centuries, and must not end the process with it.
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
