//! Durations as people read them: at most three digits behind the point.
//!
//! Pure. Every computed duration that a person reads goes through [`Rounded`]; what it prints can
//! be pasted into a flag.

use std::fmt;
use std::time::Duration;

/// A duration to be printed: whole milliseconds from one second on, tenths of a millisecond below.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rounded(Duration);

impl Rounded {
    /// The nearest one, for a duration that is only read.
    pub fn nearest(duration: Duration) -> Self {
        let step = step(duration);
        Self::down_to(step, duration.as_nanos() + step / 2)
    }

    /// The next one above, for a duration to be pasted where more is safer.
    pub fn up(duration: Duration) -> Self {
        let step = step(duration);
        Self::down_to(step, duration.as_nanos() + step - 1)
    }

    /// The next one below, for a duration that a reader may rely on.
    pub fn down(duration: Duration) -> Self {
        Self::down_to(step(duration), duration.as_nanos())
    }

    fn down_to(step: u128, nanos: u128) -> Self {
        const SECOND: u128 = 1_000_000_000;
        let nanos = nanos / step * step;
        let below = u32::try_from(nanos % SECOND).expect("a remainder is smaller than its divisor");
        Self(Duration::new(u64::try_from(nanos / SECOND).unwrap_or(u64::MAX), below))
    }
}

/// The smallest difference that is printed, in nanoseconds.
fn step(duration: Duration) -> u128 {
    match duration.as_nanos() {
        0..1_000 => 1,
        1_000..1_000_000 => 100,
        1_000_000..1_000_000_000 => 100_000,
        1_000_000_000.. => 1_000_000,
    }
}

/// As Rust's `Debug` writes a duration, which pads it too and drops zeros at the end.
impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_zero() { f.pad("0s") } else { fmt::Debug::fmt(&self.0, f) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_three_digits_stand_behind_the_point() {
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
            let written = [Rounded::nearest, Rounded::up, Rounded::down]
                .map(|rounded| rounded(duration).to_string());
            assert_eq!(written, [nearest, up, down], "{duration:?}");
        }
        assert_eq!(
            format!("[{:<8}]", Rounded::nearest(Duration::from_millis(2_500))),
            "[2.5s    ]"
        );
    }

    #[test]
    fn the_longest_duration_is_printed_too() {
        let longest = Rounded::up(Duration::MAX).to_string();
        assert!(longest.starts_with("18446744073709551615"), "{longest}");
    }
}
