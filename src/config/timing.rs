//! The checked durations of a configuration.
//!
//! Pure. Start with [`timing`].

use crate::cli::Settings;
use crate::config::{ConfigError, ErrorCollector, TimingFlags, non_empty, zookeeper};
use baton_election::timing::{Drift, Durations, Timing};
use std::time::Duration;

/// The longest `leaseDurationSeconds` of a Lease, an int32 (`k8s.io/api/coordination/v1`).
pub(super) const MAX_LEASE_DURATION: Duration = Duration::from_secs(0x7fff_ffff);

/// The durations of `settings`. Returns `None` and collects errors if one is invalid.
pub(super) fn timing(settings: &Settings, errors: &mut ErrorCollector) -> Option<Timing> {
    let before = errors.0.len();
    let mut duration = |flag, value, default| errors.duration(flag, value).unwrap_or(default);
    let seconds = Duration::from_secs;
    let lease_duration =
        duration("lease-duration", non_empty(settings.lease_duration.as_ref()), seconds(15));
    let renew_deadline =
        duration("renew-deadline", non_empty(settings.renew_deadline.as_ref()), seconds(10));
    let retry_period =
        duration("retry-period", non_empty(settings.retry_period.as_ref()), seconds(2));
    let answer_validity =
        duration("answer-validity", non_empty(settings.answer_validity.as_ref()), retry_period);
    let drift =
        non_empty(settings.max_clock_drift.as_ref()).map_or_else(|| Ok(Drift::default()), drift);
    let drift = errors.check(drift)?;
    if lease_duration > MAX_LEASE_DURATION {
        errors.0.push(ConfigError::LeaseTooLong(lease_duration));
    }
    if errors.0.len() > before {
        return None;
    }
    let durations = Durations { lease_duration, renew_deadline, retry_period, answer_validity };
    let suggestion = match non_empty(settings.backend.as_ref()) {
        Some("zookeeper") => zookeeper::suggestion(settings, lease_duration, drift),
        Some(_) | None => Timing::suggestion(lease_duration, drift),
    };
    let to_config_error = |error| ConfigError::Timing(error, TimingFlags::new(suggestion));
    Timing::new(durations, drift)
        .map_err(|found| errors.0.extend(found.into_iter().map(to_config_error)))
        .ok()
}

fn drift(text: &str) -> Result<Drift, ConfigError> {
    let percent = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let parts = percent
        .filter(|percent| (0.0..100.0).contains(percent))
        .map(|percent| (percent * 10_000.0).ceil());
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number from 0 to a million"
    )]
    let drift = parts.and_then(|parts| Drift::parts_per_million(parts as u32));
    drift.ok_or_else(|| ConfigError::Drift(text.to_owned()))
}
