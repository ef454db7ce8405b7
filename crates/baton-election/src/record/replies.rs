//! What replies and notices mean to the Lease machine, and what follows from them.
//!
//! Pure. `lease.rs` says what is asked; here the answers come in. Start with [`Lease::read`]: only a read, and never a
//! notice, shows that a term is over.

use crate::candidacy::Candidacy;
use crate::claim::{Claim, FencingToken};
use crate::instant::Instant;
use crate::machine::{Reason, Transition};
use crate::record::RecordElection;
use crate::record::messages::{Intent, RecordAltered, RecordRequest, Snapshot, Write};
use crate::record::observed::Seen;
use crate::record::{Knowledge, Role};
use std::cmp::{max, min};
use std::mem::replace;
use std::time::Duration;

/// The most tries of a leader in one pace, while its record is edited again and again.
const EDITS_PER_PACE: u32 = 16;

impl RecordElection {
    pub(super) fn read(&mut self, snapshot: Option<Snapshot>, now: Instant) {
        let ended = match (&self.role, &snapshot) {
            (Role::Unknown | Role::Following { .. }, _) => None,
            (Role::Leading { claim, .. }, Some(read)) if self.continues(claim.token(), read) => {
                None
            }
            (Role::Releasing { token, .. }, Some(read)) if self.continues(*token, read) => None,
            (Role::Leading { .. } | Role::Releasing { .. }, None) => Some(Reason::Deleted),
            (Role::Leading { .. } | Role::Releasing { .. }, Some(_)) => Some(Reason::Conflict),
        };
        if snapshot.as_ref().is_some_and(|read| read.version.number < self.looked_into) {
            self.looked_into = 0;
        }
        self.observe(snapshot, now);
        let may_take = match self.candidacy {
            Candidacy::Campaigning { from } => max(self.free_at(), from) <= now,
            Candidacy::Withdrawn(_) | Candidacy::Releasing(_) => false,
        };
        self.knowledge = if may_take { Knowledge::Fresh } else { Knowledge::Noted };
        match (ended, &self.role) {
            (None, _) => self.follow_unless_held(now),
            // The release whose reply was lost had been applied, and perhaps taken up by another.
            (Some(_), Role::Releasing { may_be_done: true, .. }) => self.released(now),
            (Some(reason), _) => self.lose(reason, now),
        }
    }

    /// Whether `read` is still the record of our term `token`. A version below the token is a store restored from a
    /// backup: others may have been given tokens that the store has forgotten.
    fn continues(&self, token: FencingToken, read: &Snapshot) -> bool {
        read.record.holder.as_ref() == Some(&self.identity)
            && self.held().is_some_and(|held| held.version.uid == read.version.uid)
            && FencingToken::new(read.version.number) >= token
    }

    pub(super) fn applied(
        &mut self,
        write: &Write,
        snapshot: Snapshot,
        sent: Instant,
        now: Instant,
    ) {
        if write.over.as_ref() == Some(&snapshot.version) {
            // An answer with the version that we sent means that nothing was written.
            return self.unknown(&RecordRequest::Write(write.clone()), sent, now);
        }
        if !write.is_kept_in(&snapshot.record) {
            return self.altered(write, snapshot, sent, now);
        }
        self.is_altered = false;
        let number = FencingToken::new(snapshot.version.number);
        self.observe(Some(snapshot), now);
        (self.not_before, self.refused_over) = (now, None);
        // What a notice said against our claim while the write was on its way is still to be looked into.
        if self.knowledge != Knowledge::Contradicted {
            self.knowledge = Knowledge::Fresh;
        }
        if write.intent == Intent::Release {
            return self.released(now);
        }
        let deadline = sent + self.timing.renew_deadline();
        let renew_at = sent + self.timing.retry_period();
        match &self.role {
            Role::Leading { claim, .. } if number < claim.token() => {
                self.lose(Reason::Conflict, now);
            }
            Role::Leading { claim, .. } => {
                let claim = Claim::new(claim.token(), max(deadline, claim.deadline()));
                self.role = Role::Leading { claim, renew_at };
            }
            Role::Unknown | Role::Following { .. } | Role::Releasing { .. }
                if deadline <= now || !self.is_campaigning() =>
            {
                self.follow_unless_held(now);
            }
            Role::Unknown | Role::Following { .. } | Role::Releasing { .. } => {
                self.knowledge = Knowledge::Fresh;
                self.role = Role::Leading { claim: Claim::new(number, deadline), renew_at };
                self.transitions.push_back(Transition::Leading { token: number });
            }
        }
    }

    /// A write was applied, but the store holds another record: something on the way changes
    /// records, such as a mutating webhook. Others go by the record, so the write begins no claim,
    /// and an earlier claim ends.
    fn altered(&mut self, write: &Write, snapshot: Snapshot, sent: Instant, now: Instant) {
        if !replace(&mut self.is_altered, true) {
            let altered = RecordAltered::new(write, &snapshot.record);
            self.transitions.push_back(Transition::Diagnosed(altered));
        }
        self.observe(Some(snapshot), now);
        match write.intent {
            Intent::Release => self.unknown(&RecordRequest::Write(write.clone()), sent, now),
            Intent::Acquire | Intent::Renew => {
                (self.knowledge, self.refused_over) = (Knowledge::Noted, None);
                self.not_before = max(now, sent + self.pace());
                self.lose(Reason::Conflict, now);
                self.follow_unless_held(now);
            }
        }
    }

    fn released(&mut self, now: Instant) {
        self.knowledge = Knowledge::Noted;
        if let Role::Releasing { token, reason, .. } = self.role {
            self.transitions.push_back(Transition::Resigned { token, reason });
            self.role = Role::Unknown;
        }
        self.follow_unless_held(now);
    }

    pub(super) fn conflict(&mut self, write: &Write, sent: Instant, now: Instant) {
        let is_overtaken = self.held().map(|held| &held.version) != write.over.as_ref();
        self.read_at = match (&self.role, self.knowledge) {
            // The winner's record came in while our write was on its way. Our own is no winner's: somebody between sent that twice.
            (Role::Following { .. }, Knowledge::Noted) if is_overtaken && !self.is_ours() => return,
            // A lost race: the watch brings the winner, and a thousand losers need not ask.
            (Role::Following { .. }, Knowledge::Fresh) => {
                self.refused_over = None;
                // Over our own record it may have been with ourselves, and news of that begin no other race at once.
                if self.is_ours() {
                    self.not_before = max(now, sent + self.pace());
                }
                now + self.timing.retry_period()
            }
            // A conflict that follows on a write of unknown outcome may be with ourselves.
            (
                Role::Following { .. },
                Knowledge::Noted | Knowledge::Doubtful | Knowledge::Contradicted,
            )
            | (Role::Unknown | Role::Leading { .. } | Role::Releasing { .. }, _) => {
                self.not_before = max(self.not_before, self.rests_after_conflict(write, sent, now));
                now
            }
        };
        self.knowledge = Knowledge::Contradicted;
    }

    /// Until when a candidate rests whose write was refused, and looks for the reason then.
    ///
    /// The first conflict is looked into at once. If the read after it leads to another conflict,
    /// there are three possible causes: reads show the past, our writes are sent twice on the way,
    /// or the record is edited again and again. A leader that sees its record move keeps trying by
    /// round trips: a read and a write fit between two edits that are two round trips apart.
    /// Everything else is paced like a failure.
    fn rests_after_conflict(&mut self, write: &Write, sent: Instant, now: Instant) -> Instant {
        let over = write.over.as_ref().map_or(0, |over| over.number);
        match (self.refused_over.replace(over), &self.role) {
            (None, _) => now,
            (Some(before), Role::Leading { .. } | Role::Releasing { .. }) if before < over => {
                let round_trip = now.since(sent).clamp(self.pace() / EDITS_PER_PACE, self.pace());
                // Edits may come at regular intervals: two tries in a row must not meet them in the same phase.
                let soon = now + round_trip + self.jitter.below(round_trip);
                // A reply that took long is not followed by a rest as long.
                min(soon, max(now, sent + self.pace()))
            }
            (
                Some(_),
                Role::Unknown
                | Role::Following { .. }
                | Role::Leading { .. }
                | Role::Releasing { .. },
            ) => max(now, sent + self.pace()),
        }
    }

    pub(super) fn unknown(&mut self, request: &RecordRequest, sent: Instant, now: Instant) {
        let pace = match (request, &self.role) {
            (RecordRequest::Read, Role::Unknown | Role::Following { .. }) => {
                self.timing.retry_period()
            }
            (RecordRequest::Read, Role::Leading { .. } | Role::Releasing { .. })
            | (RecordRequest::Write(_), _) => self.pace(),
        };
        if let RecordRequest::Write(write) = request {
            (self.knowledge, self.refused_over) = (Knowledge::Doubtful, None);
            // What is made anew gets a higher version than the record that is gone.
            let newest = || self.seen.as_ref().map_or(0, Seen::number);
            let below = write.over.as_ref().map_or_else(newest, |over| over.number);
            self.settled_from = max(self.settled_from, below + 1);
        }
        if let Role::Releasing { may_be_done, .. } = &mut self.role {
            *may_be_done = true;
        }
        self.not_before = max(now, sent + pace);
    }

    /// How soon a try follows on one that failed. One that failed at once (nobody listened) is not followed by the wait of one
    /// that timed out: a store that comes back late would be asked too late, however long the claim has still to go.
    fn pace(&self) -> Duration {
        self.timing.call_timeout().min(self.timing.retry_period())
    }

    pub(super) fn noticed(&mut self, snapshot: Option<Snapshot>, now: Instant) {
        // That it is gone has no version: any read that is under way may have been done before.
        let version = snapshot.as_ref().map_or(u128::MAX, |snapshot| snapshot.version.number);
        if version <= self.looked_into || self.seen.as_ref().is_some_and(|seen| seen.knows(version))
        {
            return;
        }
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.stale_below = max(in_flight.stale_below, version);
        }
        let Some(snapshot) = snapshot else {
            return self.suspect(now);
        };
        match &self.role {
            // The reply to our own read or release is on its way, and says more.
            Role::Unknown | Role::Releasing { .. } => {}
            Role::Leading { claim, .. } if !self.continues(claim.token(), &snapshot) => {
                self.looked_into = version;
                self.suspect(now);
            }
            // Our own write, whose reply is still on its way, or a stranger's edit: the version counts.
            Role::Leading { .. } => self.observe(Some(snapshot), now),
            Role::Following { .. } => {
                self.observe(Some(snapshot), now);
                self.knowledge = Knowledge::Noted;
                self.follow_unless_held(now);
            }
        }
    }

    /// Something may have happened to the record: read it at once.
    pub(super) fn suspect(&mut self, now: Instant) {
        self.read_at = now;
        if let Role::Leading { .. } = self.role {
            self.knowledge = Knowledge::Contradicted;
        }
        // That may be why the store refused our writes: what paces them need not hold it up.
        if self.refused_over.is_some() {
            self.not_before = now;
        }
    }

    fn observe(&mut self, snapshot: Option<Snapshot>, now: Instant) {
        self.read_at = now + self.timing.retry_period() * 2;
        let patience = self.timing.lease_duration();
        let number = snapshot.as_ref().map_or(0, |snapshot| snapshot.version.number);
        self.settled_from = max(self.settled_from, number);
        self.seen =
            Some(Seen::after(self.seen.as_ref(), snapshot, now, patience, &mut self.jitter));
    }

    pub(super) fn lose(&mut self, reason: Reason, now: Instant) {
        let token = match &self.role {
            Role::Leading { claim, .. } => claim.token(),
            Role::Releasing { token, .. } => *token,
            Role::Unknown | Role::Following { .. } => return,
        };
        let version = self.held().map_or(token, |held| FencingToken::new(held.version.number));
        if version < token {
            self.transitions.push_back(Transition::StoreWentBack { token, version });
        }
        self.transitions.push_back(Transition::Lost { token, reason });
        (self.role, self.refused_over) = (Role::Unknown, None);
        self.promises_end = now + self.timing.answer_validity();
        self.follow_unless_held(now);
    }

    /// Brings who is followed up to `now`.
    pub(super) fn follow_unless_held(&mut self, now: Instant) {
        match self.role {
            Role::Leading { .. } | Role::Releasing { .. } => return,
            Role::Unknown | Role::Following { .. } => {}
        }
        let holder = self.seen.as_ref().and_then(|seen| seen.holder(now));
        let leader = holder.filter(|holder| **holder != self.identity);
        if !matches!(&self.role, Role::Following { leader: known } if known.as_ref() == leader) {
            let leader = leader.cloned();
            self.role = Role::Following { leader: leader.clone() };
            self.transitions.push_back(Transition::Following { leader });
        }
    }
}
