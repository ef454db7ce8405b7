//! A record as its file spells it: JSON, in a Lease's words.
//!
//! Pure. Start with [`Stored`].

use baton_election::identity::Identity;
use baton_election::record::messages::{Intent, Record, Snapshot, Stamp, Version, Write};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The marker that tells our records from other files.
const FORMAT: &str = "baton.record/1";

/// Why a file is not a record.
#[derive(Debug, thiserror::Error)]
pub(super) enum ForeignError {
    #[error("it is not the JSON of a record")]
    Json(#[from] serde_json::Error),
    #[error("its format is {0:?}")]
    Format(String),
    #[error("its version is the largest that there is, so that no token after it could be larger")]
    LastVersion,
    #[error("its holder cannot be an identity")]
    Holder(#[from] baton_election::identity::IdentityError),
}

/// A record as its file spells it: a Lease's words.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stored {
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

/// A number that JSON readers would round, as a decimal string.
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

impl Stored {
    /// Parses the content of a file.
    pub(super) fn parse(text: &[u8]) -> Result<(Self, Snapshot), ForeignError> {
        let stored: Self = serde_json::from_slice(text)?;
        let snapshot = stored.snapshot()?;
        Ok((stored, snapshot))
    }

    /// The text of its file.
    pub(super) fn to_text(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a record of texts and numbers is JSON")
    }

    /// The record that `write` makes of `current` at this time; `uid` names a new one.
    pub(super) fn after(
        current: Option<Self>,
        write: &Write,
        wall: SystemTime,
        uid: impl FnOnce() -> String,
    ) -> Result<Self, ForeignError> {
        let (uid, floor, acquired) = match current {
            Some(stored) => {
                let next = stored.version.checked_add(1).ok_or(ForeignError::LastVersion)?;
                (stored.uid, next, Some(stored.acquire_time))
            }
            None => (uid(), 0, None),
        };
        // Larger than the version before; after a deletion, which leaves no version, by the wall
        // clock. The written time derives from it, so every renewal shows even while the wall clock
        // stands still.
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
    pub(super) fn snapshot(&self) -> Result<Snapshot, ForeignError> {
        if self.format != FORMAT {
            return Err(ForeignError::Format(self.format.clone()));
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
    // The last moment that RFC 3339 can write. A version that was edited beyond it shows this time.
    let last = UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    humantime::format_rfc3339_micros(
        UNIX_EPOCH.checked_add(since_epoch).map_or(last, |time| time.min(last)),
    )
    .to_string()
}

fn microseconds_since_epoch(wall: SystemTime) -> u128 {
    wall.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros())
}
