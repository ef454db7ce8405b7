//! The queue election: candidates queue in ZooKeeper, and the first one leads.
//!
//! Pure. The queue consists of ephemeral sequential znodes. Start with [`QueueElection::plan`],
//! which alone decides what to request next, and when. `replies.rs` and `sessions.rs` handle
//! replies, `deadline.rs` computes deadlines, `order.rs` compares znodes, and [`messages`] defines
//! the contract with the store.
//!
//! ```text
//!  session:     None ──Begin──► Up ──disconnected──► Down ──Resume──► Up
//!               any ──Close, Expired, or another session id──► None
//!
//!  membership:  NotJoined ──Join──► Queued ──List: first; Check──► Leading ──┐ Check acknowledged:
//!                   ▲                │  ▲                            │  ▲────┘ see deadline.rs
//!                   │                ▼  │ watch event, or reconnected │
//!                   │          Watch the predecessor                 │ Close
//!                   └── session ended, or own znode deleted ── Leaving ◄──┘
//! ```
//!
//! The rules:
//!
//! * Only an acknowledged transaction that found our znode begins or extends a claim. Reads and
//!   pings prove nothing: a server that is partitioned from the quorum answers them for ten more
//!   seconds.
//! * An unexplained state ends the session, and so deletes all its znodes. That applies to a create
//!   of unknown outcome, to a second znode of our own session ahead of us, and to a claim that
//!   reached its deadline. Searching for the lost znode would not suffice, because it may be
//!   created after the search. A session is not closed while its claim holds.
//! * A session has ended if a reconnect returns another session id, or if none succeeds for the
//!   whole session timeout.
//! * The session of an [`EndedRun`] is resumed and closed, but only after the last promise of that
//!   run expires.
//! * After every reconnect a follower lists the queue again, and a leader checks its znode first.
//! * A znode ahead of us that no session owns is not a candidate. It is skipped.
//!
//! **The leader's name** cannot be derived from the queue, because the first candidate may not know
//! yet that it is first. So a leader with a claim writes its identity and token to a znode beside
//! the path, in a transaction that checks its own znode. It replaces the announcement of an earlier
//! leader whose session has not expired yet. No candidate watches the announcement, so that a
//! thousand followers never wake together. A follower reads it when it joins, when its predecessor
//! changes, and otherwise about every two retry periods, less some jitter. So the name that it
//! reports is at most that old. A follower that cannot read forgets the name after one session
//! timeout. Candidates of other recipes announce nothing; while one leads, the leader is unknown.

mod deadline;
pub mod diagnostic;
pub mod messages;
mod order;
mod replies;
mod sessions;
mod state;
pub mod timing;

use crate::candidacy::Candidacy;
use crate::claim::{Claim, FencingToken, Standing};
use crate::ended_run::EndedRun;
use crate::identity::Identity;
use crate::instant::Instant;
use crate::machine::{Election, Reason, Timer, Transition, Withdrawal};
use crate::timing::{Jitter, Timing};
use diagnostic::QueueDiagnostic;
use messages::{QueueEvent, QueueRequest, SessionId};
use state::{
    AnnouncementState, DiagnosticState, InFlight, Link, Membership, Reported, Session, Step, View,
};
use std::cmp::max;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use timing::SessionTiming;

/// One candidate of an election that is held in a queue of znodes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct QueueElection {
    identity: Identity,
    timing: SessionTiming,
    jitter: Jitter,
    /// The prefix of our next znode's name.
    prefix: String,
    candidacy: Candidacy,
    session: Option<Session>,
    /// The previous run, while `session` is its session.
    ended_run: Option<Identity>,
    membership: Membership,
    /// The announced leader, and when that name expires.
    leader: Option<(Identity, Instant)>,
    reported: Reported,
    /// When to read the announcement.
    read_leader_at: Instant,
    /// The earliest time to join.
    join_at: Instant,
    /// Whether the election's path must be created before joining.
    path_is_missing: bool,
    /// Children of the path that no session owns.
    idle_znodes: BTreeSet<String>,
    diagnosed: DiagnosticState,
    in_flight: Option<InFlight>,
    /// No request is due before this. Paces requests after failures.
    not_before: Instant,
    transitions: VecDeque<Transition<QueueDiagnostic>>,
}

impl QueueElection {
    /// A candidate without a session that joins the queue from `campaign_from` on.
    ///
    /// `jitter` also makes the names of its znodes unique.
    pub fn new(
        identity: Identity,
        timing: SessionTiming,
        mut jitter: Jitter,
        campaign_from: Instant,
    ) -> Self {
        let start = Instant::since_boot(Duration::ZERO);
        Self {
            identity,
            timing,
            prefix: order::prefix(&mut jitter),
            jitter,
            candidacy: Candidacy::Campaigning { from: campaign_from },
            session: None,
            ended_run: None,
            membership: Membership::NotJoined,
            leader: None,
            reported: Reported::Nothing,
            read_leader_at: start,
            join_at: start,
            path_is_missing: false,
            idle_znodes: BTreeSet::new(),
            diagnosed: DiagnosticState {
                largest_token: FencingToken::new(0),
                granted: None,
                strange_candidates: false,
                saturated: false,
            },
            in_flight: None,
            not_before: start,
            transitions: VecDeque::new(),
        }
    }

    /// Closes the session of `ended_run` first, which deletes the znodes of that run. Call this
    /// before the first event. `timeout` is the timeout of the session.
    #[must_use]
    pub fn with_ended_run(
        self,
        ended_run: EndedRun,
        session: SessionId,
        timeout: Duration,
    ) -> Self {
        let EndedRun { identity, promised_until } = ended_run;
        let link = Link::Down { since: promised_until };
        let session = Session { id: session, granted: None, timeout, link, is_abandoned: true };
        Self { session: Some(session), ended_run: Some(identity), ..self }
    }

    /// The next step, and when it is due.
    fn plan(&self) -> Option<(Instant, Step<'_>)> {
        let has_released = matches!(self.candidacy, Candidacy::Releasing(_)) && self.is_released();
        if self.in_flight.is_some() || has_released {
            return None;
        }
        let (due, step) = match &self.session {
            None => (self.not_before, Step::Begin),
            Some(Session { link: Link::Down { since }, .. }) => (*since, Step::Resume),
            Some(session) if self.must_close(session) => match (&self.membership, self.candidacy) {
                // A close would let another candidate lead while the claim still holds.
                (
                    Membership::Leading { .. },
                    Candidacy::Campaigning { .. } | Candidacy::Withdrawn(_),
                ) => return None,
                (
                    Membership::NotJoined | Membership::Queued { .. } | Membership::Leaving { .. },
                    _,
                )
                | (_, Candidacy::Releasing(_)) => (self.not_before, Step::Close),
            },
            Some(_) => self.plan_connected()?,
        };
        Some((max(due, self.not_before), step))
    }

    /// Whether to close the session.
    fn must_close(&self, session: &Session) -> bool {
        // A withdrawn candidate must not block the queue.
        let blocks = match (self.candidacy, &self.membership) {
            (Candidacy::Campaigning { .. }, _)
            | (
                Candidacy::Withdrawn(_),
                Membership::NotJoined | Membership::Leading { .. } | Membership::Leaving { .. },
            ) => false,
            (Candidacy::Withdrawn(_), Membership::Queued { .. }) | (Candidacy::Releasing(_), _) => {
                true
            }
        };
        session.is_abandoned || blocks
    }

    /// The next step while the session is connected.
    fn plan_connected(&self) -> Option<(Instant, Step<'_>)> {
        let read_leader = (self.read_leader_at, Step::ReadLeader);
        match (&self.membership, self.candidacy) {
            (Membership::NotJoined, Candidacy::Campaigning { from }) => {
                let join = if self.path_is_missing { Step::MakePath } else { Step::Join };
                earliest([(max(from, self.join_at), join), read_leader])
            }
            (Membership::NotJoined, Candidacy::Withdrawn(_) | Candidacy::Releasing(_)) => {
                Some(read_leader)
            }
            (Membership::Queued { own, view }, _) => match view {
                View::Stale => Some((self.not_before, Step::List)),
                View::First { check_at } => Some((*check_at, Step::Check(own))),
                View::Behind { watch_again_at, is_readable: false, .. } => {
                    earliest([(*watch_again_at, Step::List), read_leader])
                }
                View::Behind { name, watch_again_at, is_readable: true } => {
                    earliest([(*watch_again_at, Step::Watch(name)), read_leader])
                }
            },
            (Membership::Leading { .. }, Candidacy::Withdrawn(Withdrawal::Releasing))
            | (Membership::Leaving { .. }, _) => None,
            (Membership::Leading { own, renew_at, watch_at, announcement, .. }, candidacy) => {
                let renew = (*renew_at, Step::Check(own));
                let watch = watch_at.map(|due| (due, Step::Watch(&own.name)));
                let announce = match (announcement, candidacy) {
                    (
                        AnnouncementState::Pending { at, replaces },
                        Candidacy::Campaigning { .. },
                    ) => Some((*at, Step::Announce { own, replaces: *replaces })),
                    (AnnouncementState::Occupied, Candidacy::Campaigning { .. }) => {
                        Some((self.not_before, read_leader.1))
                    }
                    (AnnouncementState::Done, _)
                    | (_, Candidacy::Withdrawn(_) | Candidacy::Releasing(_)) => None,
                };
                earliest([renew].into_iter().chain(watch).chain(announce))
            }
        }
    }

    fn request(&self, step: Step<'_>) -> QueueRequest {
        let timeout = self.timing.requested().lease_duration();
        match step {
            Step::Begin => QueueRequest::Begin { timeout },
            Step::Resume => QueueRequest::Resume { timeout },
            Step::Close => QueueRequest::Close,
            Step::MakePath => QueueRequest::MakePath,
            Step::Join => {
                let (prefix, identity) = (self.prefix.clone(), self.identity.clone());
                QueueRequest::Join { prefix, identity }
            }
            Step::List => QueueRequest::List,
            Step::Watch(name) => QueueRequest::Watch { name: name.to_owned() },
            Step::Check(own) => QueueRequest::Check { name: own.name.clone() },
            Step::ReadLeader => QueueRequest::ReadLeader,
            Step::Announce { own, replaces } => {
                let text = order::announcement(own.token, &self.identity);
                QueueRequest::Announce { name: own.name.clone(), text, replaces }
            }
        }
    }

    /// The timing under the granted session timeout, or as configured without a session.
    fn durations(&self) -> &Timing {
        let granted = self.session.as_ref().and_then(|session| session.granted.as_ref());
        granted.map_or_else(|| self.timing.requested(), |granted| &granted.timing)
    }
}

/// The step that is due first. Among equals, the first one wins.
fn earliest<'a>(
    steps: impl IntoIterator<Item = (Instant, Step<'a>)>,
) -> Option<(Instant, Step<'a>)> {
    steps.into_iter().min_by_key(|(due, _)| *due)
}

impl Election for QueueElection {
    type Diagnostic = QueueDiagnostic;
    type Request = QueueRequest;
    type Event = QueueEvent;

    fn handle_event(&mut self, event: QueueEvent, now: Instant) {
        self.handle_timeout(now);
        if event == QueueEvent::Disconnected {
            return self.handle_disconnected(now);
        }
        if event == QueueEvent::WatchFired {
            return self.handle_watch_fired(now);
        }
        // A reply without a request is a bug in the driver. It must not begin a claim.
        if let Some(InFlight { request, sent }) = self.in_flight.take() {
            self.handle_reply(&request, event, sent, now);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Membership::Leading { claim, .. } = &self.membership
            && claim.remaining(now).is_zero()
        {
            self.lose(Reason::Deadline);
        }
        if self.presumed_expired_at().is_some_and(|due| due <= now) {
            self.end_session();
        }
        if self.leader.as_ref().is_some_and(|(_, until)| *until <= now) {
            self.leader = None;
            self.report_leader();
        }
    }

    fn poll_request(&mut self, now: Instant) -> Option<QueueRequest> {
        self.handle_timeout(now);
        let (_, step) = self.plan().filter(|(due, _)| *due <= now)?;
        let request = self.request(step);
        if let QueueRequest::Join { .. } = request {
            self.prefix = order::prefix(&mut self.jitter);
        }
        if let (
            QueueRequest::Close,
            Membership::Leading { own, .. },
            Candidacy::Releasing(reason),
        ) = (&request, &self.membership, self.candidacy)
        {
            self.membership = Membership::Leaving { token: own.token, reason };
        }
        if let (QueueRequest::Close, Some(session)) = (&request, &mut self.session) {
            session.is_abandoned = true;
        }
        self.in_flight = Some(InFlight { request: request.clone(), sent: now });
        Some(request)
    }

    fn poll_timeout(&self) -> Option<(Instant, Timer)> {
        let request = self.plan().map(|(due, _)| (due, Timer::Request));
        let deadline = match &self.membership {
            Membership::Leading { claim, .. } => Some((claim.deadline(), Timer::Deadline)),
            Membership::NotJoined | Membership::Queued { .. } | Membership::Leaving { .. } => None,
        };
        let name = self.leader.as_ref().map(|(_, until)| (*until, Timer::Lapse));
        let session = self.presumed_expired_at().map(|due| (due, Timer::Lapse));
        request.into_iter().chain(deadline).chain(name).chain(session).min_by_key(|(due, _)| *due)
    }

    fn poll_transition(&mut self) -> Option<Transition<QueueDiagnostic>> {
        self.transitions.pop_front()
    }

    fn standing(&self) -> Standing {
        match (&self.membership, self.candidacy) {
            (Membership::Leading { claim, .. }, Candidacy::Campaigning { .. }) => {
                Standing::Leading(*claim)
            }
            (
                Membership::Leading { claim, .. },
                Candidacy::Withdrawn(_) | Candidacy::Releasing(_),
            ) => Standing::Resigning(*claim),
            (Membership::Leaving { .. }, _) => Standing::Following { leader: None },
            (Membership::NotJoined | Membership::Queued { .. }, _) => match &self.reported {
                Reported::Nothing => Standing::Unknown,
                Reported::Following(leader) => Standing::Following { leader: leader.clone() },
            },
        }
    }

    fn claim(&self) -> Option<Claim> {
        match &self.membership {
            Membership::Leading { claim, .. } => Some(*claim),
            Membership::NotJoined | Membership::Queued { .. } | Membership::Leaving { .. } => None,
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
        self.not_before = now;
    }

    fn is_released(&self) -> bool {
        let has_no_znode = match &self.session {
            None => true,
            Some(Session { link: Link::Up(_), .. }) => false,
            Some(session) => {
                // A stop does not wait for the session of an ended run: it expires by itself.
                let needs_no_close = !session.is_abandoned || self.ended_run.is_some();
                needs_no_close && matches!(self.membership, Membership::NotJoined)
            }
        };
        self.in_flight.is_none() && has_no_znode
    }

    fn call_timeout(&self) -> Duration {
        self.durations().call_timeout()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::{Drift, Durations};

    fn at(seconds: u64) -> Instant {
        Instant::since_boot(Duration::from_secs(seconds))
    }

    fn candidate() -> QueueElection {
        let seconds = Duration::from_secs;
        let durations = Durations {
            lease_duration: seconds(15),
            renew_deadline: seconds(10),
            retry_period: seconds(2),
            answer_validity: seconds(2),
        };
        let timing = Timing::new(durations, Drift::default()).unwrap();
        let timing = SessionTiming::new(timing, seconds(2)).unwrap();
        QueueElection::new(Identity::parse("us_1").unwrap(), timing, Jitter::new(1), at(0))
    }

    /// Grants the session that the machine requests.
    fn connect(machine: &mut QueueElection, now: Instant) {
        let request = machine.poll_request(now);
        let Some(QueueRequest::Begin { timeout } | QueueRequest::Resume { timeout }) = request
        else {
            panic!("expected Begin or Resume, not {request:?}")
        };
        machine.handle_event(QueueEvent::Connected { session: SessionId(1), timeout }, now);
    }

    /// A clean stop waits for this.
    #[test]
    fn is_released_only_if_no_session_can_own_a_znode() {
        let mut machine = candidate();
        assert_eq!(machine.call_timeout(), Duration::from_secs(8) / 3);
        assert!(machine.is_released(), "nothing was requested");
        connect(&mut machine, at(1));
        assert!(!machine.is_released(), "a session is open");
        machine.handle_event(QueueEvent::Disconnected, at(1));
        assert!(machine.is_released(), "a session without a znode may expire by itself");
        connect(&mut machine, at(4));
        let Some(QueueRequest::Join { prefix, .. }) = machine.poll_request(at(5)) else {
            panic!("expected Join")
        };
        assert!(!machine.is_released(), "a request is in flight");
        machine.handle_event(
            QueueEvent::Joined { name: format!("{prefix}0000000000"), czxid: 5 },
            at(5),
        );
        machine.handle_event(QueueEvent::Disconnected, at(5));
        assert!(!machine.is_released(), "the znode lives as long as the session");
        machine.release(Reason::Shutdown, at(6));
        connect(&mut machine, at(6));
        assert_eq!(machine.poll_request(at(6)), Some(QueueRequest::Close));
        machine.handle_event(QueueEvent::Closed, at(6));
        assert!(machine.is_released(), "the session is closed");
    }
}
