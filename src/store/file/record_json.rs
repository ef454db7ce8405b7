//! The JSON form of a record, with a Lease's field names.
//!
//! Pure. Start with [`StoredRecord`].

use baton_election::identity::Identity;
use baton_election::record::messages::{Intent, Record, Snapshot, Stamp, Version, Write};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The marker that distinguishes records from other files.
const FORMAT: &str = "baton.record/1";

/// Why a file is not a record.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecordFormatError {
    #[error("it is not a record in JSON")]
    Json(#[from] serde_json::Error),
    #[error("its format is {0:?}, not {FORMAT:?}")]
    Format(String),
    #[error("its version is the largest possible, so no later token could be larger")]
    LastVersion,
    #[error("its holder is not a valid identity")]
    Holder(#[from] baton_election::identity::IdentityError),
}

/// A record as JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredRecord {
    format: String,
    holder_identity: String,
    lease_duration_ms: u64,
    acquire_time: String,
    renew_time: String,
    lease_transitions: u32,
    uid: String,
    #[serde(with = "decimal")]
    version: u128,
}

/// A number as a decimal string, since JSON readers may round numbers.
mod decimal {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(
        number: &u128,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<u128, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl StoredRecord {
    /// Parses the content of a file.
    pub(super) fn parse(text: &[u8]) -> Result<(Self, Snapshot), RecordFormatError> {
        let stored: Self = serde_json::from_slice(text)?;
        let snapshot = stored.snapshot()?;
        Ok((stored, snapshot))
    }

    /// The content of a file.
    pub(super) fn to_text(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a record of strings and numbers serializes")
    }

    /// The record after `write` replaces `current` at the time `wall`. `uid` creates the uid of a
    /// new record.
    pub(super) fn after(
        current: Option<Self>,
        write: &Write,
        wall: SystemTime,
        uid: impl FnOnce() -> String,
    ) -> Result<Self, RecordFormatError> {
        let (uid, floor, acquired) = match current {
            Some(stored) => {
                let next = stored.version.checked_add(1).ok_or(RecordFormatError::LastVersion)?;
                (stored.uid, next, Some(stored.acquire_time))
            }
            None => (uid(), 0, None),
        };
        // Larger than the previous version. A deletion leaves none, so versions start from the wall
        // clock. The times derive from the version, so renewals differ even if the clock stops.
        let version = floor.max(microseconds_since_epoch(wall));
        let now = time_of(version);
        let acquire_time = match write.intent {
            Intent::Renew => acquired.unwrap_or_else(|| now.clone()),
            Intent::Acquire | Intent::Release => now.clone(),
        };
        Ok(Self {
            format: FORMAT.to_owned(),
            holder_identity: write.holder.as_ref().map(ToString::to_string).unwrap_or_default(),
            lease_duration_ms: milliseconds_rounded_up(write.duration),
            acquire_time,
            renew_time: now,
            lease_transitions: write.transitions,
            uid,
            version,
        })
    }

    /// The snapshot for the machine.
    pub(super) fn snapshot(&self) -> Result<Snapshot, RecordFormatError> {
        if self.format != FORMAT {
            return Err(RecordFormatError::Format(self.format.clone()));
        }
        let holder = Some(self.holder_identity.as_str()).filter(|holder| !holder.is_empty());
        let record = Record {
            holder: holder.map(Identity::parse).transpose()?,
            duration: Some(Duration::from_millis(self.lease_duration_ms))
                .filter(|duration| !duration.is_zero()),
            transitions: self.lease_transitions,
            acquired: Stamp(self.acquire_time.clone()),
            renewed: Stamp(self.renew_time.clone()),
        };
        Ok(Snapshot {
            version: Version { uid: Arc::from(self.uid.as_str()), number: self.version },
            record,
        })
    }
}

fn milliseconds_rounded_up(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn time_of(version: u128) -> String {
    let since_epoch = Duration::from_micros(u64::try_from(version).unwrap_or(u64::MAX));
    // The last time that RFC 3339 can express, shown for a version edited beyond it.
    let last = UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    humantime::format_rfc3339_micros(
        UNIX_EPOCH.checked_add(since_epoch).map_or(last, |time| time.min(last)),
    )
    .to_string()
}

fn microseconds_since_epoch(wall: SystemTime) -> u128 {
    wall.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros())
}
