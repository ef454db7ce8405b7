//! The effect of a granted session timeout on the configured durations.
//!
//! Pure. Start with [`SessionTiming`]. At every connect a server grants a session timeout within
//! its own limits. A [`Granted`] that leaves no time for three renewal tries cannot be constructed.

use crate::duration::Rounded;
use crate::timing::{Drift, Durations, Timing, TimingError, from_nanos, whole_milliseconds};
use std::time::Duration;

/// The configured timing and the servers' tick time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SessionTiming {
    requested: Timing,
    tick: Duration,
}

/// The timing under a granted session timeout.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Granted {
    /// The session timeout.
    pub timeout: Duration,
    /// The durations. The renew deadline may be shorter than the configured one, and assumes that
    /// no heartbeat is delayed.
    pub timing: Timing,
}

/// The session timeout is too short to lead safely, or for long.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[error(
    "a session timeout of {} and a tick time of {} leave a renew deadline of {}, because the \
     servers may count the session from an earlier heartbeat: {cause}",
    Rounded::nearest(*.timeout),
    Rounded::nearest(*.tick),
    Rounded::down(*.renew_deadline)
)]
pub struct SessionTooShort {
    /// The session timeout that was granted, or is to be requested.
    pub timeout: Duration,
    /// The configured tick time of the servers.
    pub tick: Duration,
    /// The remaining renew deadline.
    pub renew_deadline: Duration,
    /// Why that is too short. Not an error source, because the message contains it.
    pub cause: TimingError,
    /// Valid durations, with the session timeout as the lease duration.
    pub remedy: Durations,
}

impl SessionTiming {
    /// Checks `requested` for servers that tick at least every `tick`, and that grant the lease
    /// duration as the session timeout. Returns every error.
    pub fn new(requested: Timing, tick: Duration) -> Result<Self, Vec<SessionTooShort>> {
        let timing = Self { requested, tick: tick.min(MAX_TICK) };
        timing.grant(requested.lease_duration()).map(|_| timing)
    }

    /// The configured timing. Its lease duration is the session timeout to request.
    pub const fn requested(&self) -> &Timing {
        &self.requested
    }

    /// The configured tick time of the servers.
    pub const fn tick(&self) -> Duration {
        self.tick
    }

    /// The timing under a session timeout of `timeout`.
    ///
    /// A claim counts from the newest heartbeat that is at least [`Self::lag`] older than the last
    /// one. If no heartbeat is delayed, that is one retry period back, or as many as the lag spans.
    pub fn grant(&self, timeout: Duration) -> Result<Granted, Vec<SessionTooShort>> {
        let drift = self.requested.drift();
        let Durations { renew_deadline, retry_period, .. } = self.requested.durations();
        let renew_deadline =
            remaining_renew_deadline(timeout, renew_deadline, retry_period, drift, self.tick);
        let durations =
            Durations { lease_duration: timeout, renew_deadline, ..self.requested.durations() };
        let too_short = |cause| {
            let remedy = Self::suggestion(timeout, drift, self.tick);
            SessionTooShort { timeout, tick: self.tick, renew_deadline, cause, remedy }
        };
        Timing::new(durations, drift)
            .map(|timing| Granted { timeout, timing })
            .map_err(|causes| causes.into_iter().map(too_short).collect())
    }

    /// The expected timing, and the shortest possible time between the end of one claim and the
    /// start of another candidate's.
    ///
    /// Assumes that the servers grant the requested timeout and that no heartbeat is delayed. The
    /// servers may still count the session from an earlier heartbeat than the last.
    pub fn expected(&self) -> (Timing, Duration) {
        let timing = self
            .grant(self.requested.lease_duration())
            .map_or(self.requested, |granted| granted.timing);
        let lifetime = timing.drift().min_elapsed(timing.lease_duration());
        let led = gap(timing.retry_period(), self.lag()) + timing.renew_deadline();
        (timing, lifetime.saturating_sub(led))
    }

    /// How much earlier than a request a reply must have arrived before a claim may count from it.
    ///
    /// Servers forward the sessions that were active with their replies to the ensemble leader's
    /// pings, one every half tick. A ping may take a quarter of a tick longer than the one before
    /// it, so two of these replies are up to ¾ tick apart on the ensemble leader's clock. The most
    /// time passes on our clock if ours is fast and the leader's is slow.
    ///
    /// Observers that follow a follower (`observerMasterPort`) forward in two steps. If candidates
    /// connect to such observers, configure twice the real tick time.
    pub fn lag(&self) -> Duration {
        lag(self.tick, self.requested.drift())
    }

    /// Valid durations for a session timeout of about `timeout`, in client-go's proportions if
    /// possible.
    pub fn suggestion(timeout: Duration, drift: Drift, tick: Duration) -> Durations {
        let mut lease_duration = timeout.max(Duration::from_millis(300));
        loop {
            let mut retry_period = whole_milliseconds(lease_duration / 15 * 2);
            while retry_period >= Timing::MIN_RETRY_PERIOD {
                let renew_deadline = remaining_renew_deadline(
                    lease_duration,
                    lease_duration / 3 * 2,
                    retry_period,
                    drift,
                    tick.min(MAX_TICK),
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

/// Servers store their tickTime in milliseconds, as a 32-bit signed integer.
const MAX_TICK: Duration = Duration::from_millis(i32::MAX as u64);

fn lag(tick: Duration, drift: Drift) -> Duration {
    drift.max_elapsed(tick / 2 + tick / 4)
}

/// The part of a `requested` renew deadline that a session timeout allows.
fn remaining_renew_deadline(
    timeout: Duration,
    requested: Duration,
    retry_period: Duration,
    drift: Drift,
    tick: Duration,
) -> Duration {
    requested.min(drift.min_elapsed(timeout).saturating_sub(gap(retry_period, lag(tick, drift))))
}

/// The time from the heartbeat that a claim counts from to the last one, if none is delayed.
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
    fn defaults_keep_their_renew_deadline() {
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
    fn expected_timing_reflects_a_cut_renew_deadline() {
        let timing = SessionTiming::new(seconds(10, 8, 2), Duration::from_secs(2)).unwrap();
        let (timing, margin) = timing.expected();
        assert_eq!(
            (timing.renew_deadline(), margin),
            (Duration::from_nanos(6_181_818_181), Duration::ZERO)
        );
    }

    #[test]
    fn short_sessions_cut_the_renew_deadline_or_are_rejected() {
        let timing = SessionTiming::new(seconds(15, 10, 2), Duration::from_secs(2)).unwrap();
        let granted = timing.grant(Duration::from_secs(10)).unwrap();
        assert_eq!(
            granted.timing.lease_duration(),
            Duration::from_secs(10),
            "the others wait for the granted timeout"
        );
        // 10 s × 0.9 / 1.1 − 2 s
        assert_eq!(granted.timing.renew_deadline(), Duration::from_nanos(6_181_818_181));
        let errors = timing.grant(Duration::from_secs(4)).unwrap_err();
        let [
            SessionTooShort {
                renew_deadline, remedy, cause: TimingError::TooFewTries { .. }, ..
            },
        ] = errors[..]
        else {
            panic!("{errors:?}")
        };
        assert_eq!(renew_deadline, Duration::from_nanos(1_272_727_272));
        let remedied = Timing::new(remedy, Drift::default()).unwrap();
        assert_eq!(
            remedy.lease_duration,
            Duration::from_secs(4),
            "the remedy fits the same session"
        );
        assert!(SessionTiming::new(remedied, Duration::from_secs(2)).is_ok(), "{remedy:?}");
    }

    #[test]
    fn lag_includes_the_drift_of_both_clocks() {
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
            SessionTiming { requested: timing, tick: Duration::from_millis(tick) }.lag()
        };
        assert_eq!(lag(0, 2_000), Duration::from_millis(1_500));
        // 1.5 s × 1.01 / 0.99, rounded up.
        assert_eq!(lag(10_000, 2_000), Duration::from_nanos(1_530_303_031));
        // 1.5 s × 1.1 / 0.9, rounded up.
        assert_eq!(lag(100_000, 2_000), Duration::from_nanos(1_833_333_334));
    }

    #[test]
    fn retry_period_below_the_lag_costs_a_heartbeat() {
        let retry_period = Duration::from_millis(1_600);
        let durations = Durations { retry_period, ..seconds(15, 10, 2).durations() };
        let timing = Timing::new(durations, Drift::default()).unwrap();
        let timing = SessionTiming::new(timing, Duration::from_secs(2)).unwrap();
        // 15 s × 0.9 / 1.1 − 2 × 1.6 s: the last heartbeat is 1.6 s old, and the lag is 1.83 s.
        let renew_deadline = timing.grant(Duration::from_secs(15)).unwrap().timing.renew_deadline();
        assert_eq!(renew_deadline, Duration::from_nanos(9_072_727_272));
    }

    #[test]
    fn lag_is_rounded_up_to_whole_heartbeats() {
        let timing = SessionTiming::new(seconds(15, 10, 1), Duration::from_secs(4)).unwrap();
        // The lag is 3 s × 1.1 / 0.9 = 3.67 s, so the fourth heartbeat back is the first that is
        // older.
        let renew_deadline = timing.grant(Duration::from_secs(15)).unwrap().timing.renew_deadline();
        assert_eq!(renew_deadline, Duration::from_nanos(8_272_727_272));
    }

    #[test]
    fn suggestions_are_valid() {
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
        let default = SessionTiming::suggestion(
            Duration::from_secs(15),
            Drift::default(),
            Duration::from_secs(2),
        );
        assert_eq!(default, seconds(15, 10, 2).durations());
    }
}
