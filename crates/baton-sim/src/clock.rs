//! True time, which no process in a simulation can read, and the inaccurate clocks that measure it.
//!
//! Pure. All arithmetic is in integers, so that runs are reproducible. Start with [`Clock`], which
//! is linear between changes of its rate.

use crate::rng::nanos;
use baton_election::instant::Instant;
use std::fmt;
use std::ops::Add;
use std::time::Duration;

/// A moment of true time, counted from the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(u64);

impl Moment {
    /// The start of the run.
    pub const START: Self = Self(0);
    /// Later than any other moment.
    pub const NEVER: Self = Self(u64::MAX);

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}

/// The speed of a clock, in units of 2⁻²⁰ (nearly one millionth) of true time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rate(u32);

impl Rate {
    const BITS: u32 = 20;
    /// The rate of true time.
    pub const TRUE: Self = Self(1 << Self::BITS);

    /// A rate that is off by this many parts per million, rounded towards true time, and never
    /// zero.
    pub fn off_by(parts_per_million: i32) -> Self {
        let off = (i64::from(parts_per_million) << Self::BITS) / 1_000_000;
        let rate = (i64::from(Self::TRUE.0) + off).max(1);
        Self(u32::try_from(rate).expect("the rate is below 4000 times true time"))
    }

    /// The true time in which a clock of this rate advances by `elapsed`.
    pub fn true_time_for(self, elapsed: Duration) -> Duration {
        Duration::from_nanos(self.true_nanos_for(nanos(elapsed)))
    }

    /// The deviation from true time in parts per million.
    pub fn parts_per_million(self) -> i64 {
        ((i64::from(self.0) - i64::from(Self::TRUE.0)) * 1_000_000) >> Self::BITS
    }

    fn elapsed(self, true_nanos: u64) -> u64 {
        let elapsed = (u128::from(true_nanos) * u128::from(self.0)) >> Self::BITS;
        u64::try_from(elapsed).unwrap_or(u64::MAX)
    }

    /// The least true time in which `elapsed` nanoseconds pass on the clock.
    fn true_nanos_for(self, elapsed: u64) -> u64 {
        let scaled = u128::from(elapsed) << Self::BITS;
        match u64::try_from(scaled) {
            // The 64-bit division is much cheaper, and most of the cost of a run.
            Ok(scaled) => scaled.div_ceil(u64::from(self.0)),
            Err(_) => u64::try_from(scaled.div_ceil(u128::from(self.0))).unwrap_or(u64::MAX),
        }
    }
}

/// The clock of one machine.
#[derive(Clone, Debug)]
pub struct Clock {
    changed_at: u64,
    base: u64,
    rate: Rate,
}

impl Clock {
    /// A clock that reads `start` at the start of the run.
    pub fn new(start: Duration, rate: Rate) -> Self {
        Self { changed_at: 0, base: nanos(start), rate }
    }

    /// The reading of the clock at `moment`.
    pub fn read(&self, moment: Moment) -> Instant {
        Instant::since_boot(Duration::from_nanos(self.nanos(moment)))
    }

    /// Whether the clock reads less than `instant` at `moment`.
    pub fn is_before(&self, moment: Moment, instant: Instant) -> bool {
        self.nanos(moment) < nanos(instant.elapsed_since_boot())
    }

    /// The first moment at which the clock reads `instant` or more at its current rate.
    pub fn when(&self, instant: Instant) -> Moment {
        let ahead = nanos(instant.elapsed_since_boot()).saturating_sub(self.base);
        Moment(self.changed_at.saturating_add(self.rate.true_nanos_for(ahead)))
    }

    /// Runs at another rate from `moment` on.
    pub fn set_rate(&mut self, moment: Moment, rate: Rate) {
        *self = Self { changed_at: moment.0, base: self.nanos(moment), rate };
    }

    /// The current rate.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    fn nanos(&self, moment: Moment) -> u64 {
        self.base.saturating_add(self.rate.elapsed(moment.0.saturating_sub(self.changed_at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    #[test]
    fn when_returns_the_first_moment_of_an_instant() {
        for off in [-900_000, -100_000, -1, 0, 1, 83_000, 1_000_000] {
            let mut clock = Clock::new(HOUR, Rate::off_by(off));
            clock.set_rate(Moment::START + Duration::from_secs(7), Rate::off_by(off / 2));
            for ahead in [1, 999, 1_000_000_007, 86_400_000_000_000] {
                let instant = Instant::since_boot(HOUR * 3 + Duration::from_nanos(ahead));
                let moment = clock.when(instant);
                assert!(clock.read(moment) >= instant, "{off} {ahead}");
                assert!(clock.read(Moment(moment.0 - 1)) < instant, "{off} {ahead}");
                let before =
                    [moment.0 - 1, moment.0].map(|at| clock.is_before(Moment(at), instant));
                assert_eq!(before, [true, false], "{off} {ahead}");
            }
        }
    }

    #[test]
    fn clock_is_continuous_when_its_rate_changes() {
        let mut clock = Clock::new(HOUR, Rate::off_by(500_000));
        let moment = Moment::START + HOUR;
        let before = clock.read(moment);
        clock.set_rate(moment, Rate::TRUE);
        assert_eq!(clock.read(moment), before);
        assert_eq!(clock.read(moment + HOUR).since(before), HOUR);
    }
}
