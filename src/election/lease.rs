//! The Lease election as a state machine: one record, replaced only over the version that was read.
//!
//! Pure. Kubernetes Leases and files run it. Read [`Lease::plan`] first: it alone decides what is asked of the
//! store next, and when; the replies come in below it.
//!
//! ```text
//!            read                    our write applied
//!  Unknown ───────► Following ──────────────────────────► Leading ──┐ renewal applied:
//!                       ▲                                    │  ▲───┘ deadline = sent + R
//!                       │   deadline passed                  │
//!                       ├──  a read shows another, or none ──┤
//!                       └──  our release applied ────────────┘
//! ```
//!
//! The rules, and who needs them:
//! * A claim counts from the instant before its write was sent, and only an applied write extends it.
//! * An unknown outcome neither extends nor ends a claim; the same write goes out again.
//! * A conflict asks for a read and ends nothing by itself: a stranger may have edited a label.
//! * Another's lease counts from when we received a record that had changed, over the duration in that record, and
//!   a record that vanished is waited out. Times written in it are never compared (client-go's package comment).
//! * Nobody takes over on a notice alone: patience, then a read, then the conditional write.

use crate::claim::{Claim, FencingToken, Standing};
use crate::clock::Instant;
use crate::election::record::{Intent, LeaseEvent, LeaseRequest, Snapshot, Write};
use crate::election::seen::{Knowledge, Seen};
use crate::election::timing::{Jitter, Timing};
use crate::election::{Election, Reason, Timer, Transition, Withdrawal};
use crate::identity::Identity;
use std::cmp::max;
use std::collections::VecDeque;
use std::time::Duration;

/// The machine of one candidate.
#[derive(Debug)]
pub struct Lease {
    identity: Identity,
    timing: Timing,
    jitter: Jitter,
    candidacy: Candidacy,
    role: Role,
    seen: Option<Seen>,
    knowledge: Knowledge,
    in_flight: Option<InFlight>,
    /// When to read though nothing else asks for it.
    read_at: Instant,
    /// Paces requests after one that failed.
    not_before: Instant,
    transitions: VecDeque<Transition>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Role {
    Unknown,
    Following { leader: Option<Identity> },
    Leading { claim: Claim, renew_at: Instant },
}

#[derive(Debug, Clone, Copy)]
enum Candidacy {
    Campaigning { from: Instant },
    Withdrawn(Withdrawal),
    Releasing(Reason),
}

#[derive(Debug)]
struct InFlight {
    request: LeaseRequest,
    sent: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Read,
    Write(Intent),
}

impl Lease {
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
            read_at: start,
            not_before: start,
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
            (Role::Unknown, _) | (Role::Following { .. }, Candidacy::Withdrawn(_)) => read,
            // Only what is still ours is released, so an unknown write is read first.
            (_, Candidacy::Releasing(_)) => match knowledge {
                Knowledge::Doubtful | Knowledge::Contradicted => (at_once, Step::Read),
                Knowledge::Noted | Knowledge::Fresh if self.is_ours() => (at_once, Step::Write(Intent::Release)),
                Knowledge::Noted | Knowledge::Fresh => read,
            },
            (Role::Leading { .. }, Candidacy::Withdrawn(Withdrawal::Releasing)) => return None,
            (Role::Leading { renew_at, .. }, Candidacy::Campaigning { .. } | Candidacy::Withdrawn(_)) => {
                match knowledge {
                    Knowledge::Contradicted => (at_once, Step::Read),
                    Knowledge::Noted | Knowledge::Fresh | Knowledge::Doubtful => {
                        (*renew_at, Step::Write(Intent::Renew))
                    }
                }
            }
            (Role::Following { .. }, Candidacy::Campaigning { from }) => {
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

    /// Whether the newest record that we know names us.
    fn is_ours(&self) -> bool {
        self.held().is_some_and(|held| held.record.holder.as_ref() == Some(&self.identity))
    }

    /// The newest record that we know.
    fn held(&self) -> Option<&Snapshot> {
        self.seen.as_ref()?.snapshot()
    }

    /// From when on the record may be taken: at once when it is ours without a claim.
    fn free_at(&self) -> Instant {
        match &self.seen {
            Some(seen) if !self.is_ours() => seen.free_at(),
            Some(_) | None => self.not_before,
        }
    }

    fn request(&self, step: Step) -> LeaseRequest {
        match step {
            Step::Read => LeaseRequest::Read,
            Step::Write(intent) => {
                let lease_duration = self.timing.lease_duration();
                LeaseRequest::Write(Write::over(self.held(), intent, &self.identity, lease_duration))
            }
        }
    }

    // === replies ===

    fn read(&mut self, snapshot: Option<Snapshot>, now: Instant) {
        let ends = match (&self.role, &snapshot) {
            (Role::Unknown | Role::Following { .. }, _) => None,
            (Role::Leading { .. }, None) => Some(Reason::Deleted),
            (Role::Leading { claim, .. }, Some(read)) => {
                (!self.continues(claim.token(), read)).then_some(Reason::Conflict)
            }
        };
        let may_be_released = self.knowledge == Knowledge::Doubtful;
        self.observe(snapshot, now);
        let may_take = match self.candidacy {
            Candidacy::Campaigning { from } => max(self.free_at(), from) <= now,
            Candidacy::Withdrawn(_) | Candidacy::Releasing(_) => false,
        };
        self.knowledge = if may_take { Knowledge::Fresh } else { Knowledge::Noted };
        match (ends, self.candidacy) {
            // The release whose reply was lost had been applied.
            (Some(_), Candidacy::Releasing(_)) if may_be_released => self.released(now),
            (Some(reason), _) => self.lose(reason, now),
            (None, _) => self.follow_unless_leading(now),
        }
    }

    /// Whether `read` is still the record of our term `token`. A version below the token is a store restored from a
    /// backup: others may have been given tokens that the store has forgotten.
    fn continues(&self, token: FencingToken, read: &Snapshot) -> bool {
        read.record.holder.as_ref() == Some(&self.identity)
            && self.held().is_some_and(|held| held.version.uid == read.version.uid)
            && FencingToken::new(read.version.number) >= token
    }

    fn applied(&mut self, write: &Write, snapshot: Snapshot, sent: Instant, now: Instant) {
        if write.over.as_ref() == Some(&snapshot.version) {
            // An answer with the version that we sent means that nothing was written.
            return self.unknown(&LeaseRequest::Write(write.clone()), sent, now);
        }
        let number = FencingToken::new(snapshot.version.number);
        self.observe(Some(snapshot), now);
        self.knowledge = Knowledge::Fresh;
        self.not_before = now;
        if write.intent == Intent::Release {
            return self.released(now);
        }
        let deadline = sent + self.timing.renew_deadline();
        let renew_at = sent + self.timing.retry_period();
        match &self.role {
            Role::Leading { claim, .. } if number < claim.token() => self.lose(Reason::Conflict, now),
            Role::Leading { claim, .. } => {
                let claim = Claim::new(claim.token(), max(deadline, claim.deadline()));
                self.role = Role::Leading { claim, renew_at };
            }
            Role::Unknown | Role::Following { .. } if deadline <= now => self.follow_unless_leading(now),
            Role::Unknown | Role::Following { .. } => {
                self.role = Role::Leading { claim: Claim::new(number, deadline), renew_at };
                self.transitions.push_back(Transition::Leading { token: number });
            }
        }
    }

    fn released(&mut self, now: Instant) {
        if let (Role::Leading { claim, .. }, Candidacy::Releasing(reason)) = (&self.role, self.candidacy) {
            self.transitions.push_back(Transition::Resigned { token: claim.token(), reason });
            self.role = Role::Unknown;
        }
        self.follow_unless_leading(now);
    }

    fn conflict(&mut self, now: Instant) {
        self.read_at = match (&self.role, self.knowledge) {
            // The winner's record came in while our write was on its way.
            (Role::Following { .. }, Knowledge::Noted) => return,
            // A lost race: the watch brings the winner, and a thousand losers need not ask.
            (Role::Following { .. }, Knowledge::Fresh) => now + self.timing.retry_period(),
            // A conflict that follows on a write of unknown outcome may be with ourselves.
            (Role::Following { .. }, Knowledge::Doubtful | Knowledge::Contradicted)
            | (Role::Unknown | Role::Leading { .. }, _) => now,
        };
        self.knowledge = Knowledge::Contradicted;
    }

    fn unknown(&mut self, request: &LeaseRequest, sent: Instant, now: Instant) {
        let pace = match (request, &self.role) {
            (LeaseRequest::Read, Role::Unknown | Role::Following { .. }) => self.timing.retry_period(),
            (LeaseRequest::Read, Role::Leading { .. }) | (LeaseRequest::Write(_), _) => self.timing.call_timeout(),
        };
        if let LeaseRequest::Write(_) = request {
            self.knowledge = Knowledge::Doubtful;
        }
        self.not_before = max(now, sent + pace);
    }

    fn noticed(&mut self, snapshot: Option<Snapshot>, now: Instant) {
        let Some(snapshot) = snapshot else {
            return self.suspect(now);
        };
        if self.held().is_some_and(|held| snapshot.version.number <= held.version.number) {
            return;
        }
        match &self.role {
            Role::Unknown => {}
            Role::Leading { claim, .. } if !self.continues(claim.token(), &snapshot) => self.suspect(now),
            // Our own write, whose reply is still on its way, or a stranger's edit: the version counts.
            Role::Leading { .. } => self.observe(Some(snapshot), now),
            Role::Following { .. } => {
                self.observe(Some(snapshot), now);
                self.knowledge = Knowledge::Noted;
                self.follow_unless_leading(now);
            }
        }
    }

    /// Something may have happened to the record: read it at once.
    fn suspect(&mut self, now: Instant) {
        self.read_at = now;
        if let Role::Leading { .. } = self.role {
            self.knowledge = Knowledge::Contradicted;
        }
    }

    // === what was seen, and what follows from it ===

    fn observe(&mut self, snapshot: Option<Snapshot>, now: Instant) {
        self.read_at = now + self.timing.retry_period() * 2;
        let patience = self.timing.lease_duration();
        self.seen = Some(Seen::after(self.seen.as_ref(), snapshot, now, patience, &mut self.jitter));
    }

    fn lose(&mut self, reason: Reason, now: Instant) {
        if let Role::Leading { claim, .. } = &self.role {
            let token = claim.token();
            let version = self.held().map_or(token, |held| FencingToken::new(held.version.number));
            if version < token {
                self.transitions.push_back(Transition::StoreWentBack { token, version });
            }
            self.transitions.push_back(Transition::Lost { token, reason });
            self.role = Role::Unknown;
            self.follow_unless_leading(now);
        }
    }

    fn follow_unless_leading(&mut self, now: Instant) {
        if let Role::Leading { .. } = self.role {
            return;
        }
        let holder = self.seen.as_ref().and_then(|seen| seen.holder(now)).cloned();
        let leader = holder.filter(|holder| *holder != self.identity);
        let role = Role::Following { leader: leader.clone() };
        if self.role != role {
            self.role = role;
            self.transitions.push_back(Transition::Following { leader });
        }
    }
}

impl Election for Lease {
    type Request = LeaseRequest;
    type Event = LeaseEvent;

    fn handle_event(&mut self, event: LeaseEvent, now: Instant) {
        self.handle_timeout(now);
        if let LeaseEvent::Noticed(snapshot) = event {
            return self.noticed(snapshot, now);
        }
        // A reply to nothing is a driver's mistake that must not become a claim.
        let Some(InFlight { request, sent }) = self.in_flight.take() else {
            return;
        };
        match (event, &request) {
            (LeaseEvent::Read(snapshot), LeaseRequest::Read) => self.read(snapshot, now),
            (LeaseEvent::Applied(snapshot), LeaseRequest::Write(write)) => self.applied(write, snapshot, sent, now),
            (LeaseEvent::Conflict, LeaseRequest::Write(_)) => self.conflict(now),
            // A reply of another kind than the request says as little as none.
            _ => self.unknown(&request, sent, now),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        match &self.role {
            Role::Leading { claim, .. } if claim.remaining(now).is_zero() => self.lose(Reason::Deadline, now),
            Role::Following { leader: Some(_) } => self.follow_unless_leading(now),
            Role::Unknown | Role::Leading { .. } | Role::Following { leader: None } => {}
        }
    }

    fn poll_request(&mut self, now: Instant) -> Option<LeaseRequest> {
        self.handle_timeout(now);
        let (_, step) = self.plan().filter(|(due, _)| *due <= now)?;
        let request = self.request(step);
        self.in_flight = Some(InFlight { request: request.clone(), sent: now });
        Some(request)
    }

    fn poll_timeout(&self) -> Option<(Instant, Timer)> {
        let request = self.plan().map(|(due, _)| (due, Timer::Request));
        let other = match (&self.role, &self.seen) {
            (Role::Leading { claim, .. }, _) => Some((claim.deadline(), Timer::Deadline)),
            (Role::Following { leader: Some(_) }, Some(seen)) => Some((seen.lapses_at(), Timer::Lapse)),
            (Role::Unknown | Role::Following { .. }, _) => None,
        };
        request.into_iter().chain(other).min_by_key(|(due, _)| *due)
    }

    fn poll_transition(&mut self) -> Option<Transition> {
        self.transitions.pop_front()
    }

    fn standing(&self) -> Standing {
        match (&self.role, self.candidacy) {
            (Role::Unknown, _) => Standing::Unknown,
            (Role::Following { leader }, _) => Standing::Following { leader: leader.clone() },
            (Role::Leading { claim, .. }, Candidacy::Campaigning { .. }) => Standing::Leading(*claim),
            (Role::Leading { claim, .. }, Candidacy::Withdrawn(_) | Candidacy::Releasing(_)) => {
                Standing::Resigning(*claim)
            }
        }
    }

    fn campaign(&mut self, from: Instant) {
        self.candidacy = Candidacy::Campaigning { from };
    }

    fn withdraw(&mut self, how: Withdrawal) {
        if let Candidacy::Campaigning { .. } | Candidacy::Withdrawn(_) = self.candidacy {
            self.candidacy = Candidacy::Withdrawn(how);
        }
    }

    fn release(&mut self, reason: Reason, now: Instant) {
        self.candidacy = Candidacy::Releasing(reason);
        self.not_before = now;
    }

    fn is_at_rest(&self) -> bool {
        let certain = matches!(self.knowledge, Knowledge::Noted | Knowledge::Fresh);
        self.in_flight.is_none() && (self.role == Role::Unknown || certain && !self.is_ours())
    }
}
