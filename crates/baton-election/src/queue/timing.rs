//! What a session time-out leaves of the durations that somebody wrote, and whether that is enough.
//!
//! Pure. The servers grant a session time-out of their own liking, within limits of their own, at every connect. A
//! [`Granted`] under which renewals could not be tried three times cannot be built.

use crate::duration::Rounded;
use crate::timing::{Drift, Durations, Timing, TimingError, from_nanos, whole_milliseconds};
use std::time::Duration;

/// What was asked for, and how fast the servers' clockwork ticks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SessionTiming {
    asked: Timing,
    tick: Duration,
}

/// What holds under the session time-out that a server granted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Granted {
    /// The session time-out.
    pub timeout: Duration,
    /// The durations, with the renew deadline that is left of the one asked for when all is calm.
    pub timing: Timing,
}

/// A session time-out under which leading would be unsafe or could not last.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[error(
    "a session time-out of {} and servers that tick every {} leave {} from a heartbeat to the end of the \
     claim that hangs on it, since they may count from the one before: {cause}",
    Rounded::nearest(*.timeout),
    Rounded::nearest(*.tick),
    Rounded::down(*.left)
)]
pub struct SessionTooShort {
    /// The session time-out granted, or to be asked for.
    pub timeout: Duration,
    /// The servers' tickTime that we were told.
    pub tick: Duration,
    /// What is left of the renew deadline.
    pub left: Duration,
    /// What that is too little for. No source: the sentence contains it.
    pub cause: TimingError,
    /// Durations that would pass, the session time-out as the lease duration.
    pub remedy: Durations,
}

impl SessionTiming {
    /// Checks that `asked` can hold if the servers grant its lease duration as the session time-out, and tick every
    /// `tick` or faster; every error is returned.
    pub fn new(asked: Timing, tick: Duration) -> Result<Self, Vec<SessionTooShort>> {
        let timing = Self { asked, tick: tick.min(LONGEST_TICK) };
        timing.grant(asked.lease_duration()).map(|_| timing)
    }

    /// The durations asked for.
    pub const fn asked(&self) -> &Timing {
        &self.asked
    }

    /// How fast the servers' clockwork ticks, as we were told.
    pub const fn tick(&self) -> Duration {
        self.tick
    }

    /// What holds under a session time-out of `timeout`.
    ///
    /// When all is calm, a claim counts from the newest heartbeat before the one that was answered last that is at least
    /// [`Self::lag`] older: that is one retry period back, or as many as the lag takes.
    pub fn grant(&self, timeout: Duration) -> Result<Granted, Vec<SessionTooShort>> {
        let drift = self.asked.drift();
        let Durations { renew_deadline, retry_period, .. } = self.asked.durations();
        let left = left(timeout, renew_deadline, retry_period, drift, self.tick);
        let durations =
            Durations { lease_duration: timeout, renew_deadline: left, ..self.asked.durations() };
        let too_short = |cause| {
            let remedy = Self::suggestion(timeout, drift, self.tick);
            SessionTooShort { timeout, tick: self.tick, left, cause, remedy }
        };
        Timing::new(durations, drift)
            .map(|timing| Granted { timeout, timing })
            .map_err(|causes| causes.into_iter().map(too_short).collect())
    }

    /// What is to be expected, that is if the servers grant what is asked for and all is calm: the durations that hold then,
    /// and what is left at the worst between the end of a claim and the start of another's. The others count from a
    /// heartbeat before the one that the claim counts from.
    pub fn expected(&self) -> (Timing, Duration) {
        let timing =
            self.grant(self.asked.lease_duration()).map_or(self.asked, |granted| granted.timing);
        let lives = timing.drift().least_of_ours(timing.lease_duration());
        let led = gap(timing.retry_period(), self.lag()) + timing.renew_deadline();
        (timing, lives.saturating_sub(led))
    }

    /// How much older than a request an answer must be on our clock before a claim can rest on it.
    ///
    /// Servers pass on what they heard with the answers to their leader's pings, one each half
    /// tick. A ping may take a quarter of a tick longer than the one before it. So two of these
    /// answers are up to ¾ tick apart on that leader's clock. Our clock counts most in that time
    /// where it is fast and that leader's is slow.
    ///
    /// Observers that are fed by followers (`observerMasterPort`) pass them on in two steps. Where
    /// candidates connect to such observers, the tick to be told is twice the real one.
    pub fn lag(&self) -> Duration {
        lag(self.tick, self.asked.drift())
    }

    /// Durations near a session time-out of `timeout` that pass, in client-go's proportions where they can be.
    pub fn suggestion(timeout: Duration, drift: Drift, tick: Duration) -> Durations {
        let mut lease_duration = timeout.max(Duration::from_millis(300));
        loop {
            let mut retry_period = whole_milliseconds(lease_duration / 15 * 2);
            while retry_period >= Timing::SHORTEST_RETRY {
                let renew_deadline = left(
                    lease_duration,
                    lease_duration / 3 * 2,
                    retry_period,
                    drift,
                    tick.min(LONGEST_TICK),
                );
                let renew_deadline = whole_milliseconds(renew_deadline);
                let durations = Durations {
                    lease_duration,
                    renew_deadline,
                    retry_period,
                    answer_validity: retry_period,
                };
                if Timing::new(durations, drift).is_ok() {
                    return durations;
                }
                retry_period = whole_milliseconds(retry_period / 2);
            }
            lease_duration = lease_duration.saturating_mul(2);
        }
    }
}

/// Servers keep their tickTime in milliseconds, in 31 bits.
const LONGEST_TICK: Duration = Duration::from_millis(i32::MAX as u64);

fn lag(tick: Duration, drift: Drift) -> Duration {
    drift.most_of_ours(tick / 2 + tick / 4)
}

/// What is left of a renew deadline of `asked`.
fn left(
    timeout: Duration,
    asked: Duration,
    retry_period: Duration,
    drift: Drift,
    tick: Duration,
) -> Duration {
    asked.min(drift.least_of_ours(timeout).saturating_sub(gap(retry_period, lag(tick, drift))))
}

/// From the heartbeat that a claim rests on to the one that was answered last, when all is calm.
fn gap(retry_period: Duration, lag: Duration) -> Duration {
    let heartbeats = lag.as_nanos() / retry_period.as_nanos() + 1;
    from_nanos(retry_period.as_nanos().saturating_mul(heartbeats))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(lease: u64, renew: u64, retry: u64) -> Timing {
        let [lease_duration, renew_deadline, retry_period] =
            [lease, renew, retry].map(Duration::from_secs);
        let durations = Durations {
            lease_duration,
            renew_deadline,
            retry_period,
            answer_validity: retry_period,
        };
        Timing::new(durations, Drift::default()).unwrap()
    }

    #[test]
    fn the_defaults_keep_their_whole_renew_deadline_on_servers_with_the_usual_tick() {
        let timing = SessionTiming::new(seconds(15, 10, 2), Duration::from_secs(2)).unwrap();
        let granted = timing.grant(Duration::from_secs(15)).unwrap();
        assert_eq!(granted.timing.renew_deadline(), Duration::from_secs(10));
        assert_eq!(
            timing.grant(Duration::from_secs(40)).unwrap().timing.renew_deadline(),
            Duration::from_secs(10)
        );
        // 15 s × 0.9 / 1.1 − 2 s − 10 s
        assert_eq!(timing.expected().1, Duration::from_nanos(272_727_272));
    }

    #[test]
    fn what_is_asked_for_and_does_not_fit_is_not_to_be_expected() {
        let timing = SessionTiming::new(seconds(10, 8, 2), Duration::from_secs(2)).unwrap();
        let (timing, margin) = timing.expected();
        assert_eq!(
            (timing.renew_deadline(), margin),
            (Duration::from_nanos(6_181_818_181), Duration::ZERO)
        );
    }

    #[test]
    fn a_shorter_session_shortens_the_renew_deadline_until_three_tries_do_not_fit() {
        let timing = SessionTiming::new(seconds(15, 10, 2), Duration::from_secs(2)).unwrap();
        let granted = timing.grant(Duration::from_secs(10)).unwrap();
        assert_eq!(
            granted.timing.lease_duration(),
            Duration::from_secs(10),
            "the others wait no longer"
        );
        // 10 s × 0.9 / 1.1 − 2 s
        assert_eq!(granted.timing.renew_deadline(), Duration::from_nanos(6_181_818_181));
        let errors = timing.grant(Duration::from_secs(4)).unwrap_err();
        let [SessionTooShort { left, remedy, cause: TimingError::TooFewTries { .. }, .. }] =
            errors[..]
        else {
            panic!("{errors:?}")
        };
        assert_eq!(left, Duration::from_nanos(1_272_727_272));
        let remedied = Timing::new(remedy, Drift::default()).unwrap();
        assert_eq!(remedy.lease_duration, Duration::from_secs(4), "no other session is needed");
        assert!(SessionTiming::new(remedied, Duration::from_secs(2)).is_ok(), "{remedy:?}");
    }

    #[test]
    fn lag_is_stretched_by_both_clocks_drifts() {
        let lag = |parts, tick| {
            let [lease_duration, renew_deadline, retry_period] =
                [15_000, 9_000, 2_000].map(Duration::from_millis);
            let durations = Durations {
                lease_duration,
                renew_deadline,
                retry_period,
                answer_validity: retry_period,
            };
            let timing = Timing::new(durations, Drift::parts_per_million(parts).unwrap()).unwrap();
            SessionTiming { asked: timing, tick: Duration::from_millis(tick) }.lag()
        };
        assert_eq!(lag(0, 2_000), Duration::from_millis(1_500));
        // 1.5 s × 1.01 / 0.99, rounded up.
        assert_eq!(lag(10_000, 2_000), Duration::from_nanos(1_530_303_031));
        // 1.5 s × 1.1 / 0.9, rounded up.
        assert_eq!(lag(100_000, 2_000), Duration::from_nanos(1_833_333_334));
    }

    #[test]
    fn retry_period_within_the_stretched_lag_costs_a_heartbeat() {
        let retry_period = Duration::from_millis(1_600);
        let durations = Durations { retry_period, ..seconds(15, 10, 2).durations() };
        let timing = Timing::new(durations, Drift::default()).unwrap();
        let timing = SessionTiming::new(timing, Duration::from_secs(2)).unwrap();
        // 15 s × 0.9 / 1.1 − 2 × 1.6 s: one heartbeat is 1.6 s old, and the lag is 1.83 s.
        let left = timing.grant(Duration::from_secs(15)).unwrap().timing.renew_deadline();
        assert_eq!(left, Duration::from_nanos(9_072_727_272));
    }

    #[test]
    fn a_lag_longer_than_the_retry_period_counts_in_whole_heartbeats() {
        let timing = SessionTiming::new(seconds(15, 10, 1), Duration::from_secs(4)).unwrap();
        // A lag of 3 s is reached by the fourth heartbeat back, for the third is never quite old enough.
        let left = timing.grant(Duration::from_secs(15)).unwrap().timing.renew_deadline();
        assert_eq!(left, Duration::from_nanos(8_272_727_272));
    }

    #[test]
    fn what_is_suggested_passes() {
        for parts in [0, 100_000, 700_000, 999_999] {
            let drift = Drift::parts_per_million(parts).unwrap();
            for (timeout, tick) in
                [(1, 1), (1_000, 500), (4_000, 2_000), (15_000, 2_000), (6_000, u64::MAX)]
            {
                let [timeout, tick] = [timeout, tick].map(Duration::from_millis);
                let suggested = SessionTiming::suggestion(timeout, drift, tick);
                let timing = Timing::new(suggested, drift).unwrap();
                assert!(
                    SessionTiming::new(timing, tick).is_ok(),
                    "{suggested:?} under {drift}, tick {tick:?}"
                );
            }
        }
        let usual = SessionTiming::suggestion(
            Duration::from_secs(15),
            Drift::default(),
            Duration::from_secs(2),
        );
        assert_eq!(usual, seconds(15, 10, 2).durations());
    }
}
