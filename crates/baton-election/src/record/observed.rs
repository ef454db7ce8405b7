//! The record as a candidate last saw it, and when another candidate may acquire it.
//!
//! Pure. Start with [`ObservedRecord`]. A lease counts from the instant at which a changed record
//! was received, over the duration in that record. A deleted record is waited out too, because its
//! holder may still lead.

use crate::identity::Identity;
use crate::instant::Instant;
use crate::record::messages::Snapshot;
use crate::timing::Jitter;
use std::time::Duration;

/// Spreads the candidates that wait for the same lease to expire. It leaves 25 ms for a read and a
/// write, so that a new leader follows within 100 ms.
const SPREAD_AFTER_LAPSE: Duration = Duration::from_millis(75);

/// The newest record, and how long it protects its holder.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct ObservedRecord {
    snapshot: Option<Snapshot>,
    /// The version of the newest record, even if that was deleted.
    version: u128,
    lapses_at: Instant,
    spread: Duration,
}

impl ObservedRecord {
    /// The knowledge after `snapshot` was received at `now`, given the knowledge `before`.
    pub(super) fn after(
        before: Option<&Self>,
        snapshot: Option<Snapshot>,
        now: Instant,
        default_lease_duration: Duration,
        jitter: &mut Jitter,
    ) -> Self {
        let (lapses_at, spread) = match (before, &snapshot) {
            (Some(old), None) => (old.lapses_at, old.spread),
            (Some(old), Some(new)) if old.is_same(new) => (old.lapses_at, old.spread),
            (None, None) => (now, Duration::ZERO),
            // The record is free since its lease lapsed, even if its holder releases it later.
            (Some(old), Some(new)) if old.is_released_by(new) => {
                (old.lapses_at.min(now), Duration::ZERO)
            }
            // A released record is free at once. Every candidate that saw the release writes once,
            // with or without a spread.
            (_, Some(new)) if new.record.holder.is_none() => (now, Duration::ZERO),
            (_, Some(new)) => {
                let lease_duration = new.record.duration.unwrap_or(default_lease_duration);
                (now + lease_duration, jitter.below(SPREAD_AFTER_LAPSE))
            }
        };
        let known = before.map_or(0, |old| old.version);
        let version = snapshot.as_ref().map_or(known, |snapshot| snapshot.version.number);
        // A restored store has lost writes, but their authors may still lead. A record that changed
        // under one version shows a restored store too: that version was handed out again.
        let lost_lapses_at =
            before.filter(|_| version <= known).map_or(lapses_at, |old| old.lapses_at);
        Self { snapshot, version, lapses_at: lapses_at.max(lost_lapses_at), spread }
    }

    /// Whether `new` holds the same record. An edit of its metadata changes only the version.
    fn is_same(&self, new: &Snapshot) -> bool {
        // Renewals are the most common changes.
        self.snapshot.as_ref().is_some_and(|old| {
            old.record.renewed == new.record.renewed
                && old.record == new.record
                && old.version.uid == new.version.uid
        })
    }

    /// Whether `new` is the release of the term that this record belongs to.
    fn is_released_by(&self, new: &Snapshot) -> bool {
        self.snapshot.as_ref().is_some_and(|old| {
            old.record.holder.is_some()
                && new.record.holder.is_none()
                && old.record.transitions == new.record.transitions
                && old.version.uid == new.version.uid
        })
    }

    /// The record; `None` if it was deleted.
    pub(super) fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    /// The version of the newest record, even if that was deleted.
    pub(super) const fn version(&self) -> u128 {
        self.version
    }

    /// Whether a watch event of this version carries nothing new.
    pub(super) fn knows(&self, version: u128) -> bool {
        version <= self.version
    }

    /// The holder of the election at `now`.
    pub(super) fn holder(&self, now: Instant) -> Option<&Identity> {
        self.snapshot.as_ref().filter(|_| now < self.lapses_at)?.record.holder.as_ref()
    }

    /// When the record stops protecting its holder.
    pub(super) const fn lapses_at(&self) -> Instant {
        self.lapses_at
    }

    /// When the record becomes free for this candidate: after the lapse, plus a spread that differs
    /// between candidates.
    pub(super) fn free_at(&self) -> Instant {
        self.lapses_at + self.spread
    }
}
