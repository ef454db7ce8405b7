//! The clocks of this machine.
//!
//! Touches the system's clocks, which no other module reads. Start with [`Clock`]. It reads
//! `CLOCK_BOOTTIME`, because the clocks of std and tokio stop while the machine is suspended, and a
//! lease does not (rust-lang/rust#87906).

use baton_election::instant::Instant;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, SystemTime};

/// The clocks of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock;

impl Clock {
    /// The current `CLOCK_BOOTTIME`.
    pub fn now(self) -> Instant {
        let time = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).expect("time since boot is not negative");
        let nanos = u32::try_from(time.tv_nsec).expect("nanoseconds are below one second");
        Instant::since_boot(Duration::new(seconds, nanos))
    }

    /// The wall-clock time, for people to read. No decision depends on it.
    #[expect(clippy::disallowed_methods, reason = "only this module reads clocks")]
    pub fn wall(self) -> SystemTime {
        SystemTime::now()
    }

    /// Waits until this clock has reached `instant`.
    ///
    /// tokio's timers stop during suspend, so the loop reads the clock after each.
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
    fn clock_counts_forward_from_boot() {
        let earlier = Clock.now();
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let uptime: f64 = uptime.split_whitespace().next().unwrap().parse().unwrap();
        let later = Clock.now();
        assert!(earlier <= later);
        assert!((later.elapsed_since_boot().as_secs_f64() - uptime).abs() < 1.0);
    }
}
