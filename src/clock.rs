//! Time: the instants that decisions are made with, and the one reader of clocks.
//!
//! [`Instant`] is pure and has no `now()`: whoever decides is handed the time. [`Clock`], which only
//! the sidecar has, reads `CLOCK_BOOTTIME`, because std's and tokio's clocks stand still while a
//! machine is suspended, and a lease does not (rust-lang/rust#87906). No instant leaves the process: on
//! another machine it means nothing. The one exception is the stamp in `lifecycle.rs`, which goes with
//! the boot that it counts from.

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

#[cfg(feature = "sidecar")]
pub use real::Clock;

#[cfg(feature = "sidecar")]
mod real {
    use super::Instant;
    use rustix::time::{ClockId, clock_gettime};
    use std::time::{Duration, SystemTime};

    /// The clocks of this machine.
    #[derive(Debug, Clone, Copy, Default)]
    pub struct Clock;

    impl Clock {
        /// The present moment, by `CLOCK_BOOTTIME`.
        pub fn now(self) -> Instant {
            let time = clock_gettime(ClockId::Boottime);
            let seconds = u64::try_from(time.tv_sec).expect("a clock that starts at boot is never negative");
            let nanos = u32::try_from(time.tv_nsec).expect("nanoseconds stay below one second");
            Instant::since_boot(Duration::new(seconds, nanos))
        }

        /// The wall clock: to be written down for people, and never to be compared.
        #[expect(clippy::disallowed_methods, reason = "this is the one reader of clocks")]
        pub fn wall(self) -> SystemTime {
            SystemTime::now()
        }

        /// Waits until `instant` has come by this clock.
        ///
        /// tokio's timers stop in suspend, so they only wake us here, and the clock decides.
        pub async fn sleep_until(self, instant: Instant) {
            loop {
                let left = instant.since(self.now());
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left).await;
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_clock_goes_forward_and_counts_from_boot() {
            let earlier = Clock.now();
            let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
            let uptime: f64 = uptime.split_whitespace().next().unwrap().parse().unwrap();
            let later = Clock.now();
            assert!(earlier <= later);
            assert!((later.elapsed_since_boot().as_secs_f64() - uptime).abs() < 1.0);
        }
    }
}
