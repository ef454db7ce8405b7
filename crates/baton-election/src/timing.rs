//! The durations of an election, and the inequality between them that exclusion depends on.
//!
//! Pure. Start with [`Timing`]: one that would let two candidates lead at once cannot be
//! constructed.

use crate::duration::Rounded;
use std::fmt;
use std::time::Duration;

/// The largest allowed difference between the rates of two nodes' clocks, in parts per million.
///
/// The default is 10 %, because chrony may slew a clock by 8.3 %.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Drift(u32);

impl Drift {
    /// 100 %, in parts per million.
    const WHOLE: u32 = 1_000_000;

    /// A drift of `parts` per million. Returns `None` from 100 % on, where no timing is safe.
    pub const fn parts_per_million(parts: u32) -> Option<Self> {
        if parts < Self::WHOLE { Some(Self(parts)) } else { None }
    }

    /// The least time that can pass on this node's clock while `duration` passes on another's.
    pub fn min_elapsed(self, duration: Duration) -> Duration {
        from_nanos(self.shrunk(duration) / u128::from(Self::WHOLE + self.0))
    }

    /// The most time that can pass on this node's clock while `duration` passes on another's.
    pub fn max_elapsed(self, duration: Duration) -> Duration {
        from_nanos(self.stretched(duration).div_ceil(u128::from(Self::WHOLE - self.0)))
    }

    /// `duration` times (1 + drift), in millionths of a nanosecond.
    fn stretched(self, duration: Duration) -> u128 {
        duration.as_nanos().saturating_mul(u128::from(Self::WHOLE + self.0))
    }

    /// `duration` times (1 − drift), in millionths of a nanosecond.
    fn shrunk(self, duration: Duration) -> u128 {
        duration.as_nanos().saturating_mul(u128::from(Self::WHOLE - self.0))
    }
}

impl Default for Drift {
    fn default() -> Self {
        Self(100_000)
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", f64::from(self.0) / f64::from(Self::WHOLE / 100))
    }
}

/// The durations as configured. [`Timing::new`] checks them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Durations {
    /// How long the other candidates wait after they last saw the record change.
    pub lease_duration: Duration,
    /// How long a leader leads without an acknowledged renewal, from the instant it sent the last
    /// one.
    pub renew_deadline: Duration,
    /// The time between two renewals.
    pub retry_period: Duration,
    /// How long an answer "leading" is valid.
    pub answer_validity: Duration,
}

/// Durations that keep two candidates from leading at once, and leave room for three renewal tries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Timing {
    durations: Durations,
    drift: Drift,
}

/// Why durations were rejected.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum TimingError {
    /// Another candidate could lead before this one stops.
    #[error(
        "renew deadline × (1 + drift) must be less than lease duration × (1 − drift), but \
         {renew} × (1 + {drift}) is not less than {lease} × (1 − {drift}): \
         another candidate could lead before this one stops",
        renew = Rounded::nearest(*.renew_deadline),
        lease = Rounded::nearest(*.lease_duration)
    )]
    Overlap {
        /// The configured lease duration.
        lease_duration: Duration,
        /// The configured renew deadline.
        renew_deadline: Duration,
        /// The allowed drift.
        drift: Drift,
    },
    /// Three renewal tries do not fit before the deadline.
    #[error(
        "(renew deadline − retry period) / 3 must be at least {}, the minimum time for each of \
         three tries, but ({} − {}) / 3 is less",
        Rounded::nearest(Timing::MIN_CALL_TIMEOUT),
        Rounded::down(*.renew_deadline),
        Rounded::nearest(*.retry_period)
    )]
    TooFewTries {
        /// The configured renew deadline.
        renew_deadline: Duration,
        /// The configured retry period.
        retry_period: Duration,
    },
    /// A leader would deny that it leads whenever a renewal is slow.
    #[error(
        "answer validity + retry period + one call ({one}) must fit into the renew deadline, but \
         {validity} + {retry} + {one} is more than {renew}: a leader would deny that it leads \
         whenever a renewal is slow",
        one = Rounded::nearest(*.call),
        validity = Rounded::nearest(*.answer_validity),
        retry = Rounded::nearest(*.retry_period),
        renew = Rounded::nearest(*.renew_deadline)
    )]
    AnswerTooLong {
        /// The configured answer validity.
        answer_validity: Duration,
        /// The configured renew deadline.
        renew_deadline: Duration,
        /// The configured retry period.
        retry_period: Duration,
        /// The timeout of one call.
        call: Duration,
    },
    /// Renewals would follow one another without a pause.
    #[error(
        "a retry period of {} is too short: it must be at least {}, to limit writes to the store",
        Rounded::down(*.0),
        Rounded::up(Timing::MIN_RETRY_PERIOD)
    )]
    RetryTooShort(Duration),
    /// An answer would expire before the application could act on it.
    #[error(
        "an answer validity of {} is too short: an application could not act on any answer in time",
        Rounded::down(*.0)
    )]
    AnswerTooShort(Duration),
}

impl Timing {
    /// The shortest timeout allowed for one call to a store.
    pub const MIN_CALL_TIMEOUT: Duration = Duration::from_millis(50);
    /// The shortest time allowed between two renewals.
    pub const MIN_RETRY_PERIOD: Duration = Duration::from_millis(10);

    /// Checks `durations`, and returns every error, not only the first.
    pub fn new(durations: Durations, drift: Drift) -> Result<Self, Vec<TimingError>> {
        let Durations { lease_duration, renew_deadline, retry_period, answer_validity } = durations;
        let mut errors = Vec::new();
        // A leader stops one renew deadline after it sent its last renewal. The others start no
        // sooner than one lease duration after they saw that renewal's effect. Each counts on its
        // own clock (client-go's package comment; KEP-589).
        if drift.stretched(renew_deadline) >= drift.shrunk(lease_duration) {
            errors.push(TimingError::Overlap { lease_duration, renew_deadline, drift });
        }
        let call = call_timeout(durations);
        if call < Self::MIN_CALL_TIMEOUT {
            errors.push(TimingError::TooFewTries { renew_deadline, retry_period });
        } else if answer_validity.saturating_add(retry_period).saturating_add(call) > renew_deadline
        {
            errors.push(TimingError::AnswerTooLong {
                answer_validity,
                renew_deadline,
                retry_period,
                call,
            });
        }
        if retry_period < Self::MIN_RETRY_PERIOD {
            errors.push(TimingError::RetryTooShort(retry_period));
        }
        if answer_validity < Duration::from_millis(1) {
            errors.push(TimingError::AnswerTooShort(answer_validity));
        }
        if errors.is_empty() { Ok(Self { durations, drift }) } else { Err(errors) }
    }

    /// Valid durations for about `lease_duration` under `drift`, in client-go's proportions if
    /// possible.
    pub fn suggestion(lease_duration: Duration, drift: Drift) -> Durations {
        // Three tries of the minimum call timeout do not fit into a shorter lease duration.
        let mut lease_duration = lease_duration.max(Duration::from_millis(300));
        loop {
            let safe = drift.min_elapsed(lease_duration) / 20 * 19;
            let renew_deadline = whole_milliseconds(safe.min(lease_duration / 3 * 2));
            let retry_period = whole_milliseconds(renew_deadline / 5);
            let durations = Durations {
                lease_duration,
                renew_deadline,
                retry_period,
                answer_validity: retry_period,
            };
            if Self::new(durations, drift).is_ok() {
                return durations;
            }
            lease_duration = lease_duration.saturating_mul(2);
        }
    }

    /// How long the other candidates wait after they last saw the record change.
    pub const fn lease_duration(&self) -> Duration {
        self.durations.lease_duration
    }

    /// How long a claim holds, from the instant before the acknowledged write was sent.
    pub const fn renew_deadline(&self) -> Duration {
        self.durations.renew_deadline
    }

    /// The time between two renewals. A follower without watch events reads after two of these.
    pub const fn retry_period(&self) -> Duration {
        self.durations.retry_period
    }

    /// How long an answer "leading" is valid.
    pub const fn answer_validity(&self) -> Duration {
        self.durations.answer_validity
    }

    /// How long the last promise may outlive its process, by any clock of this node.
    pub fn longest_promise(&self) -> Duration {
        let nanos = self.drift.stretched(self.durations.answer_validity);
        from_nanos(nanos.div_ceil(u128::from(Drift::WHOLE)))
    }

    /// The shortest possible time between the end of one claim and the start of another
    /// candidate's, over all clock rates within the drift.
    pub fn margin(&self) -> Duration {
        let others = self.drift.shrunk(self.durations.lease_duration);
        let ours = self.drift.stretched(self.durations.renew_deadline);
        let nanos = others.saturating_sub(ours) / u128::from(Drift::WHOLE);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The durations as configured.
    pub const fn durations(&self) -> Durations {
        self.durations
    }

    /// The largest allowed difference between the rates of two nodes' clocks.
    pub const fn drift(&self) -> Drift {
        self.drift
    }

    /// How long one call to the store may take. After a successful renewal, three more tries of
    /// this length fit before the deadline.
    pub fn call_timeout(&self) -> Duration {
        call_timeout(self.durations)
    }
}

fn call_timeout(durations: Durations) -> Duration {
    durations.renew_deadline.saturating_sub(durations.retry_period) / 3
}

/// Rounds down to whole milliseconds.
pub(crate) fn whole_milliseconds(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// Saturates at [`Duration::MAX`].
pub(crate) fn from_nanos(nanos: u128) -> Duration {
    Duration::from_nanos_u128(nanos.min(Duration::MAX.as_nanos()))
}

/// A seeded random number generator that keeps a thousand candidates from acting in the same
/// millisecond.
///
/// It is `SplitMix64` (Steele, Lea, Flood 2014), whose only state is its seed, so a simulation
/// repeats exactly.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Jitter(Option<u64>);

impl Jitter {
    /// A generator with this seed.
    pub const fn new(seed: u64) -> Self {
        Self(Some(seed))
    }

    /// A generator that returns only zeros, for model checkers and tests.
    pub const fn none() -> Self {
        Self(None)
    }

    /// A random duration below `bound`, or zero if `bound` is zero.
    pub fn below(&mut self, bound: Duration) -> Duration {
        let nanos = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.next_u64().checked_rem(nanos).unwrap_or(0))
    }

    /// The next random number.
    pub fn next_u64(&mut self) -> u64 {
        let Some(state) = &mut self.0 else { return 0 };
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(lease: u64, renew: u64, retry: u64, answer: u64) -> Durations {
        Durations {
            lease_duration: Duration::from_secs(lease),
            renew_deadline: Duration::from_secs(renew),
            retry_period: Duration::from_secs(retry),
            answer_validity: Duration::from_secs(answer),
        }
    }

    #[test]
    fn client_go_defaults_pass_and_its_limits_do_not() {
        let timing = Timing::new(seconds(15, 10, 2, 2), Drift::default()).unwrap();
        assert_eq!(timing.call_timeout(), Duration::from_secs(8) / 3);
        // 13 × 1.1 = 14.3 is more than 15 × 0.9 = 13.5, though client-go accepts it.
        let errors = Timing::new(seconds(15, 13, 2, 2), Drift::default()).unwrap_err();
        assert!(matches!(errors[..], [TimingError::Overlap { .. }]), "{errors:?}");
    }

    #[test]
    fn equal_durations_after_drift_are_rejected() {
        let drift = Drift::parts_per_million(200_000).unwrap();
        assert!(Timing::new(seconds(15, 10, 2, 2), drift).is_err(), "10 × 1.2 = 15 × 0.8");
    }

    #[test]
    fn all_errors_are_returned_at_once() {
        let errors = Timing::new(seconds(5, 6, 6, 0), Drift::default()).unwrap_err();
        assert_eq!(errors.len(), 3, "{errors:?}");
    }

    #[test]
    fn suggestions_are_valid() {
        for parts in [0, 20_000, 100_000, 300_000, 700_000, 950_000, 999_999] {
            let drift = Drift::parts_per_million(parts).unwrap();
            for lease in [1, 299, 1_000, 15_000, 137_000, 86_400_000] {
                let suggested = Timing::suggestion(Duration::from_millis(lease), drift);
                assert!(Timing::new(suggested, drift).is_ok(), "{suggested:?} under {drift}");
            }
        }
        let default = Timing::suggestion(Duration::from_secs(15), Drift::default());
        assert_eq!(default, seconds(15, 10, 2, 2));
        let large_drift = Drift::parts_per_million(300_000).unwrap();
        let suggested = Timing::suggestion(Duration::from_secs(15), large_drift);
        assert_eq!(
            suggested.lease_duration,
            Duration::from_secs(15),
            "a shorter renew deadline suffices: {suggested:?}"
        );
    }

    #[test]
    fn jitter_is_bounded_and_repeats_with_its_seed() {
        let draw = |seed| {
            let mut jitter = Jitter::new(seed);
            std::array::from_fn::<_, 64, _>(|_| jitter.below(Duration::from_millis(20)))
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!(draw(3).iter().all(|delay| *delay < Duration::from_millis(20)));
        assert_eq!(Jitter::new(1).below(Duration::ZERO), Duration::ZERO);
        assert_eq!(Jitter::none().next_u64(), 0);
    }

    /// Reference values from other implementations of `SplitMix64`. Seeds must keep their meaning
    /// for years.
    #[test]
    fn jitter_matches_splitmix64() {
        let mut jitter = Jitter::new(1_234_567);
        let numbers: [u64; 4] = std::array::from_fn(|_| jitter.next_u64());
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
        ];
        assert_eq!(numbers, expected);
    }

    #[test]
    fn margin_assumes_the_worst_clock_rates() {
        let timing = Timing::new(seconds(15, 10, 2, 2), Drift::default()).unwrap();
        assert_eq!(timing.margin(), Duration::from_millis(2_500), "15 × 0.9 − 10 × 1.1");
        assert_eq!((timing.durations(), timing.drift()), (seconds(15, 10, 2, 2), Drift::default()));
        assert_eq!(timing.drift().to_string(), "10%");
    }

    #[test]
    fn drift_is_below_100_percent_and_bounds_elapsed_time() {
        assert_eq!(Drift::parts_per_million(1_000_000), None);
        assert_eq!(Drift::parts_per_million(100_000), Some(Drift::default()));
        assert_eq!(
            Drift::default().min_elapsed(Duration::from_secs(11)),
            Duration::from_secs(9),
            "11 × 0.9 ÷ 1.1"
        );
        assert_eq!(
            Drift::default().max_elapsed(Duration::from_secs(9)),
            Duration::from_secs(11),
            "9 × 1.1 ÷ 0.9"
        );
        let fast = Drift::parts_per_million(999_999).unwrap();
        assert_eq!(fast.max_elapsed(Duration::MAX), Duration::MAX, "the arithmetic saturates");
    }
}
