//! The one reader of clocks.
//!
//! Touches the system's clocks. [`Clock`] reads `CLOCK_BOOTTIME`, because std's and tokio's clocks stop while a
//! machine is suspended, and a lease does not (rust-lang/rust#87906).

use baton_election::instant::Instant;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, SystemTime};

/// The clocks of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock;

impl Clock {
    /// The present moment, by `CLOCK_BOOTTIME`.
    pub fn now(self) -> Instant {
        let time = clock_gettime(ClockId::Boottime);
        let seconds =
            u64::try_from(time.tv_sec).expect("a clock that starts at boot is never negative");
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
