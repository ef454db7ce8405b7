//! The Lease election as a state machine: one record, replaced only over the version that was read.
//!
//! Pure. Kubernetes Leases and files run it. Read [`RecordElection::plan`] first: it alone decides what is asked of the
//! store next, and when. What replies and notices mean stands in `lease/replies.rs`.
//!
//! ```text
//!            read                    our write applied
//!  Unknown ───────► Following ──────────────────────────► Leading ──┐ renewal applied:
//!                       ▲                                    │  ▲───┘ deadline = sent + R
//!                       │   deadline passed                  │
//!                       ├──  a read shows another, or none ──┤
//!                       └──  applied ── Releasing ◄── release ┘  which claims nothing any more
//! ```
//!
//! The rules, and who needs them:
//! * A claim counts from the instant before its write was sent, and only an applied write extends it.
//! * An unknown outcome neither extends nor ends a claim; the same write goes out again.
//! * A conflict asks for a read and ends nothing by itself: a stranger may have edited a label. A leader whose record
//!   is edited again and again tries by round trips, so that a try falls between two edits. Any other conflict that
//!   follows a conflict is paced like a failure, until a watch event explains it.
//! * A write that comes back changed is no claim: the store protects what it holds, not what was sent.
//! * Another's lease counts from when we received a record that had changed, over the duration in that record, and
//!   a record that vanished is waited out. Times written in it are never compared (client-go's package comment).
//! * A read that was under way when newer news came in is asked again: it may have been done before them.
//! * Nobody takes over on a notice alone: patience, then a read, then the conditional write.
//! * Who has nothing to release, by a record older than what it knows of or may have written, reads once more.
//! * After a release is sent, the candidate claims nothing, whatever becomes of the release.
//! * A withdrawn candidate begins no term. It releases a record that names it if it holds no claim.

pub mod messages;
mod observed;
mod replies;

use crate::candidacy::Candidacy;
use crate::claim::{Claim, FencingToken, Standing};
use crate::identity::Identity;
use crate::instant::Instant;
use crate::machine::{Election, Reason, Timer, Transition, Withdrawal};
use crate::record::messages::{Intent, RecordAltered, RecordEvent, RecordRequest, Snapshot, Write};
use crate::record::observed::Seen;
use crate::timing::{Jitter, Timing};
use std::cmp::max;
use std::collections::VecDeque;
use std::time::Duration;

/// The machine of one candidate.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RecordElection {
    identity: Identity,
    timing: Timing,
    jitter: Jitter,
    candidacy: Candidacy,
    role: Role,
    seen: Option<Seen>,
    knowledge: Knowledge,
    in_flight: Option<InFlight>,
    /// A record of a lower version is older than one that we have seen, or than a write of ours whose outcome is unknown.
    settled_from: u128,
    /// A notice of this version, or of a lower one, has been looked into: a watch that lags may bring it again when it is long gone.
    looked_into: u128,
    /// The version that our last write was to replace, if the store refused it and it lost no race.
    refused_over: Option<u128>,
    /// The last write that was applied came back changed.
    is_altered: bool,
    /// When to read though nothing else asks for it.
    read_at: Instant,
    /// Paces requests after one that failed, and after conflicts that follow on one another.
    not_before: Instant,
    /// Every promise of the last term that was lost has expired by then.
    promises_end: Instant,
    transitions: VecDeque<Transition<RecordAltered>>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Role {
    Unknown,
    Following {
        leader: Option<Identity>,
    },
    Leading {
        claim: Claim,
        renew_at: Instant,
    },
    /// The release has been sent, so whatever becomes of it we claim nothing. `may_be_done`: one had an unknown outcome.
    Releasing {
        token: FencingToken,
        reason: Reason,
        may_be_done: bool,
    },
}

/// How far what was seen can be relied on for the next step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Knowledge {
    /// Seen some time ago: to be read again before anything is taken over.
    Noted,
    /// Read when the record could already be taken: the write may follow.
    Fresh,
    /// A write of ours has an unknown outcome.
    Doubtful,
    /// The store refused a write of ours, or a notice spoke against our claim: what was seen is not what it holds.
    Contradicted,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct InFlight {
    request: RecordRequest,
    sent: Instant,
    /// What shows a lower version, be it read or written, was done before news that came in meanwhile.
    stale_below: u128,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Read,
    Write(Intent),
}

impl RecordElection {
    /// A candidate that has heard nothing yet, and tries to lead from `campaign_from` on.
    pub fn new(identity: Identity, timing: Timing, jitter: Jitter, campaign_from: Instant) -> Self {
        let start = Instant::since_boot(Duration::ZERO);
        Self {
            identity,
            timing,
            jitter,
            candidacy: Candidacy::Campaigning { from: campaign_from },
            role: Role::Unknown,
            seen: None,
            knowledge: Knowledge::Noted,
            in_flight: None,
            settled_from: 0,
            looked_into: 0,
            refused_over: None,
            is_altered: false,
            read_at: start,
            not_before: start,
            promises_end: start,
            transitions: VecDeque::new(),
        }
    }

    /// The next request, and when it is due.
    fn plan(&self) -> Option<(Instant, Step)> {
        if self.in_flight.is_some() {
            return None;
        }
        let (at_once, knowledge) = (self.not_before, self.knowledge);
        let read = (self.read_at, Step::Read);
        let (due, step) = match (&self.role, self.candidacy) {
            (Role::Leading { .. }, Candidacy::Withdrawn(Withdrawal::Releasing)) => return None,
            (
                Role::Leading { renew_at, .. },
                Candidacy::Campaigning { .. } | Candidacy::Withdrawn(_),
            ) => match knowledge {
                Knowledge::Contradicted => (at_once, Step::Read),
                Knowledge::Noted | Knowledge::Fresh | Knowledge::Doubtful => {
                    (*renew_at, Step::Write(Intent::Renew))
                }
            },
            // Only a record that is still ours is released, so a write of unknown outcome is followed by a read. An order to
            // release comes when the last promise has expired; a withdrawn candidate that lost its term waits for that here.
            (_, Candidacy::Releasing(_) | Candidacy::Withdrawn(_)) => match knowledge {
                Knowledge::Doubtful | Knowledge::Contradicted => (at_once, Step::Read),
                Knowledge::Noted | Knowledge::Fresh if self.is_ours() => {
                    (self.may_release_at(), Step::Write(Intent::Release))
                }
                Knowledge::Noted | Knowledge::Fresh => read,
            },
            (Role::Unknown, Candidacy::Campaigning { .. }) => read,
            (Role::Following { .. } | Role::Releasing { .. }, Candidacy::Campaigning { from }) => {
                let take = max(self.free_at(), from);
                match knowledge {
                    Knowledge::Fresh | Knowledge::Doubtful => (take, Step::Write(Intent::Acquire)),
                    Knowledge::Noted => (take.min(self.read_at), Step::Read),
                    // A lost race: the winner's record is on its way.
                    Knowledge::Contradicted => read,
                }
            }
        };
        Some((max(due, self.not_before), step))
    }

    /// Whether this candidate was last told to lead, now or later.
    const fn is_campaigning(&self) -> bool {
        match self.candidacy {
            Candidacy::Campaigning { .. } => true,
            Candidacy::Withdrawn(_) | Candidacy::Releasing(_) => false,
        }
    }

    /// Whether the newest record that we know names us.
    fn is_ours(&self) -> bool {
        self.held().is_some_and(|held| held.record.holder.as_ref() == Some(&self.identity))
    }

    /// The newest record that we know.
    fn held(&self) -> Option<&Snapshot> {
        self.seen.as_ref()?.snapshot()
    }

    /// From when on the record may be released, if it is ours.
    fn may_release_at(&self) -> Instant {
        match self.candidacy {
            Candidacy::Campaigning { .. } | Candidacy::Withdrawn(_) => {
                max(self.not_before, self.promises_end)
            }
            Candidacy::Releasing(_) => self.not_before,
        }
    }

    /// From when on the record may be taken: at once when it is ours without a claim.
    fn free_at(&self) -> Instant {
        match &self.seen {
            Some(seen) if !self.is_ours() => seen.free_at(),
            Some(_) | None => self.not_before,
        }
    }

    fn request(&self, step: Step) -> RecordRequest {
        match step {
            Step::Read => RecordRequest::Read,
            Step::Write(intent) => {
                let lease_duration = self.timing.lease_duration();
                RecordRequest::Write(Write::over(
                    self.held(),
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
        if let RecordEvent::Noticed(snapshot) = event {
            return self.noticed(snapshot, now);
        }
        // A reply to nothing is a driver's mistake that must not become a claim.
        let Some(InFlight { request, sent, stale_below }) = self.in_flight.take() else { return };
        match (&request, event) {
            (RecordRequest::Read, RecordEvent::Read(read))
                if read.as_ref().map_or(0, |read| read.version.number) < stale_below =>
            {
                self.read_at = now;
            }
            (RecordRequest::Read, RecordEvent::Read(snapshot)) => self.read(snapshot, now),
            (RecordRequest::Write(write), RecordEvent::Applied(snapshot)) => {
                let is_overtaken = snapshot.version.number < stale_below;
                self.applied(write, snapshot, sent, now);
                if is_overtaken {
                    self.suspect(now);
                }
            }
            (RecordRequest::Write(write), RecordEvent::Conflict) => self.conflict(write, sent, now),
            // A reply of another kind than the request says as little as none.
            (RecordRequest::Read, RecordEvent::Applied(_) | RecordEvent::Conflict)
            | (RecordRequest::Write(_), RecordEvent::Read(_))
            | (_, RecordEvent::Unknown | RecordEvent::Noticed(_)) => {
                self.unknown(&request, sent, now);
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        match &self.role {
            Role::Leading { claim, .. } if claim.remaining(now).is_zero() => {
                self.lose(Reason::Deadline, now);
            }
            Role::Following { leader: Some(_) } => self.follow_unless_held(now),
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
            self.role = Role::Releasing { token: claim.token(), reason, may_be_done: false };
        }
        self.in_flight = Some(InFlight { request: request.clone(), sent: now, stale_below: 0 });
        Some(request)
    }

    fn poll_timeout(&self) -> Option<(Instant, Timer)> {
        let request = self.plan().map(|(due, _)| (due, Timer::Request));
        let other = match (&self.role, &self.seen) {
            (Role::Leading { claim, .. }, _) => Some((claim.deadline(), Timer::Deadline)),
            (Role::Following { leader: Some(_) }, Some(seen)) => {
                Some((seen.lapses_at(), Timer::Lapse))
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

    fn campaign(&mut self, from: Instant) {
        self.candidacy = Candidacy::Campaigning { from };
    }

    fn withdraw(&mut self, how: Withdrawal) {
        self.candidacy.withdraw(how);
    }

    fn release(&mut self, reason: Reason, now: Instant) {
        self.candidacy = Candidacy::Releasing(reason);
        (self.not_before, self.refused_over) = (now, None);
        // That nothing is ours may be what the past looked like, or our write may have been done since: look once more.
        let is_settled = self.seen.as_ref().is_none_or(|seen| seen.knows(self.settled_from));
        if !is_settled && !self.is_ours() {
            self.knowledge = Knowledge::Contradicted;
        }
    }

    fn is_at_rest(&self) -> bool {
        let certain = matches!(self.knowledge, Knowledge::Noted | Knowledge::Fresh);
        self.in_flight.is_none() && (self.role == Role::Unknown || certain && !self.is_ours())
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

    /// The record that a write left behind.
    fn applied(request: Option<RecordRequest>, number: u128) -> RecordEvent {
        let Some(RecordRequest::Write(Write { holder, duration, transitions, .. })) = request
        else {
            panic!("asked for was {request:?}")
        };
        let [acquired, renewed] = [Stamp::default(), Stamp(number.to_string())];
        let record = Record { holder, duration: Some(duration), transitions, acquired, renewed };
        RecordEvent::Applied(Snapshot { version: Version { uid: "u".into(), number }, record })
    }

    /// A clean end waits for this.
    #[test]
    fn it_is_at_rest_while_nothing_of_ours_can_be_in_the_store() {
        let mut machine = candidate();
        assert_eq!(machine.call_timeout(), Duration::from_secs(8) / 3);
        assert!(machine.is_at_rest(), "nothing was asked for");
        assert_eq!(machine.poll_request(at(0)), Some(RecordRequest::Read));
        assert!(!machine.is_at_rest(), "a request is under way");
        machine.handle_event(RecordEvent::Read(None), at(0));
        assert!(machine.is_at_rest(), "there is nothing");
        assert!(machine.poll_request(at(1)).is_some());
        machine.handle_event(RecordEvent::Unknown, at(1));
        assert!(!machine.is_at_rest(), "a write may have been done");
        let again = machine.poll_request(at(4));
        machine.handle_event(applied(again, 7), at(4));
        assert!(!machine.is_at_rest(), "it leads");
        machine.release(Reason::Shutdown, at(5));
        let release = machine.poll_request(at(5));
        machine.handle_event(applied(release, 8), at(5));
        assert!(machine.is_at_rest(), "all was given back");
    }
}
