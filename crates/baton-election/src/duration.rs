//! Durations for people to read, with at most three decimal places.
//!
//! Pure. [`Rounded`] formats every computed duration in logs and errors. Its output is valid as a
//! flag's value.

use std::fmt;
use std::time::Duration;

/// A rounded duration: to whole milliseconds from one second on, to tenths of a millisecond below.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rounded(Duration);

impl Rounded {
    /// Rounds to nearest, for durations that are only read.
    pub fn nearest(duration: Duration) -> Self {
        let step = step(duration);
        Self::multiple_of(step, duration.as_nanos() + step / 2)
    }

    /// Rounds up, for durations to copy into a setting where more is safer.
    pub fn up(duration: Duration) -> Self {
        let step = step(duration);
        Self::multiple_of(step, duration.as_nanos() + step - 1)
    }

    /// Rounds down, for durations that a reader may rely on.
    pub fn down(duration: Duration) -> Self {
        Self::multiple_of(step(duration), duration.as_nanos())
    }

    /// The largest multiple of `step` that does not exceed `nanos`.
    fn multiple_of(step: u128, nanos: u128) -> Self {
        const SECOND: u128 = 1_000_000_000;
        let nanos = nanos / step * step;
        let subsec_nanos =
            u32::try_from(nanos % SECOND).expect("a remainder is smaller than its divisor");
        Self(Duration::new(u64::try_from(nanos / SECOND).unwrap_or(u64::MAX), subsec_nanos))
    }
}

/// The resolution at which `duration` is printed, in nanoseconds.
fn step(duration: Duration) -> u128 {
    match duration.as_nanos() {
        0..1_000 => 1,
        1_000..1_000_000 => 100,
        1_000_000..1_000_000_000 => 100_000,
        1_000_000_000.. => 1_000_000,
    }
}

/// Formats like the `Debug` of [`Duration`], which honors padding and drops trailing zeros.
impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_zero() { f.pad("0s") } else { fmt::Debug::fmt(&self.0, f) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_at_most_three_decimal_places() {
        for (nanos, nearest, up, down) in [
            (0, "0s", "0s", "0s"),
            (999, "999ns", "999ns", "999ns"),
            (1_250, "1.3µs", "1.3µs", "1.2µs"),
            (272_727_272, "272.7ms", "272.8ms", "272.7ms"),
            (999_999_999, "1s", "1s", "999.9ms"),
            (1_500_000_000, "1.5s", "1.5s", "1.5s"),
            (2_666_666_666, "2.667s", "2.667s", "2.666s"),
            (6_181_818_181, "6.182s", "6.182s", "6.181s"),
            (3_600_000_000_001, "3600s", "3600.001s", "3600s"),
        ] {
            let duration = Duration::from_nanos(nanos);
            let printed = [Rounded::nearest, Rounded::up, Rounded::down]
                .map(|rounded| rounded(duration).to_string());
            assert_eq!(printed, [nearest, up, down], "{duration:?}");
        }
        assert_eq!(
            format!("[{:<8}]", Rounded::nearest(Duration::from_millis(2_500))),
            "[2.5s    ]"
        );
    }

    #[test]
    fn longest_duration_does_not_overflow() {
        let longest = Rounded::up(Duration::MAX).to_string();
        assert!(longest.starts_with("18446744073709551615"), "{longest}");
    }
}
