//! Handles the replies and watch events of a record election.
//!
//! Pure. `record.rs` decides on requests. Start with [`RecordElection::handle_read`]: only a read,
//! and never a watch event, shows that a term of this candidate has ended.

use crate::candidacy::Candidacy;
use crate::claim::{Claim, FencingToken};
use crate::instant::Instant;
use crate::machine::{Reason, Transition};
use crate::record::RecordElection;
use crate::record::messages::{Intent, RecordAltered, RecordRequest, Snapshot, Write};
use crate::record::observed::ObservedRecord;
use crate::record::state::{InFlight, Knowledge, Role};
use std::cmp::{max, min};
use std::mem::replace;
use std::time::Duration;

/// How often a leader may retry within one [`RecordElection::retry_pause`], while its record keeps
/// being edited.
const MAX_TRIES_PER_PAUSE: u32 = 16;

impl RecordElection {
    pub(super) fn handle_read(&mut self, snapshot: Option<Snapshot>, now: Instant) {
        let ended = match (&self.role, &snapshot) {
            (Role::Unknown | Role::Following { .. }, _) => None,
            (Role::Leading { claim, .. }, Some(read)) if self.continues(claim.token(), read) => {
                None
            }
            (Role::Releasing { token, .. }, Some(read)) if self.continues(*token, read) => None,
            (Role::Leading { .. } | Role::Releasing { .. }, None) => Some(Reason::Deleted),
            (Role::Leading { .. } | Role::Releasing { .. }, Some(_)) => Some(Reason::Conflict),
        };
        if snapshot.as_ref().is_some_and(|read| read.version.number < self.examined_version) {
            self.examined_version = 0;
        }
        self.observe(snapshot, now);
        self.knowledge = if self.may_acquire(now) { Knowledge::Fresh } else { Knowledge::Cached };
        match (ended, &self.role) {
            (None, _) => self.update_followed_leader(now),
            // The release of unknown outcome was applied. Another candidate may have acquired
            // since.
            (Some(_), Role::Releasing { may_be_applied: true, .. }) => self.finish_release(now),
            (Some(reason), _) => self.lose(reason, now),
        }
    }

    fn may_acquire(&self, now: Instant) -> bool {
        match self.candidacy {
            Candidacy::Campaigning { from } => max(self.free_at(), from) <= now,
            Candidacy::Withdrawn(_) | Candidacy::Releasing(_) => false,
        }
    }

    /// Whether `read` is still the record of the term `token`. A version below the token means that
    /// the store was restored from a backup. It may have lost the tokens of other candidates.
    fn continues(&self, token: FencingToken, read: &Snapshot) -> bool {
        read.record.holder.as_ref() == Some(&self.identity)
            && self.last_snapshot().is_some_and(|last| last.version.uid == read.version.uid)
            && FencingToken::new(read.version.number) >= token
    }

    pub(super) fn handle_applied(
        &mut self,
        write: &Write,
        snapshot: Snapshot,
        call: &InFlight,
        now: Instant,
    ) {
        let sent = call.sent;
        if write.over.as_ref() == Some(&snapshot.version) {
            // A reply with the version that was sent means that nothing was written.
            return self.handle_unknown(&RecordRequest::Write(write.clone()), sent, now);
        }
        if !write.is_kept_in(&snapshot.record) {
            return self.handle_altered(write, snapshot, sent, now);
        }
        self.is_altered = false;
        let token = FencingToken::new(snapshot.version.number);
        self.observe(Some(snapshot), now);
        (self.not_before, self.last_conflict) = (now, None);
        // A watch event that contradicted the claim while the write was in flight still needs a
        // read.
        if self.knowledge != Knowledge::Contradicted {
            self.knowledge = Knowledge::Fresh;
        }
        if write.intent == Intent::Release {
            let ended_run = call.ended_run.clone();
            self.transitions
                .extend(ended_run.map(|identity| Transition::ReleasedForEndedRun { identity }));
            return self.finish_release(now);
        }
        let deadline = sent + self.timing.renew_deadline();
        let renew_at = sent + self.timing.retry_period();
        match &self.role {
            Role::Leading { claim, .. } if token < claim.token() => {
                self.lose(Reason::Conflict, now);
            }
            Role::Leading { claim, .. } => {
                let claim = Claim::new(claim.token(), max(deadline, claim.deadline()));
                self.role = Role::Leading { claim, renew_at };
            }
            Role::Unknown | Role::Following { .. } | Role::Releasing { .. }
                if deadline <= now || !self.is_campaigning() =>
            {
                self.update_followed_leader(now);
            }
            Role::Unknown | Role::Following { .. } | Role::Releasing { .. } => {
                self.knowledge = Knowledge::Fresh;
                self.role = Role::Leading { claim: Claim::new(token, deadline), renew_at };
                self.transitions.push_back(Transition::Leading { token });
            }
        }
    }

    /// Handles an applied write that the store altered, for example by a mutating webhook.
    ///
    /// Other candidates go by the record in the store, so the write earns no claim, and an earlier
    /// claim ends.
    fn handle_altered(&mut self, write: &Write, snapshot: Snapshot, sent: Instant, now: Instant) {
        if !replace(&mut self.is_altered, true) {
            let altered = RecordAltered::new(write, &snapshot.record);
            self.transitions.push_back(Transition::Diagnosed(altered));
        }
        self.observe(Some(snapshot), now);
        match write.intent {
            Intent::Release => self.handle_unknown(&RecordRequest::Write(write.clone()), sent, now),
            Intent::Acquire | Intent::Renew => {
                (self.knowledge, self.last_conflict) = (Knowledge::Cached, None);
                self.not_before = max(now, sent + self.retry_pause());
                self.lose(Reason::Conflict, now);
                self.update_followed_leader(now);
            }
        }
    }

    fn finish_release(&mut self, now: Instant) {
        self.knowledge = Knowledge::Cached;
        if let Role::Releasing { token, reason, .. } = self.role {
            self.transitions.push_back(Transition::Resigned { token, reason });
            self.role = Role::Unknown;
        }
        self.update_followed_leader(now);
    }

    pub(super) fn handle_conflict(&mut self, write: &Write, sent: Instant, now: Instant) {
        let is_overtaken = self.last_snapshot().map(|last| &last.version) != write.over.as_ref();
        self.read_at = match (&self.role, self.knowledge) {
            // The newer record arrived while the write was in flight. If it is our own record, a
            // proxy sent the write twice, and a read must follow.
            (Role::Following { .. }, Knowledge::Cached | Knowledge::Fresh)
                if is_overtaken && !self.is_ours =>
            {
                return;
            }
            // The race is lost. The watch brings the winner's record, so a thousand losers need not
            // read.
            (Role::Following { .. }, Knowledge::Fresh) => {
                self.last_conflict = None;
                // If the record was our own, the conflict may be with our own write. A watch event
                // of that write must not start another race at once.
                if self.is_ours {
                    self.not_before = max(now, sent + self.retry_pause());
                }
                now + self.timing.retry_period()
            }
            // After a write of unknown outcome, the conflict may be with that write.
            (
                Role::Following { .. },
                Knowledge::Cached | Knowledge::Uncertain | Knowledge::Contradicted,
            )
            | (Role::Unknown | Role::Leading { .. } | Role::Releasing { .. }, _) => {
                self.not_before = max(self.not_before, self.retry_after_conflict(write, sent, now));
                now
            }
        };
        self.knowledge = Knowledge::Contradicted;
    }

    /// When to read after a conflict.
    ///
    /// After the first conflict, at once. If the write after that read conflicts again, there are
    /// three possible causes: reads are stale, a proxy sends writes twice, or the record keeps
    /// being edited. A leader whose record advances retries after about one round trip, because a
    /// read and a write fit between two edits that are two round trips apart. Any other case is
    /// paced like a failure.
    fn retry_after_conflict(&mut self, write: &Write, sent: Instant, now: Instant) -> Instant {
        let over = write.over.as_ref().map_or(0, |over| over.number);
        match (self.last_conflict.replace(over), &self.role) {
            (None, _) => now,
            (Some(before), Role::Leading { .. } | Role::Releasing { .. }) if before < over => {
                let round_trip = now
                    .since(sent)
                    .clamp(self.retry_pause() / MAX_TRIES_PER_PAUSE, self.retry_pause());
                // Edits may be periodic: jitter keeps two tries from meeting them in the same
                // phase.
                let soon = now + round_trip + self.jitter.below(round_trip);
                // A late reply is not followed by a pause of the same length.
                min(soon, max(now, sent + self.retry_pause()))
            }
            (
                Some(_),
                Role::Unknown
                | Role::Following { .. }
                | Role::Leading { .. }
                | Role::Releasing { .. },
            ) => max(now, sent + self.retry_pause()),
        }
    }

    pub(super) fn handle_unknown(&mut self, request: &RecordRequest, sent: Instant, now: Instant) {
        let pause = match (request, &self.role) {
            (RecordRequest::Read, Role::Unknown | Role::Following { .. }) => {
                self.timing.retry_period()
            }
            (RecordRequest::Read, Role::Leading { .. } | Role::Releasing { .. })
            | (RecordRequest::Write(_), _) => self.retry_pause(),
        };
        if let RecordRequest::Write(write) = request {
            (self.knowledge, self.last_conflict) = (Knowledge::Uncertain, None);
            // A record created again gets a higher version than the deleted one.
            let newest = || self.observed.as_ref().map_or(0, ObservedRecord::version);
            let replaced = write.over.as_ref().map_or_else(newest, |over| over.number);
            self.min_version = max(self.min_version, replaced + 1);
        }
        if let Role::Releasing { may_be_applied, .. } = &mut self.role {
            *may_be_applied = true;
        }
        self.not_before = max(now, sent + pause);
    }

    /// The pause between a failed try and the next one, counted from when the failed one was sent.
    ///
    /// A try that failed at once, as with a refused connection, is not followed by the pause of one
    /// that timed out. Otherwise a store that recovers late would be tried too late to save the
    /// claim.
    fn retry_pause(&self) -> Duration {
        self.timing.call_timeout().min(self.timing.retry_period())
    }

    pub(super) fn handle_watch_event(&mut self, snapshot: Option<Snapshot>, now: Instant) {
        // A deletion has no version, so any read in flight may be older.
        let version = snapshot.as_ref().map_or(u128::MAX, |snapshot| snapshot.version.number);
        if version <= self.examined_version
            || self.observed.as_ref().is_some_and(|record| record.knows(version))
        {
            return;
        }
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.stale_below = max(in_flight.stale_below, version);
        }
        let Some(snapshot) = snapshot else {
            return self.recheck(now);
        };
        match &self.role {
            // The reply to the read or release in flight will show the record. A later read that
            // does not is stale.
            Role::Unknown | Role::Releasing { .. } => {
                self.min_version = max(self.min_version, version);
            }
            Role::Leading { claim, .. } if !self.continues(claim.token(), &snapshot) => {
                self.examined_version = version;
                self.recheck(now);
            }
            // Our own write, whose reply is still in flight, or an edit of metadata: only the
            // version matters.
            Role::Leading { .. } => self.observe(Some(snapshot), now),
            Role::Following { .. } => {
                let is_released = snapshot.record.holder.is_none();
                self.observe(Some(snapshot), now);
                // The conditional write over the version of a release fails if the release is not
                // the newest change, so a read would prove no more.
                let may_acquire = is_released && self.may_acquire(now);
                self.knowledge = if may_acquire { Knowledge::Fresh } else { Knowledge::Cached };
                self.update_followed_leader(now);
            }
        }
    }

    /// Reads the record at once, because it may have changed.
    pub(super) fn recheck(&mut self, now: Instant) {
        self.read_at = now;
        match (&self.role, self.knowledge) {
            (Role::Leading { .. }, _) => self.knowledge = Knowledge::Contradicted,
            // The record that was free may be gone.
            (Role::Following { .. }, Knowledge::Fresh) => self.knowledge = Knowledge::Cached,
            (Role::Unknown | Role::Following { .. } | Role::Releasing { .. }, _) => {}
        }
        // The change may be what caused the conflicts, so their pause need not delay the read.
        if self.last_conflict.is_some() {
            self.not_before = now;
        }
    }

    fn observe(&mut self, snapshot: Option<Snapshot>, now: Instant) {
        self.read_at = now + self.timing.retry_period() * 2;
        let lease_duration = self.timing.lease_duration();
        let version = snapshot.as_ref().map_or(0, |snapshot| snapshot.version.number);
        self.min_version = max(self.min_version, version);
        let holder = snapshot.as_ref().and_then(|snapshot| snapshot.record.holder.as_ref());
        self.is_ours = holder == Some(&self.identity);
        // A record that names the ended run later comes from a restored store, and another candidate
        // may lead; or from an acquisition that arrived late.
        self.ended_run = self.ended_run.take().filter(|run| holder == Some(&run.identity));
        self.observed = Some(ObservedRecord::after(
            self.observed.as_ref(),
            snapshot,
            now,
            lease_duration,
            &mut self.jitter,
        ));
    }

    pub(super) fn lose(&mut self, reason: Reason, now: Instant) {
        // A claim may end before its deadline. Until then, the last promise may be valid, and a
        // killed command may not be reaped. A release is ordered only after both.
        let (token, holds_until) = match &self.role {
            Role::Leading { claim, .. } => (claim.token(), claim.deadline()),
            Role::Releasing { token, .. } => (*token, now),
            Role::Unknown | Role::Following { .. } => return,
        };
        let version =
            self.last_snapshot().map_or(token, |last| FencingToken::new(last.version.number));
        if version < token {
            self.transitions.push_back(Transition::StoreWentBack { token, version });
        }
        self.transitions.push_back(Transition::Lost { token, reason });
        (self.role, self.last_conflict) = (Role::Unknown, None);
        self.holds_until = holds_until;
        self.update_followed_leader(now);
    }

    /// Updates the followed leader as of `now`.
    pub(super) fn update_followed_leader(&mut self, now: Instant) {
        match self.role {
            Role::Leading { .. } | Role::Releasing { .. } => return,
            Role::Unknown | Role::Following { .. } => {}
        }
        let holder = self.observed.as_ref().and_then(|record| record.holder(now));
        let leader = holder.filter(|_| !self.is_ours);
        if !matches!(&self.role, Role::Following { leader: old } if old.as_ref() == leader) {
            let leader = leader.cloned();
            self.role = Role::Following { leader: leader.clone() };
            self.transitions.push_back(Transition::Following { leader });
        }
    }
}
