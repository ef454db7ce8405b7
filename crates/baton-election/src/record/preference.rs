//! How long a candidate leaves a free record to candidates that are preferred.
//!
//! Pure. Start with [`Preference`]. A record becomes free when a candidate sees that it was
//! released or does not exist, or when the candidate's wait for an unchanged record ends.

use crate::duration::Rounded;
use crate::timing::Timing;
use std::time::Duration;

/// How long a candidate waits, after a record becomes free, before it acquires the record.
///
/// Of the candidates that wait for a record, the one with the smallest value acquires it, unless it
/// is slow. A candidate never takes the record away from a leader, and never delays a renewal.
/// The wait overlaps damping and hold-offs: the candidate waits until the last of them ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Preference {
    stand_after: Duration,
}

/// Why a preference was rejected.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[error(
    "a preference of {} is longer than the lease duration of {}: after a leader fails, the \
     election would wait for more than two lease durations",
    Rounded::up(*.stand_after),
    Rounded::down(*.lease_duration)
)]
pub struct PreferenceTooLong {
    /// The value.
    pub stand_after: Duration,
    /// The longest value that passes.
    pub lease_duration: Duration,
}

impl Preference {
    /// Acquires a free record at once.
    pub const FIRST: Self = Self { stand_after: Duration::ZERO };

    /// Waits for `stand_after`, which is at most the lease duration.
    pub fn new(stand_after: Duration, timing: &Timing) -> Result<Self, PreferenceTooLong> {
        let lease_duration = timing.lease_duration();
        if stand_after > lease_duration {
            return Err(PreferenceTooLong { stand_after, lease_duration });
        }
        Ok(Self { stand_after })
    }

    /// How long a free record is left to others.
    pub const fn stand_after(self) -> Duration {
        self.stand_after
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::{Drift, Durations};

    #[test]
    fn preference_is_at_most_the_lease_duration() {
        let durations = Durations {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            answer_validity: Duration::from_secs(2),
        };
        let timing = Timing::new(durations, Drift::default()).unwrap();
        let lease = timing.lease_duration();
        assert_eq!(Preference::new(lease, &timing).unwrap().stand_after(), lease);
        let error = Preference::new(lease + Duration::from_millis(1), &timing).unwrap_err();
        assert_eq!(error.lease_duration, lease);
        assert_eq!(Preference::default(), Preference::FIRST);
    }
}
