//! The last that a candidate saw of the record, and from when on that lets others take it.
//!
//! Pure. Patience is counted from the instant at which a changed record was received, over the duration in that
//! record. A record that vanished is waited out too: who held it may still lead.

use crate::identity::Identity;
use crate::instant::Instant;
use crate::record::messages::Snapshot;
use crate::timing::Jitter;
use std::time::Duration;

/// Spreads candidates that wait for the same lease to run out: as far as leaves a read and a write their time within 100 ms.
const SPREAD_AFTER_LAPSE: Duration = Duration::from_millis(75);

/// What was seen, and until when it must be respected.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Seen {
    snapshot: Option<Snapshot>,
    /// The version of the newest record, also when that is gone.
    number: u128,
    lapses_at: Instant,
    spread: Duration,
}

impl Seen {
    /// What is known after `snapshot` was received at `now`; `before` is what was known until then.
    pub(super) fn after(
        before: Option<&Self>,
        snapshot: Option<Snapshot>,
        now: Instant,
        default_patience: Duration,
        jitter: &mut Jitter,
    ) -> Self {
        let (lapses_at, spread) = match (before, &snapshot) {
            (Some(seen), None) => (seen.lapses_at, seen.spread),
            (Some(seen), Some(new)) if seen.is_same(new) => (seen.lapses_at, seen.spread),
            (None, None) => (now, Duration::ZERO),
            // Nobody waits for what was given back: each that saw it reads once, however they are spread.
            (_, Some(new)) if new.record.holder.is_none() => (now, Duration::ZERO),
            (_, Some(new)) => {
                let patience = new.record.duration.unwrap_or(default_patience);
                (now + patience, jitter.below(SPREAD_AFTER_LAPSE))
            }
        };
        let known = before.map_or(0, |seen| seen.number);
        let number = snapshot.as_ref().map_or(known, |snapshot| snapshot.version.number);
        // A store that was set back has forgotten writes, but not he who made them: he may still lead.
        let forgotten = before.filter(|_| number < known).map_or(lapses_at, |seen| seen.lapses_at);
        Self { snapshot, number, lapses_at: lapses_at.max(forgotten), spread }
    }

    /// Whether `new` says what we knew: a stranger's edit of other metadata moves the version and nothing else.
    fn is_same(&self, new: &Snapshot) -> bool {
        let old = self.snapshot.as_ref();
        old.is_some_and(|old| old.record == new.record && old.version.uid == new.version.uid)
    }

    /// The record, unless it is gone.
    pub(super) fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    /// The version of the newest record, also when that is gone.
    pub(super) const fn number(&self) -> u128 {
        self.number
    }

    /// Whether a notice of this version tells nothing new.
    pub(super) fn knows(&self, version: u128) -> bool {
        version <= self.number
    }

    /// Who holds the election at `now`.
    pub(super) fn holder(&self, now: Instant) -> Option<&Identity> {
        self.snapshot.as_ref().filter(|_| now < self.lapses_at)?.record.holder.as_ref()
    }

    /// When the record stops to protect its holder.
    pub(super) const fn lapses_at(&self) -> Instant {
        self.lapses_at
    }

    /// When we may take it: a little later, and each candidate at a moment of its own.
    pub(super) fn free_at(&self) -> Instant {
        self.lapses_at + self.spread
    }
}
