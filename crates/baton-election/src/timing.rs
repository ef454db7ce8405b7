//! The durations of an election, and the inequality between them that exclusion rests on.
//!
//! Pure. A [`Timing`] that would let two candidates lead at once cannot be built.

use crate::duration::Rounded;
use std::fmt;
use std::time::Duration;

/// By how much the rates of two nodes' clocks may differ, in parts per million.
///
/// chrony may slew a clock by 8.3 %, so the default is 10 %.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Drift(u32);

impl Drift {
    const WHOLE: u32 = 1_000_000;

    /// The drift of so many parts per million; `None` from 100 % on, where no timing is safe.
    pub const fn parts_per_million(parts: u32) -> Option<Self> {
        if parts < Self::WHOLE { Some(Self(parts)) } else { None }
    }

    /// The least that can pass on our clock while `duration` passes on another's.
    pub fn least_of_ours(self, duration: Duration) -> Duration {
        from_nanos(self.shrunk(duration) / u128::from(Self::WHOLE + self.0))
    }

    /// The most that can pass on our clock while `duration` passes on another's.
    pub fn most_of_ours(self, duration: Duration) -> Duration {
        from_nanos(self.stretched(duration).div_ceil(u128::from(Self::WHOLE - self.0)))
    }

    /// `duration` times (1 + drift), in nanoseconds and parts per million.
    fn stretched(self, duration: Duration) -> u128 {
        duration.as_nanos().saturating_mul(u128::from(Self::WHOLE + self.0))
    }

    /// `duration` times (1 − drift), in nanoseconds and parts per million.
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

/// The durations as somebody wrote them, checked by [`Timing::new`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Durations {
    /// How long the others must wait after they last saw our record change.
    pub lease_duration: Duration,
    /// How long we lead without an acknowledged renewal, from the instant the last was sent.
    pub renew_deadline: Duration,
    /// The time between two renewals.
    pub retry_period: Duration,
    /// For how long an answer "leading" is good.
    pub answer_validity: Duration,
}

/// Durations that keep two candidates from leading at once, and leave room for three tries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Timing {
    durations: Durations,
    drift: Drift,
}

/// Durations that are refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum TimingError {
    /// Another candidate could lead before we stop.
    #[error(
        "renew deadline × (1 + drift) must be less than lease duration × (1 − drift), but {renew} × (1 + {drift}) \
         is not less than {lease} × (1 − {drift}): another candidate could lead before this one stops",
        renew = Rounded::nearest(*.renew_deadline),
        lease = Rounded::nearest(*.lease_duration)
    )]
    Overlap {
        /// The lease duration asked for.
        lease_duration: Duration,
        /// The renew deadline asked for.
        renew_deadline: Duration,
        /// The drift allowed for.
        drift: Drift,
    },
    /// Three tries of a renewal do not fit before the deadline.
    #[error(
        "(renew deadline − retry period) / 3 must be at least {}, the least time for one of three tries, but \
         ({} − {}) / 3 is less",
        Rounded::nearest(Timing::SHORTEST_CALL),
        Rounded::down(*.renew_deadline),
        Rounded::nearest(*.retry_period)
    )]
    TooFewTries {
        /// The renew deadline asked for.
        renew_deadline: Duration,
        /// The retry period asked for.
        retry_period: Duration,
    },
    /// A leader would deny that it leads whenever one renewal is slow.
    #[error(
        "answer validity + retry period + one call ({one}) must fit into the renew deadline, but {validity} + \
         {retry} + {one} is more than {renew}: a leader would deny that it leads whenever one renewal is slow",
        one = Rounded::nearest(*.call),
        validity = Rounded::nearest(*.answer_validity),
        retry = Rounded::nearest(*.retry_period),
        renew = Rounded::nearest(*.renew_deadline)
    )]
    AnswerTooLong {
        /// The answer validity asked for.
        answer_validity: Duration,
        /// The renew deadline asked for.
        renew_deadline: Duration,
        /// The retry period asked for.
        retry_period: Duration,
        /// One call's time-out.
        call: Duration,
    },
    /// Renewals without a pause between them.
    #[error(
        "a retry period of {} is too short: it must be at least {}, or the store is written to without pause",
        Rounded::down(*.0),
        Rounded::up(Timing::SHORTEST_RETRY)
    )]
    RetryTooShort(Duration),
    /// An answer that is good for no time at all.
    #[error("an answer validity of {} is too short: an application could not act on any answer", Rounded::down(*.0))]
    AnswerTooShort(Duration),
}

impl Timing {
    /// The least time that one call to a store may be given.
    pub const SHORTEST_CALL: Duration = Duration::from_millis(50);
    /// The least time between two renewals.
    pub const SHORTEST_RETRY: Duration = Duration::from_millis(10);

    /// Checks `durations`; every error is returned, not only the first.
    pub fn new(durations: Durations, drift: Drift) -> Result<Self, Vec<TimingError>> {
        let Durations { lease_duration, renew_deadline, retry_period, answer_validity } = durations;
        let mut errors = Vec::new();
        // The holder stops R after it sent its last renewal; the others start no sooner than L after they saw that
        // renewal's effect. Each counts on its own clock (client-go's package comment; docs of KEP-589).
        if drift.stretched(renew_deadline) >= drift.shrunk(lease_duration) {
            errors.push(TimingError::Overlap { lease_duration, renew_deadline, drift });
        }
        let call = call_timeout(durations);
        if call < Self::SHORTEST_CALL {
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
        if retry_period < Self::SHORTEST_RETRY {
            errors.push(TimingError::RetryTooShort(retry_period));
        }
        if answer_validity < Duration::from_millis(1) {
            errors.push(TimingError::AnswerTooShort(answer_validity));
        }
        if errors.is_empty() { Ok(Self { durations, drift }) } else { Err(errors) }
    }

    /// Durations near `lease_duration` that pass under `drift`, in client-go's proportions where they can be.
    pub fn suggestion(lease_duration: Duration, drift: Drift) -> Durations {
        // Each is the larger of what was asked for and the least with which three tries fit.
        let mut lease_duration = lease_duration.max(Duration::from_millis(300));
        loop {
            let safe = drift.least_of_ours(lease_duration) / 20 * 19;
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

    /// How long the others must wait after they last saw our record change.
    pub const fn lease_duration(&self) -> Duration {
        self.durations.lease_duration
    }

    /// How long a claim holds, from the instant before the write that won it was sent.
    pub const fn renew_deadline(&self) -> Duration {
        self.durations.renew_deadline
    }

    /// The time between two renewals, and between two reads of a follower that hears nothing.
    pub const fn retry_period(&self) -> Duration {
        self.durations.retry_period
    }

    /// For how long an answer "leading" is good.
    pub const fn answer_validity(&self) -> Duration {
        self.durations.answer_validity
    }

    /// What is left at the worst between the end of a claim and the start of another's, each on its own clock.
    pub fn margin(&self) -> Duration {
        let others = self.drift.shrunk(self.durations.lease_duration);
        let ours = self.drift.stretched(self.durations.renew_deadline);
        let nanos = others.saturating_sub(ours) / u128::from(Drift::WHOLE);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// All of them, as somebody wrote them.
    pub const fn durations(&self) -> Durations {
        self.durations
    }

    /// By how much the rates of two nodes' clocks may differ.
    pub const fn drift(&self) -> Drift {
        self.drift
    }

    /// How long one call to the store may take: after a renewal that succeeded three more tries fit before
    /// the deadline, each with the whole of this time.
    pub fn call_timeout(&self) -> Duration {
        call_timeout(self.durations)
    }
}

fn call_timeout(durations: Durations) -> Duration {
    durations.renew_deadline.saturating_sub(durations.retry_period) / 3
}

/// Cuts what a person would not write.
pub(crate) fn whole_milliseconds(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// So many nanoseconds, or the longest duration.
pub(crate) fn from_nanos(nanos: u128) -> Duration {
    Duration::from_nanos_u128(nanos.min(Duration::MAX.as_nanos()))
}

/// The handed-in chance that keeps a thousand candidates from acting in the same millisecond.
///
/// `SplitMix64` (Steele, Lea, Flood 2014): a seed is all its state, so that a simulation repeats exactly.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Jitter(Option<u64>);

impl Jitter {
    /// Chance that unfolds from `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(Some(seed))
    }

    /// Chance that draws nothing but zero, for whoever goes through every order of events and needs no other.
    pub const fn none() -> Self {
        Self(None)
    }

    /// A duration from zero up to, not including, `bound`.
    pub fn below(&mut self, bound: Duration) -> Duration {
        let nanos = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.number().checked_rem(nanos).unwrap_or(0))
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
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
    fn client_gos_defaults_pass_and_its_documented_edge_does_not() {
        let timing = Timing::new(seconds(15, 10, 2, 2), Drift::default()).unwrap();
        assert_eq!(timing.call_timeout(), Duration::from_secs(8) / 3);
        // 13 × 1.1 = 14.3 is more than 15 × 0.9 = 13.5, though client-go accepts it.
        let errors = Timing::new(seconds(15, 13, 2, 2), Drift::default()).unwrap_err();
        assert!(matches!(errors[..], [TimingError::Overlap { .. }]), "{errors:?}");
    }

    #[test]
    fn equality_is_refused_because_two_could_lead_in_the_same_instant() {
        let drift = Drift::parts_per_million(200_000).unwrap();
        assert!(Timing::new(seconds(15, 10, 2, 2), drift).is_err(), "10 × 1.2 = 15 × 0.8");
    }

    #[test]
    fn every_error_is_named_at_once() {
        let errors = Timing::new(seconds(5, 6, 6, 0), Drift::default()).unwrap_err();
        assert_eq!(errors.len(), 3, "{errors:?}");
    }

    #[test]
    fn what_is_suggested_passes() {
        for parts in [0, 20_000, 100_000, 300_000, 700_000, 950_000, 999_999] {
            let drift = Drift::parts_per_million(parts).unwrap();
            for lease in [1, 299, 1_000, 15_000, 137_000, 86_400_000] {
                let suggested = Timing::suggestion(Duration::from_millis(lease), drift);
                assert!(Timing::new(suggested, drift).is_ok(), "{suggested:?} under {drift}");
            }
        }
        let usual = Timing::suggestion(Duration::from_secs(15), Drift::default());
        assert_eq!(usual, seconds(15, 10, 2, 2));
        let apart = Drift::parts_per_million(300_000).unwrap();
        let suggested = Timing::suggestion(Duration::from_secs(15), apart);
        assert_eq!(
            suggested.lease_duration,
            Duration::from_secs(15),
            "a shorter renew deadline is enough: {suggested:?}"
        );
    }

    #[test]
    fn chance_stays_below_its_bound_and_repeats_with_its_seed() {
        let draw = |seed| {
            let mut jitter = Jitter::new(seed);
            std::array::from_fn::<_, 64, _>(|_| jitter.below(Duration::from_millis(20)))
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!(draw(3).iter().all(|delay| *delay < Duration::from_millis(20)));
        assert_eq!(Jitter::new(1).below(Duration::ZERO), Duration::ZERO);
        assert_eq!(Jitter::none().number(), 0);
    }

    /// The first numbers of `SplitMix64` from this seed, by other implementations of it: a simulation of today repeats in
    /// years to come.
    #[test]
    fn chance_is_that_of_splitmix() {
        let mut jitter = Jitter::new(1_234_567);
        let numbers: [u64; 4] = std::array::from_fn(|_| jitter.number());
        let known = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
        ];
        assert_eq!(numbers, known);
    }

    #[test]
    fn what_is_left_between_two_leaders_is_counted_on_the_worst_clocks() {
        let timing = Timing::new(seconds(15, 10, 2, 2), Drift::default()).unwrap();
        assert_eq!(timing.margin(), Duration::from_millis(2_500), "15 × 0.9 − 10 × 1.1");
        assert_eq!((timing.durations(), timing.drift()), (seconds(15, 10, 2, 2), Drift::default()));
        assert_eq!(timing.drift().to_string(), "10%");
    }

    #[test]
    fn where_a_clock_may_stand_still_no_timing_is_safe() {
        assert_eq!(Drift::parts_per_million(1_000_000), None);
        assert_eq!(Drift::parts_per_million(100_000), Some(Drift::default()));
        assert_eq!(
            Drift::default().least_of_ours(Duration::from_secs(11)),
            Duration::from_secs(9),
            "11 × 0.9 ÷ 1.1"
        );
        assert_eq!(
            Drift::default().most_of_ours(Duration::from_secs(9)),
            Duration::from_secs(11),
            "9 × 1.1 ÷ 0.9"
        );
        let fast = Drift::parts_per_million(999_999).unwrap();
        assert_eq!(fast.most_of_ours(Duration::MAX), Duration::MAX, "no arithmetic overflows");
    }
}
