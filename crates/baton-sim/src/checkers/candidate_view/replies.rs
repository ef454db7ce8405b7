//! How replies and watch events change the view of a candidate.
//!
//! Pure. Start with [`CandidateView::receive_reply`].

use super::{CandidateView, Race, RoleWhenSent};
use crate::checkers::inspect::ReportedRecord;
use crate::clock::Moment;
use baton_election::instant::Instant;
use baton_election::machine::{Event, Outcome, Verb};
use std::mem::replace;

impl CandidateView {
    /// The candidate receives the reply to its pending request.
    pub(in crate::checkers) fn receive_reply<E: Event>(&mut self, event: &E, now: Instant) {
        self.last_input_at = now;
        let verb = self.pending.take();
        let was_write = verb.is_some_and(|verb| verb != Verb::Read);
        self.fresh_read_at =
            (verb == Some(Verb::Read) && event.outcome() == Outcome::Applied).then_some(now);
        self.stale_below = if was_write { 0 } else { self.stale_below };
        self.failed = verb.filter(|_| event.outcome() == Outcome::Unknown);
        match self.failed {
            None => (self.answered_at, self.last_checked_at) = (now, now),
            Some(Verb::Read) => {}
            Some(_) => {
                self.required_version =
                    self.required_version.max(self.base_version.map_or(0, |base| base + 1));
            }
        }
        if event.outcome() == Outcome::Unknown || was_write && self.applied_write.is_none() {
            self.backoff_until = self.sent_at + self.timing.retry_period();
        }
        match event.outcome() {
            Outcome::Applied if was_write => {
                self.acknowledged_write = self.applied_write.take().or(self.acknowledged_write);
            }
            Outcome::Conflict => {
                let before = replace(&mut self.refused_base, self.base_version);
                let is_holder =
                    self.role_when_sent == RoleWhenSent::Leading || self.withdrawal.is_some();
                self.overtaken_writes += u32::from(is_holder && before < self.base_version);
                (self.has_released, self.contradicted_at) = (false, Some(now));
                self.race = if self.race == Race::Running { Race::Lost(now) } else { Race::None };
            }
            Outcome::Applied | Outcome::Unknown => {}
        }
        if was_write && event.outcome() != Outcome::Conflict {
            self.refused_base = None;
        }
    }

    /// Records what a watch event or a reply reports about the record. Watch events may be old, and
    /// may report a record that has been deleted since.
    pub(in crate::checkers) fn learn(
        &mut self,
        reported_record: ReportedRecord<'_>,
        now: Moment,
        is_watch_event: bool,
    ) {
        if is_watch_event {
            (self.fresh_read_at, self.race) = (None, Race::None);
        }
        if !is_watch_event && self.stale_below == u128::MAX {
            // The reply was overtaken, so the candidate ignores it.
            self.fresh_read_at = None;
            return;
        }
        match reported_record {
            ReportedRecord::Unspecified => {}
            ReportedRecord::Absent => {
                self.believed_holder = None;
                // An overtaken read is repeated.
                if !is_watch_event && self.stale_below == 0 {
                    self.free_record.is_absent(self.last_input_at);
                }
                if is_watch_event {
                    // Even an old event makes the candidate read before it renews.
                    (self.deletion_seen_at, self.contradicted_at) =
                        (Some(now), Some(self.last_input_at));
                    self.stale_below = u128::MAX;
                }
            }
            ReportedRecord::Present(snapshot) => {
                let (version, holder) = (snapshot.version.number, snapshot.record.holder.as_ref());
                // A read that a watch event overtook is repeated.
                let is_current = !is_watch_event && version >= self.stale_below;
                self.fresh_read_at = self.fresh_read_at.filter(|_| is_current);
                self.last_seen_version =
                    if is_current { version } else { self.last_seen_version.max(version) };
                self.required_version = self.required_version.max(version);
                let is_newer = version > self.newest_version;
                if is_watch_event && is_newer {
                    self.stale_below = self.stale_below.max(version);
                }
                // A stale read that no event overtook looks like a restored store, so higher
                // versions are new again.
                if is_newer || is_current {
                    (self.newest_version, self.believed_holder) = (version, holder.cloned());
                    // A leader reads before it accepts that its record was replaced. The exception
                    // is a watch event of its own write, which may arrive before the reply.
                    let at = self.last_input_at;
                    let is_own = holder.is_some() && holder == self.identity.as_ref();
                    let is_own = is_own && self.free_record.is_continued_by(snapshot);
                    if !is_watch_event || is_own || !self.claims(at) {
                        let is_certain = !is_watch_event || self.is_campaigning;
                        self.free_record.observe(snapshot, &self.timing, at, is_certain);
                    }
                }
            }
        }
    }
}
