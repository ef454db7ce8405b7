//! How long a candidate waits: for its application, for a stop that was announced, and for preferred
//! candidates.
//!
//! Pure. Start with [`require_polling`]. A limit below one answer and one retry would end before it
//! has an effect.

use super::{ConfigError, ErrorCollector, StoreKind, non_empty};
use crate::cli::{Environment, Settings};
use baton_election::record::preference::Preference;
use baton_election::timing::Timing;
use std::time::Duration;

/// The default of `--stopping-limit`: longer than most Pods take to end.
const DEFAULT_STOPPING_LIMIT: Duration = Duration::from_mins(10);

/// The value of `--require-polling`.
pub(super) fn require_polling(
    settings: &Settings,
    timing: Option<&Timing>,
    errors: &mut ErrorCollector,
) -> Option<Duration> {
    let limit = errors.duration("require-polling", non_empty(settings.require_polling.as_ref()))?;
    if let Some(least) = timing.map(shortest_limit).filter(|least| limit < *least) {
        errors.0.push(ConfigError::Polling { limit, least });
    }
    Some(limit)
}

/// The value of `--stopping-limit`.
pub(super) fn stopping_limit(
    settings: &Settings,
    timing: Option<&Timing>,
    errors: &mut ErrorCollector,
) -> Duration {
    let flag = non_empty(settings.stopping_limit.as_ref());
    let Some(limit) = errors.duration("stopping-limit", flag) else {
        return DEFAULT_STOPPING_LIMIT;
    };
    if let Some(least) = timing.map(shortest_limit).filter(|least| limit < *least) {
        errors.0.push(ConfigError::StoppingLimit { limit, least });
    }
    limit
}

/// The value of `--stand-after`.
pub(super) fn preference(
    settings: &Settings,
    environment: &Environment,
    timing: Option<&Timing>,
    errors: &mut ErrorCollector,
) -> Preference {
    let flag = non_empty(settings.stand_after.as_ref());
    let stand_after = errors.duration("stand-after", flag).unwrap_or_default();
    if stand_after.is_zero() {
        return Preference::FIRST;
    }
    if StoreKind::chosen(settings, environment) == Ok(StoreKind::ZooKeeper) {
        errors.0.push(ConfigError::PreferenceInQueue);
    }
    let preference = timing.map(|timing| Preference::new(stand_after, timing));
    let preference = preference.transpose().map_err(ConfigError::Preference);
    errors.check(preference).flatten().unwrap_or_default()
}

/// The shortest time within which an application asks again and gets its answer.
fn shortest_limit(timing: &Timing) -> Duration {
    timing.answer_validity() + timing.retry_period()
}
