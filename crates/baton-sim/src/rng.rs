//! Rng that unfolds from a seed, the same on every machine.
//!
//! Pure. `SplitMix64`, as the machines' own jitter, written a second time: what judges shares no code with what it judges.

use std::time::Duration;

/// A stream of rng.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The rng of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A stream of its own, so that what is drawn from it moves nothing in this one.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.next_u64())
    }

    /// Any number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `least` to `most`, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        let width = u128::from(most.saturating_sub(least)) + 1;
        let drawn = (u128::from(self.next_u64()) * width) >> 64;
        least + u64::try_from(drawn).expect("a product's upper half is less than its factor")
    }

    /// An index into `length` things.
    pub fn index(&mut self, length: usize) -> usize {
        let last = u64::try_from(length.saturating_sub(1)).expect("an index fits 64 bits");
        usize::try_from(self.between(0, last)).expect("an index that came from a length")
    }

    /// One of `things`.
    pub fn pick<T: Copy>(&mut self, things: &[T]) -> T {
        things[self.index(things.len())]
    }

    /// True in so many of a thousand cases.
    pub fn permille(&mut self, cases: u16) -> bool {
        cases > 0 && self.between(1, 1_000) <= u64::from(cases)
    }

    /// A duration from `least` to `most`.
    pub fn duration_between(&mut self, least: Duration, most: Duration) -> Duration {
        Duration::from_nanos(self.between(nanos(least), nanos(most)))
    }

    /// A duration up to `most`, as often below a tenth of it as above, and so on down to a thousandth: short
    /// troubles find other faults than long ones.
    pub fn skewed_duration(&mut self, most: Duration) -> Duration {
        let size = most / self.pick(&[1, 1, 3, 10, 30, 100, 1_000]);
        self.duration_between(size / 10, size)
    }
}

/// `duration` in nanoseconds: 580 years fit.
pub(crate) fn nanos(duration: Duration) -> u64 {
    duration
        .as_secs()
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::from(duration.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_unfolds_the_same_way_everywhere() {
        // The first outputs of SplitMix64 for seed 0, as its authors' own program prints them.
        let mut rng = Rng::new(0);
        assert_eq!(
            [rng.next_u64(), rng.next_u64()],
            [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]
        );
    }

    #[test]
    fn bounds_are_kept_and_reached() {
        let mut rng = Rng::new(1);
        let drawn: Vec<_> = (0..1_000).map(|_| rng.between(3, 5)).collect();
        assert!(
            [3, 4, 5].iter().all(|number| drawn.contains(number))
                && drawn.iter().all(|n| (3..=5).contains(n))
        );
        assert_eq!(
            rng.between(0, u64::MAX).min(1),
            rng.between(1, 1),
            "the whole range is one too"
        );
        assert!(!rng.permille(0) && rng.permille(1_000));
    }
}
