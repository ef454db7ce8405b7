//! The record election: one record in a store, replaced only by conditional writes.
//!
//! Pure. Kubernetes Leases, etcd, and files use it. Start with [`RecordElection::plan`], which alone
//! decides what to request next, and when. `record/replies.rs` handles replies and watch events.
//!
//! ```text
//!            read                     write applied
//!  Unknown ───────► Following ──────────────────────────► Leading ──┐ renewal applied:
//!                       ▲                                   │  ▲────┘ deadline = sent + R
//!                       ├── deadline passed ────────────────┤
//!                       ├── read: another holder, or none ──┤
//!                       └── applied ── Releasing ◄── release ┘
//! ```
//!
//! R is the renew deadline. The rules:
//!
//! * A claim counts from the instant before its write was sent. Only an applied write extends it.
//! * An unknown outcome neither extends nor ends a claim. The same write is sent again.
//! * A conflict leads to a read and ends nothing by itself, because it may come from an edit of a
//!   label. If the record keeps being edited, a leader retries after about one round trip, so that
//!   a read and a write fit between two edits. Any other conflict after a conflict is paced like a
//!   failure, until a watch event explains it.
//! * A write that the store altered earns no claim: other candidates go by what the store holds.
//! * Another candidate's lease counts from the instant a changed record was received, over the
//!   duration in that record. A deleted record is waited out. Wall-clock times in a record are
//!   never compared (client-go's package comment).
//! * A free record is left to preferred candidates for a while, counted from when this candidate
//!   sees the release or stops waiting. Failed tries do not repeat that wait.
//! * A read is repeated if it may be older than a watch event that arrived while it was in flight.
//! * An acquisition follows at once from a watch event that shows a release: the conditional write
//!   names the version of the release. After a lapse or a wait, a read precedes the write.
//! * Before concluding that there is nothing to release, the candidate reads again if the record
//!   may be stale. A newer one may have been observed, or a write of unknown outcome may have been
//!   applied.
//! * After a release is sent, the candidate claims nothing, whatever the outcome.
//! * A withdrawn candidate begins no term. Without a claim, it releases a record that names it.
//! * A record that names an [`EndedRun`] is released after the last promise of that run expires. But
//!   every record seen since the start must name that run.

pub mod messages;
mod observed;
pub mod preference;
mod replies;
mod state;

use crate::candidacy::Candidacy;
use crate::claim::{Claim, Standing};
use crate::ended_run::EndedRun;
use crate::identity::Identity;
use crate::instant::Instant;
use crate::machine::{Election, Reason, Timer, Transition, Withdrawal};
use crate::record::messages::{Intent, RecordAltered, RecordEvent, RecordRequest, Snapshot, Write};
use crate::record::observed::ObservedRecord;
use crate::record::preference::Preference;
use crate::record::state::{InFlight, Knowledge, Role, Step};
use crate::timing::{Jitter, Timing};
use std::cmp::max;
use std::collections::VecDeque;
use std::time::Duration;

/// One candidate of an election that is held in a record.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RecordElection {
    identity: Identity,
    timing: Timing,
    preference: Preference,
    /// The previous run, as long as every record seen so far names it.
    ended_run: Option<EndedRun>,
    jitter: Jitter,
    candidacy: Candidacy,
    role: Role,
    observed: Option<ObservedRecord>,
    /// Whether the last observed record names this candidate.
    is_ours: bool,
    knowledge: Knowledge,
    in_flight: Option<InFlight>,
    /// A record below this version is stale: a newer one was observed, or a write of unknown
    /// outcome may have been applied since.
    min_version: u128,
    /// A read has been requested because of a watch event of this version. Watch events up to it
    /// are ignored, because a delayed watch may repeat them.
    examined_version: u128,
    /// The version that the last write was to replace, if it ended in a conflict other than a lost
    /// race.
    last_conflict: Option<u128>,
    /// Whether the store altered the last write that it applied.
    is_altered: bool,
    /// When to read if nothing else requires it sooner.
    read_at: Instant,
    /// No request is due before this. Paces requests after failures and repeated conflicts.
    not_before: Instant,
    /// The deadline of the last lost claim: nothing acts under it later.
    holds_until: Instant,
    transitions: VecDeque<Transition<RecordAltered>>,
}

impl RecordElection {
    /// A candidate that knows nothing of the store, and tries to lead from `campaign_from` on.
    pub fn new(identity: Identity, timing: Timing, jitter: Jitter, campaign_from: Instant) -> Self {
        let start = Instant::since_boot(Duration::ZERO);
        Self {
            identity,
            timing,
            preference: Preference::FIRST,
            ended_run: None,
            jitter,
            candidacy: Candidacy::Campaigning { from: campaign_from },
            role: Role::Unknown,
            observed: None,
            is_ours: false,
            knowledge: Knowledge::Cached,
            in_flight: None,
            min_version: 0,
            examined_version: 0,
            last_conflict: None,
            is_altered: false,
            read_at: start,
            not_before: start,
            holds_until: start,
            transitions: VecDeque::new(),
        }
    }

    /// The same candidate with this `preference`. Call it before the first event.
    #[must_use]
    pub fn with_preference(self, preference: Preference) -> Self {
        Self { preference, ..self }
    }

    /// Releases the record on behalf of `ended_run`, if the record names that run. Call this before
    /// the first event.
    #[must_use]
    pub fn with_ended_run(self, ended_run: EndedRun) -> Self {
        Self { ended_run: Some(ended_run), ..self }
    }

    /// The next request, and when it is due.
    fn plan(&self) -> Option<(Instant, Step)> {
        if self.in_flight.is_some() {
            return None;
        }
        let (immediately, knowledge) = (self.not_before, self.knowledge);
        let read = (self.read_at, Step::Read);
        let (due, step) = match (&self.role, self.candidacy) {
            (Role::Leading { .. }, Candidacy::Withdrawn(Withdrawal::Releasing)) => return None,
            (
                Role::Leading { renew_at, .. },
                Candidacy::Campaigning { .. } | Candidacy::Withdrawn(_),
            ) => match knowledge {
                Knowledge::Contradicted => (immediately, Step::Read),
                Knowledge::Cached | Knowledge::Fresh | Knowledge::Uncertain => {
                    (*renew_at, Step::Write(Intent::Renew))
                }
            },
            // Only a record that still names this candidate, or its ended run, is released. So a
            // write of unknown outcome needs a read first. A release is ordered after the last
            // promise expired. A withdrawn candidate that lost its term waits for its deadline here.
            (_, Candidacy::Releasing(_) | Candidacy::Withdrawn(_)) => match knowledge {
                Knowledge::Uncertain | Knowledge::Contradicted => (immediately, Step::Read),
                Knowledge::Cached | Knowledge::Fresh => match self.releases_at() {
                    Some(due) => (due, Step::Write(Intent::Release)),
                    None => read,
                },
            },
            (Role::Unknown, Candidacy::Campaigning { .. }) => read,
            (Role::Following { .. } | Role::Releasing { .. }, Candidacy::Campaigning { from }) => {
                let acquire_at = max(self.free_at(), from);
                let release_at = self.ended_run_releases_at().filter(|due| *due < acquire_at);
                match (knowledge, release_at) {
                    (Knowledge::Cached | Knowledge::Fresh, Some(due)) => {
                        (due, Step::Write(Intent::Release))
                    }
                    (Knowledge::Uncertain, Some(_)) => (immediately, Step::Read),
                    (Knowledge::Fresh | Knowledge::Uncertain, None) => {
                        (acquire_at, Step::Write(Intent::Acquire))
                    }
                    (Knowledge::Cached, None) => (acquire_at.min(self.read_at), Step::Read),
                    // After a lost race, the watch brings the winner's record.
                    (Knowledge::Contradicted, _) => read,
                }
            }
        };
        Some((max(due, self.not_before), step))
    }

    /// Whether the last order was to campaign, now or later.
    const fn is_campaigning(&self) -> bool {
        match self.candidacy {
            Candidacy::Campaigning { .. } => true,
            Candidacy::Withdrawn(_) | Candidacy::Releasing(_) => false,
        }
    }

    /// The last observed record.
    fn last_snapshot(&self) -> Option<&Snapshot> {
        self.observed.as_ref()?.snapshot()
    }

    /// When a candidate that does not campaign may release the record. `None` unless the record
    /// names this candidate or its ended run.
    fn releases_at(&self) -> Option<Instant> {
        if !self.is_ours {
            return self.ended_run_releases_at();
        }
        Some(match self.candidacy {
            Candidacy::Campaigning { .. } | Candidacy::Withdrawn(_) => {
                max(self.not_before, self.holds_until)
            }
            Candidacy::Releasing(_) => self.not_before,
        })
    }

    /// When the record may be released on behalf of the ended run. `None` unless it names that run.
    fn ended_run_releases_at(&self) -> Option<Instant> {
        let run = self.ended_run.as_ref().filter(|_| self.last_snapshot().is_some())?;
        Some(max(self.not_before, run.promised_until))
    }

    /// When the record may be acquired: at once if it names this candidate, which then holds no
    /// claim.
    fn free_at(&self) -> Instant {
        match &self.observed {
            Some(observed) if !self.is_ours => observed.free_at() + self.preference.stand_after(),
            Some(_) | None => self.not_before,
        }
    }

    fn request(&self, step: Step) -> RecordRequest {
        match step {
            Step::Read => RecordRequest::Read,
            Step::Write(intent) => {
                let lease_duration = self.timing.lease_duration();
                RecordRequest::Write(Write::over(
                    self.last_snapshot(),
                    intent,
                    &self.identity,
                    lease_duration,
                ))
            }
        }
    }
}

impl Election for RecordElection {
    type Diagnostic = RecordAltered;
    type Request = RecordRequest;
    type Event = RecordEvent;

    fn handle_event(&mut self, event: RecordEvent, now: Instant) {
        self.handle_timeout(now);
        if let RecordEvent::WatchEvent(snapshot) = event {
            return self.handle_watch_event(snapshot, now);
        }
        // A reply without a request is a bug in the driver. It must not begin a claim.
        let Some(call) = self.in_flight.take() else { return };
        let InFlight { ref request, sent, stale_below, .. } = call;
        match (request, event) {
            (RecordRequest::Read, RecordEvent::Read(read))
                if read.as_ref().map_or(0, |read| read.version.number) < stale_below =>
            {
                self.read_at = now;
            }
            (RecordRequest::Read, RecordEvent::Read(snapshot)) => self.handle_read(snapshot, now),
            (RecordRequest::Write(write), RecordEvent::Applied(snapshot)) => {
                let is_overtaken = snapshot.version.number < stale_below;
                self.handle_applied(write, snapshot, &call, now);
                if is_overtaken {
                    self.recheck(now);
                }
            }
            (RecordRequest::Write(write), RecordEvent::Conflict) => {
                self.handle_conflict(write, sent, now);
            }
            // A reply that does not match the request leaves its outcome unknown.
            (RecordRequest::Read, RecordEvent::Applied(_) | RecordEvent::Conflict)
            | (RecordRequest::Write(_), RecordEvent::Read(_))
            | (_, RecordEvent::Unknown | RecordEvent::WatchEvent(_)) => {
                self.handle_unknown(request, sent, now);
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        match &self.role {
            Role::Leading { claim, .. } if claim.remaining(now).is_zero() => {
                self.lose(Reason::Deadline, now);
            }
            Role::Following { leader: Some(_) } => self.update_followed_leader(now),
            Role::Unknown
            | Role::Leading { .. }
            | Role::Releasing { .. }
            | Role::Following { leader: None } => {}
        }
    }

    fn poll_request(&mut self, now: Instant) -> Option<RecordRequest> {
        self.handle_timeout(now);
        let (_, step) = self.plan().filter(|(due, _)| *due <= now)?;
        let request = self.request(step);
        if let (
            Step::Write(Intent::Release),
            Role::Leading { claim, .. },
            Candidacy::Releasing(reason),
        ) = (step, &self.role, self.candidacy)
        {
            self.role = Role::Releasing { token: claim.token(), reason, may_be_applied: false };
        }
        let ended_run = match step {
            Step::Write(Intent::Release) if !self.is_ours => {
                self.ended_run.as_ref().map(|run| run.identity.clone())
            }
            Step::Read | Step::Write(_) => None,
        };
        let in_flight = InFlight { request: request.clone(), sent: now, stale_below: 0, ended_run };
        self.in_flight = Some(in_flight);
        Some(request)
    }

    fn poll_timeout(&self) -> Option<(Instant, Timer)> {
        let request = self.plan().map(|(due, _)| (due, Timer::Request));
        let other = match (&self.role, &self.observed) {
            (Role::Leading { claim, .. }, _) => Some((claim.deadline(), Timer::Deadline)),
            (Role::Following { leader: Some(_) }, Some(observed)) => {
                Some((observed.lapses_at(), Timer::Lapse))
            }
            (Role::Unknown | Role::Following { .. } | Role::Releasing { .. }, _) => None,
        };
        request.into_iter().chain(other).min_by_key(|(due, _)| *due)
    }

    fn poll_transition(&mut self) -> Option<Transition<RecordAltered>> {
        self.transitions.pop_front()
    }

    fn standing(&self) -> Standing {
        match (&self.role, self.candidacy) {
            (Role::Unknown, _) => Standing::Unknown,
            (Role::Following { leader }, _) => Standing::Following { leader: leader.clone() },
            (Role::Releasing { .. }, _) => Standing::Following { leader: None },
            (Role::Leading { claim, .. }, Candidacy::Campaigning { .. }) => {
                Standing::Leading(*claim)
            }
            (Role::Leading { claim, .. }, Candidacy::Withdrawn(_) | Candidacy::Releasing(_)) => {
                Standing::Resigning(*claim)
            }
        }
    }

    fn claim(&self) -> Option<Claim> {
        match &self.role {
            Role::Leading { claim, .. } => Some(*claim),
            Role::Unknown | Role::Following { .. } | Role::Releasing { .. } => None,
        }
    }

    fn campaign(&mut self, from: Instant) {
        self.candidacy = Candidacy::Campaigning { from };
        // The outcome of the release is still unknown, so a read must follow.
        if let Role::Releasing { token, reason, .. } = self.role {
            self.transitions.push_back(Transition::Resigned { token, reason });
            self.transitions.push_back(Transition::Following { leader: None });
            self.role = Role::Following { leader: None };
            (self.knowledge, self.read_at) = (Knowledge::Contradicted, self.not_before);
        }
    }

    fn withdraw(&mut self, how: Withdrawal) {
        self.candidacy.withdraw(how);
    }

    fn release(&mut self, reason: Reason, now: Instant) {
        self.candidacy = Candidacy::Releasing(reason);
        (self.not_before, self.last_conflict) = (now, None);
        // The last read may be stale, or a write may have been applied since: read again.
        let is_current = self.observed.as_ref().is_none_or(|record| record.knows(self.min_version));
        if !is_current && !self.is_ours {
            self.knowledge = Knowledge::Contradicted;
        }
    }

    fn is_released(&self) -> bool {
        let certain = matches!(self.knowledge, Knowledge::Cached | Knowledge::Fresh);
        self.in_flight.is_none() && (self.role == Role::Unknown || certain && !self.is_ours)
    }

    fn call_timeout(&self) -> Duration {
        self.timing.call_timeout()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::messages::{Record, Stamp, Version};
    use crate::timing::{Drift, Durations};

    fn at(seconds: u64) -> Instant {
        Instant::since_boot(Duration::from_secs(seconds))
    }

    fn candidate() -> RecordElection {
        let seconds = Duration::from_secs;
        let durations = Durations {
            lease_duration: seconds(15),
            renew_deadline: seconds(10),
            retry_period: seconds(2),
            answer_validity: seconds(2),
        };
        let timing = Timing::new(durations, Drift::default()).unwrap();
        RecordElection::new(Identity::parse("us_1").unwrap(), timing, Jitter::new(1), at(0))
    }

    /// The reply to a write that was applied as version `number`.
    fn applied(request: Option<RecordRequest>, number: u128) -> RecordEvent {
        let Some(RecordRequest::Write(Write { holder, duration, transitions, .. })) = request
        else {
            panic!("expected a write, not {request:?}")
        };
        let [acquired, renewed] = [Stamp::default(), Stamp(number.to_string())];
        let record = Record { holder, duration: Some(duration), transitions, acquired, renewed };
        RecordEvent::Applied(Snapshot { version: Version { uid: "u".into(), number }, record })
    }

    /// A clean stop waits for this.
    #[test]
    fn is_released_only_if_the_store_holds_nothing() {
        let mut machine = candidate();
        assert_eq!(machine.call_timeout(), Duration::from_secs(8) / 3);
        assert!(machine.is_released(), "nothing was requested");
        assert_eq!(machine.poll_request(at(0)), Some(RecordRequest::Read));
        assert!(!machine.is_released(), "a request is in flight");
        machine.handle_event(RecordEvent::Read(None), at(0));
        assert!(machine.is_released(), "there is no record");
        assert!(machine.poll_request(at(1)).is_some());
        machine.handle_event(RecordEvent::Unknown, at(1));
        assert!(!machine.is_released(), "a write may have been applied");
        let again = machine.poll_request(at(4));
        machine.handle_event(applied(again, 7), at(4));
        assert!(!machine.is_released(), "it leads");
        machine.release(Reason::Shutdown, at(5));
        let release = machine.poll_request(at(5));
        machine.handle_event(applied(release, 8), at(5));
        assert!(machine.is_released(), "the record was released");
    }
}
