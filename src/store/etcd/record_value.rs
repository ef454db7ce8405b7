//! The JSON form of a record in etcd: the words of a record file, without its version, which etcd
//! keeps.
//!
//! Pure. Start with [`StoredRecord`].

use crate::store::etcd::messages::KeyValue;
use baton_election::identity::{Identity, IdentityError};
use baton_election::record::messages::{Intent, Record, Snapshot, Stamp, Version, Write};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The marker that distinguishes records from other values.
const FORMAT: &str = "baton.etcd-record/1";

/// The last time that RFC 3339 can express, in microseconds since the epoch.
const LAST_TIME: u64 = 253_402_300_799_999_999;

/// Why a value is not a record.
#[derive(Debug, thiserror::Error)]
pub enum RecordValueError {
    /// Another program wrote it.
    #[error("it is not a record in JSON")]
    Json(#[from] serde_json::Error),
    /// Another version of Baton wrote it, or another program.
    #[error("its format is {0:?}, not {FORMAT:?}")]
    Format(String),
    /// It was edited by hand.
    #[error("its holder is not a valid identity")]
    Holder(#[from] IdentityError),
}

/// A record as JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredRecord {
    format: String,
    holder_identity: String,
    lease_duration_ms: u64,
    acquire_time: String,
    renew_time: String,
    lease_transitions: u32,
}

impl StoredRecord {
    /// Parses a key's value, and returns it with the record for the machine.
    pub fn parse(found: &KeyValue) -> Result<(Self, Snapshot), RecordValueError> {
        let stored: Self = serde_json::from_slice(&found.value)?;
        if stored.format != FORMAT {
            return Err(RecordValueError::Format(stored.format));
        }
        let holder = Some(stored.holder_identity.as_str()).filter(|holder| !holder.is_empty());
        let record = Record {
            holder: holder.map(Identity::parse).transpose()?,
            duration: Some(Duration::from_millis(stored.lease_duration_ms))
                .filter(|duration| !duration.is_zero()),
            transitions: stored.lease_transitions,
            acquired: Stamp(stored.acquire_time.clone()),
            renewed: Stamp(stored.renew_time.clone()),
        };
        let uid = Arc::from(found.create_revision.to_string());
        let version = Version { uid, number: found.mod_revision.into() };
        Ok((stored, Snapshot { version, record }))
    }

    /// The key's value.
    pub(super) fn to_text(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a record of strings and numbers serializes")
    }

    /// When it was last written, by its writer's clock.
    pub(super) fn renewed_at(&self) -> Option<SystemTime> {
        humantime::parse_rfc3339(&self.renew_time).ok()
    }

    /// The record after `write` replaces `current` at the time `wall`.
    ///
    /// Its time is later than that of `current`, even if the clock stops or goes back. So two
    /// renewals differ, and a candidate that saw the first notices the second.
    pub(super) fn after(current: Option<&Self>, write: &Write, wall: SystemTime) -> Self {
        let renewed_before = current.and_then(Self::renewed_at);
        let floor = renewed_before.map_or(0, |renewed| microseconds(renewed) + 1);
        let now = time_of(microseconds(wall).max(floor));
        let acquired = current.map(|stored| stored.acquire_time.clone());
        let acquire_time = match write.intent {
            Intent::Renew => acquired.unwrap_or_else(|| now.clone()),
            Intent::Acquire | Intent::Release => now.clone(),
        };
        Self {
            format: FORMAT.to_owned(),
            holder_identity: write.holder.as_ref().map(ToString::to_string).unwrap_or_default(),
            lease_duration_ms: milliseconds_rounded_up(write.duration),
            acquire_time,
            renew_time: now,
            lease_transitions: write.transitions,
        }
    }
}

fn milliseconds_rounded_up(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn microseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

fn time_of(microseconds: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_micros(microseconds.min(LAST_TIME));
    humantime::format_rfc3339_micros(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(intent: Intent) -> Write {
        let us = Identity::parse("us_1").unwrap();
        Write::over(None, intent, &us, Duration::from_secs(15))
    }

    fn snapshot(stored: &StoredRecord) -> Snapshot {
        let (create_revision, mod_revision) = (3, 7);
        let found = KeyValue { value: stored.to_text(), create_revision, mod_revision };
        StoredRecord::parse(&found).unwrap().1
    }

    #[test]
    fn record_keeps_what_was_written() {
        let wall = UNIX_EPOCH + Duration::from_micros(1_700_000_000_123_456);
        let snapshot = snapshot(&StoredRecord::after(None, &write(Intent::Acquire), wall));
        assert_eq!((&*snapshot.version.uid, snapshot.version.number), ("3", 7));
        assert!(write(Intent::Acquire).is_kept_in(&snapshot.record));
        assert_eq!(snapshot.record.renewed.0, "2023-11-14T22:13:20.123456Z");
        let released = StoredRecord::after(None, &write(Intent::Release), wall);
        assert_eq!(self::snapshot(&released).record.holder, None);
    }

    /// Candidates notice a renewal by its time, which must advance although the clock does not.
    #[test]
    fn renewals_differ_even_if_the_clock_goes_back() {
        let wall = UNIX_EPOCH + Duration::from_secs(1_000);
        let first = StoredRecord::after(None, &write(Intent::Acquire), wall);
        let earlier = UNIX_EPOCH + Duration::from_secs(10);
        let second = StoredRecord::after(Some(&first), &write(Intent::Renew), earlier);
        assert_ne!(first.renew_time, second.renew_time);
        assert_eq!(first.acquire_time, second.acquire_time, "it is the same term");
        let third = StoredRecord::after(Some(&second), &write(Intent::Acquire), wall);
        assert_eq!(third.acquire_time, third.renew_time, "it is a new term");
    }

    #[test]
    fn other_values_are_no_record() {
        let text = |value: &str| {
            let value = value.as_bytes().to_vec();
            StoredRecord::parse(&KeyValue { value, create_revision: 1, mod_revision: 1 })
        };
        assert!(matches!(text("me"), Err(RecordValueError::Json(_))));
        let stored = StoredRecord::after(None, &write(Intent::Acquire), UNIX_EPOCH);
        let later = String::from_utf8(stored.to_text()).unwrap().replace("record/1", "record/2");
        assert!(matches!(text(&later), Err(RecordValueError::Format(_))));
    }
}
