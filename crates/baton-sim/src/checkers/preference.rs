//! Preferences: a free record is left to preferred candidates, and that wait adds to no other.
//!
//! Pure. [`FreeRecord`] is a second account of when a record becomes free, kept from what a
//! candidate has seen. Start with [`no_early_acquisition`]. Each function is one property.

use super::candidate_view::Race;
use super::exclusion::name;
use super::inspect::Inspect;
use super::state::CheckerState;
use crate::trace::{TraceContext, TraceEvent};
use baton_election::instant::Instant;
use baton_election::machine::Election;
use baton_election::record::messages::Snapshot;
use baton_election::record::preference::Preference;
use baton_election::timing::Timing;
use std::time::Duration;

/// The longest time that a read and a write take beyond their latency, and the longest spread.
const MAX_ACQUISITION: Duration = Duration::from_millis(200);

/// When a record becomes free, by what one candidate has seen and by its own clock.
#[derive(Clone, Debug)]
pub(super) struct FreeRecord {
    /// Whether the candidate leaves a free record to others. If not, nothing is kept.
    is_kept: bool,
    record: Option<Snapshot>,
    free_at: Option<Instant>,
    /// When it certainly knew of this record. A candidate that releases ignores watch events.
    known_at: Option<Instant>,
}

impl FreeRecord {
    pub(super) fn new(preference: Preference) -> Self {
        Self {
            is_kept: preference != Preference::FIRST,
            record: None,
            free_at: None,
            known_at: None,
        }
    }

    /// The candidate sees this record. An edit of metadata changes nothing.
    pub(super) fn observe(
        &mut self,
        snapshot: &Snapshot,
        timing: &Timing,
        at: Instant,
        is_certain: bool,
    ) {
        let known_at = is_certain.then_some(at);
        // Renewals are the most common changes.
        let is_same = |seen: &Snapshot| {
            seen.record.renewed == snapshot.record.renewed
                && seen.record == snapshot.record
                && seen.version.uid == snapshot.version.uid
        };
        if !self.is_kept || self.record.as_ref().is_some_and(is_same) {
            self.known_at = self.known_at.or(known_at);
            return;
        }
        self.known_at = known_at;
        let record = &snapshot.record;
        let is_same_term = self.record.as_ref().is_some_and(|seen| {
            seen.record.holder.is_some()
                && seen.record.transitions == record.transitions
                && seen.version.uid == snapshot.version.uid
        });
        let free_at = match record.holder {
            Some(_) => at + record.duration.unwrap_or_else(|| timing.lease_duration()),
            // A record whose lease has lapsed is free before its holder releases it.
            None => self.free_at.filter(|_| is_same_term).map_or(at, |free_at| free_at.min(at)),
        };
        // A candidate that may have ignored this record may still wait for the earlier one.
        let free_at = match self.free_at {
            Some(earlier) if !is_certain => earlier.min(free_at),
            Some(_) | None => free_at,
        };
        (self.record, self.free_at) = (Some(snapshot.clone()), Some(free_at));
    }

    /// The candidate reads that there is no record. One that it has seen is waited out.
    pub(super) fn is_absent(&mut self, at: Instant) {
        if self.is_kept {
            (self.record, self.free_at) = (None, self.free_at.or(Some(at)));
        }
    }

    /// Whether `snapshot` is a later version of the same record, and not of one created since.
    pub(super) fn is_continued_by(&self, snapshot: &Snapshot) -> bool {
        self.record.as_ref().is_some_and(|seen| seen.version.uid == snapshot.version.uid)
    }

    /// Whether the candidate saw that the record was released.
    fn is_released(&self) -> bool {
        self.record.as_ref().is_some_and(|seen| seen.record.holder.is_none())
    }
}

/// A candidate does not acquire a free record before its preference has passed. A record that names
/// the candidate is not free. A write over a version that has been replaced acquires nothing: a
/// candidate that released without an answer may send one.
pub(super) fn no_early_acquisition<E: Inspect>(
    state: &CheckerState,
    _: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::RequestSent(number, request, sent) = event else { return None };
    let candidate = &state.candidates[*number];
    let free_record = &candidate.free_record;
    let holder = free_record.record.as_ref().and_then(|seen| seen.record.holder.as_ref());
    let is_own = holder.is_some() && holder == candidate.identity.as_ref();
    let is_replaced =
        |base| free_record.record.as_ref().is_some_and(|seen| base < seen.version.number);
    let is_void = E::replaced_version(request).is_some_and(is_replaced);
    let waits_until = free_record.free_at? + candidate.preference.stand_after();
    (E::is_acquisition(request) && !is_own && !is_void && *sent < waits_until).then(|| {
        format!(
            "{} acquires the record at {sent:?}, but waits until {waits_until:?}",
            name(*number)
        )
    })
}

/// The preference overlaps damping and hold-offs: a candidate waits for a released record until the
/// last of these waits ends, not for their sum.
pub(super) fn waits_overlap<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    _: &TraceEvent<'_, E>,
) -> Option<String> {
    let is_foreign = state.external_change.is_some() || state.restored_at.is_some();
    if state.has_leader(context.now) || state.holder.is_some() || is_foreign {
        return None;
    }
    (0..state.candidates.len()).find_map(|number| {
        let candidate = &state.candidates[number];
        let free_at = candidate.free_record.free_at?.max(candidate.free_record.known_at?);
        if !candidate.free_record.is_released() || matches!(candidate.race, Race::Lost(_)) {
            return None;
        }
        let due = (free_at + candidate.preference.stand_after())
            .max(candidate.backoff_until)
            .max(candidate.paused_at);
        let since = context.clocks[number].when(due).max(state.fault_free_since(number)?);
        let waited = context.now.since(since);
        let timing = &candidate.timing;
        let bound = timing.retry_period() * 2
            + candidate.call_budget()
            + MAX_ACQUISITION
            + state.latency * 16;
        (waited > bound).then(|| {
            format!("{} still waits, {waited:?} after the latest wait has ended", name(number))
        })
    })
}
