//! A seeded random number generator that gives the same numbers on every machine.
//!
//! Pure. Start with [`Rng`]. It is `SplitMix64`, like the machines' own jitter, but implemented
//! separately: a checker must not share code with what it checks.

use std::time::Duration;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The stream of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Splits off an independent stream, so that draws from it do not affect this one.
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

    /// A number from `least` to `most`, inclusive.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        let width = u128::from(most.saturating_sub(least)) + 1;
        let drawn = (u128::from(self.next_u64()) * width) >> 64;
        least + u64::try_from(drawn).expect("a product's upper half is less than its factor")
    }

    /// An index into a slice of this length.
    pub fn index(&mut self, length: usize) -> usize {
        let last = u64::try_from(length.saturating_sub(1)).expect("an index fits 64 bits");
        usize::try_from(self.between(0, last)).expect("the index is below a usize")
    }

    /// One of `items`.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.index(items.len())]
    }

    /// True with a probability of `permille` in a thousand.
    pub fn permille(&mut self, permille: u16) -> bool {
        permille > 0 && self.between(1, 1_000) <= u64::from(permille)
    }

    /// A duration from `least` to `most`.
    pub fn duration_between(&mut self, least: Duration, most: Duration) -> Duration {
        Duration::from_nanos(self.between(nanos(least), nanos(most)))
    }

    /// A duration up to `most`, skewed towards short ones down to a thousandth of it, which find
    /// other bugs than long ones.
    pub fn skewed_duration(&mut self, most: Duration) -> Duration {
        let size = most / self.pick(&[1, 1, 3, 10, 30, 100, 1_000]);
        self.duration_between(size / 10, size)
    }
}

/// `duration` in nanoseconds, which 64 bits hold for 580 years.
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
    fn numbers_match_the_reference_implementation() {
        // The first outputs for seed 0, as the authors' reference implementation prints them.
        let mut rng = Rng::new(0);
        assert_eq!(
            [rng.next_u64(), rng.next_u64()],
            [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]
        );
    }

    #[test]
    fn bounds_are_inclusive() {
        let mut rng = Rng::new(1);
        let drawn: Vec<_> = (0..1_000).map(|_| rng.between(3, 5)).collect();
        assert!(
            [3, 4, 5].iter().all(|number| drawn.contains(number))
                && drawn.iter().all(|n| (3..=5).contains(n))
        );
        assert_eq!(
            rng.between(0, u64::MAX).min(1),
            rng.between(1, 1),
            "the whole range of u64 does not overflow"
        );
        assert!(!rng.permille(0) && rng.permille(1_000));
    }
}
