//! The ZooKeeper election: candidates stand in line by ephemeral sequential znodes, and the first of them leads.
//!
//! Pure. Read [`QueueElection::plan`] first: it alone decides what is asked of the store next, and when. What replies and
//! news mean stands in `zookeeper/replies.rs`, how long they let us lead in `zookeeper/deadline.rs`, who stands before whom in
//! `zookeeper/line.rs`. The words between machine and store, and what a store owes the machine: [`messages`].
//!
//! ```text
//!  session:  none ──Begin──► up ──connection lost──► down ──Resume──► up        Close, Expired, another id: none
//!
//!  place:    Outside ──Join──► InLine ──────List: nobody before us, Check──────► Leading ──┐ Check answered:
//!               ▲                │ ▲                                               │  ▲────┘ see deadline.rs
//!               │                ▼ │ its znode changed, or its connection was new  │
//!               │              Look at the one before us, with a watch             │
//!               └── the session is over, or our znode is gone ◄── Leaving ◄────────┘ Close: claims nothing any more
//! ```
//!
//! The rules, and who needs them:
//! * A claim counts from an answered transaction that found our znode, and from nothing less: servers that are cut off from
//!   the others answer reads and pings for ten seconds more.
//! * Whatever we cannot account for ends the session, which takes all that is ours with it: a create whose outcome is
//!   unknown, a second znode of ours before our own, a claim that ran out. To look for the lost znode is not enough: it may
//!   be created after the look. While a claim holds, its session is not closed.
//! * A session that comes back under another number, or not at all for its whole time-out, is over.
//! * After each connect the line is looked at anew; a leader first has its znode checked.
//! * A znode before us that no session owns is nobody's: it is passed over.
//!
//! **Who leads** is not who is first, for that one may not know. So a leader writes its identity and token beside the path once
//! it has a claim, in a transaction that finds its own znode. It replaces what a leader left whose session is not over
//! yet. Nobody watches that: each follower reads it when it joins, when its place changes, and else every two retry periods
//! less some chance. So a name is at most that old, a thousand followers are never woken together, and a follower that
//! cannot read forgets the name after a session's time-out. A candidate of another recipe acknowledges nothing; while
//! it leads we name nobody.

mod deadline;
pub mod diagnostic;
pub mod messages;
mod order;
mod replies;
mod sessions;
mod state;
pub mod timing;

use crate::candidacy::Candidacy;
use crate::claim::{FencingToken, Standing};
use crate::identity::Identity;
use crate::instant::Instant;
use crate::machine::{Election, Reason, Timer, Transition, Withdrawal};
use crate::timing::{Jitter, Timing};
use diagnostic::QueueDiagnostic;
use messages::{QueueEvent, QueueRequest};
use state::{InFlight, Link, Place, Remarks, Session, Told, ToldOthers, View};
use std::cmp::max;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use timing::SessionTiming;

/// The machine of one candidate.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct QueueElection {
    identity: Identity,
    timing: SessionTiming,
    chance: Jitter,
    /// What the name of our next znode begins with.
    prefix: String,
    candidacy: Candidacy,
    session: Option<Session>,
    place: Place,
    /// Who acknowledged that it leads, and until when that counts.
    leader: Option<(Identity, Instant)>,
    told: Told,
    /// When to read who leads.
    read_leader_at: Instant,
    /// When to join at the soonest.
    join_at: Instant,
    /// Whether the election's path is to be made first.
    path_is_missing: bool,
    /// Children of the path that no session owns.
    idle: BTreeSet<String>,
    remarks: Remarks,
    in_flight: Option<InFlight>,
    /// Paces requests after one that failed.
    not_before: Instant,
    transitions: VecDeque<Transition<QueueDiagnostic>>,
}

impl QueueElection {
    /// A candidate without a session, that joins the line from `campaign_from` on. `chance` also makes the names of its
    /// znodes unique.
    pub fn new(
        identity: Identity,
        timing: SessionTiming,
        mut chance: Jitter,
        campaign_from: Instant,
    ) -> Self {
        let start = Instant::since_boot(Duration::ZERO);
        Self {
            identity,
            timing,
            prefix: order::prefix(&mut chance),
            chance,
            candidacy: Candidacy::Campaigning { from: campaign_from },
            session: None,
            place: Place::Outside,
            leader: None,
            told: Told::Nothing,
            read_leader_at: start,
            join_at: start,
            path_is_missing: false,
            idle: BTreeSet::new(),
            remarks: Remarks {
                largest_token: FencingToken::new(0),
                granted: None,
                strangers: false,
                saturated: false,
            },
            in_flight: None,
            not_before: start,
            transitions: VecDeque::new(),
        }
    }

    /// The next request, and when it is due.
    fn plan(&self) -> Option<(Instant, QueueRequest)> {
        let gave_all_back = matches!(self.candidacy, Candidacy::Releasing(_)) && self.is_at_rest();
        if self.in_flight.is_some() || gave_all_back {
            return None;
        }
        let timeout = self.timing.asked().lease_duration();
        let (due, request) = match &self.session {
            None => (self.not_before, QueueRequest::Begin { timeout }),
            Some(Session { link: Link::Down { .. }, .. }) => {
                (self.not_before, QueueRequest::Resume { timeout })
            }
            Some(session) if self.ends(session) => match (&self.place, self.candidacy) {
                // Others could lead while the claim holds.
                (
                    Place::Leading { .. },
                    Candidacy::Campaigning { .. } | Candidacy::Withdrawn(_),
                ) => return None,
                (Place::Outside | Place::InLine { .. } | Place::Leaving { .. }, _)
                | (_, Candidacy::Releasing(_)) => (self.not_before, QueueRequest::Close),
            },
            Some(_) => self.plan_in_place()?,
        };
        Some((max(due, self.not_before), request))
    }

    /// Whether the session is to be closed.
    fn ends(&self, session: &Session) -> bool {
        // Who does not want to lead must not stand before those who do.
        let blocks = match (self.candidacy, &self.place) {
            (Candidacy::Campaigning { .. }, _)
            | (
                Candidacy::Withdrawn(_),
                Place::Outside | Place::Leading { .. } | Place::Leaving { .. },
            ) => false,
            (Candidacy::Withdrawn(_), Place::InLine { .. }) | (Candidacy::Releasing(_), _) => true,
        };
        session.is_over || blocks
    }

    /// What our place asks for, over a connection that is up.
    fn plan_in_place(&self) -> Option<(Instant, QueueRequest)> {
        let read_leader = (self.read_leader_at, QueueRequest::ReadLeader);
        match (&self.place, self.candidacy) {
            (Place::Outside, Candidacy::Campaigning { from }) => {
                let (prefix, identity) = (self.prefix.clone(), self.identity.clone());
                let join = QueueRequest::Join { prefix, identity };
                let join = if self.path_is_missing { QueueRequest::MakePath } else { join };
                earliest([(max(from, self.join_at), join), read_leader])
            }
            (Place::Outside, Candidacy::Withdrawn(_) | Candidacy::Releasing(_)) => {
                Some(read_leader)
            }
            (Place::InLine { own, view }, _) => match view {
                View::Stale => Some((self.not_before, QueueRequest::List)),
                View::First { check_at } => {
                    Some((*check_at, QueueRequest::Check { name: own.name.clone() }))
                }
                View::Behind { again_at, is_readable: false, .. } => {
                    earliest([(*again_at, QueueRequest::List), read_leader])
                }
                View::Behind { name, again_at, is_readable: true } => {
                    earliest([(*again_at, QueueRequest::Look { name: name.clone() }), read_leader])
                }
            },
            (Place::Leading { .. }, Candidacy::Withdrawn(Withdrawal::Releasing))
            | (Place::Leaving { .. }, _) => None,
            (Place::Leading { own, renew_at, watch_at, told_others, .. }, candidacy) => {
                let name = || own.name.clone();
                let renew = (*renew_at, QueueRequest::Check { name: name() });
                let watch = watch_at.map(|due| (due, QueueRequest::Look { name: name() }));
                let tell = match (told_others, candidacy) {
                    (ToldOthers::NotYet { at, replaces }, Candidacy::Campaigning { .. }) => {
                        let text = order::acknowledgement(own.token, &self.identity);
                        Some((
                            *at,
                            QueueRequest::Acknowledge { name: name(), text, replaces: *replaces },
                        ))
                    }
                    (ToldOthers::Look, Candidacy::Campaigning { .. }) => {
                        Some((self.not_before, read_leader.1))
                    }
                    (ToldOthers::Settled, _)
                    | (_, Candidacy::Withdrawn(_) | Candidacy::Releasing(_)) => None,
                };
                earliest([renew].into_iter().chain(watch).chain(tell))
            }
        }
    }

    /// The durations that hold in this session.
    fn durations(&self) -> &Timing {
        let granted = self.session.as_ref().and_then(|session| session.granted.as_ref());
        granted.map_or_else(|| self.timing.asked(), |granted| &granted.timing)
    }
}

/// The request that is due first; of those that are due at once, the first.
fn earliest(
    requests: impl IntoIterator<Item = (Instant, QueueRequest)>,
) -> Option<(Instant, QueueRequest)> {
    requests.into_iter().min_by_key(|(due, _)| *due)
}

impl Election for QueueElection {
    type Diagnostic = QueueDiagnostic;
    type Request = QueueRequest;
    type Event = QueueEvent;

    fn handle_event(&mut self, event: QueueEvent, now: Instant) {
        self.handle_timeout(now);
        if event == QueueEvent::Disconnected {
            return self.disconnected(now);
        }
        if event == QueueEvent::Fired {
            return self.fired(now);
        }
        // A reply to nothing is a driver's mistake that must not become a claim.
        if let Some(InFlight { request, sent }) = self.in_flight.take() {
            self.replied(&request, event, sent, now);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Place::Leading { claim, .. } = &self.place
            && claim.remaining(now).is_zero()
        {
            self.lose(Reason::Deadline);
        }
        if self.gives_up_at().is_some_and(|due| due <= now) {
            self.session_ended();
        }
        if self.leader.as_ref().is_some_and(|(_, until)| *until <= now) {
            self.leader = None;
            self.tell_leader();
        }
    }

    fn poll_request(&mut self, now: Instant) -> Option<QueueRequest> {
        self.handle_timeout(now);
        let (_, request) = self.plan().filter(|(due, _)| *due <= now)?;
        if let QueueRequest::Join { .. } = request {
            self.prefix = order::prefix(&mut self.chance);
        }
        if let (QueueRequest::Close, Place::Leading { own, .. }, Candidacy::Releasing(reason)) =
            (&request, &self.place, self.candidacy)
        {
            self.place = Place::Leaving { token: own.token, reason };
        }
        if let (QueueRequest::Close, Some(session)) = (&request, &mut self.session) {
            session.is_over = true;
        }
        self.in_flight = Some(InFlight { request: request.clone(), sent: now });
        Some(request)
    }

    fn poll_timeout(&self) -> Option<(Instant, Timer)> {
        let request = self.plan().map(|(due, _)| (due, Timer::Request));
        let deadline = match &self.place {
            Place::Leading { claim, .. } => Some((claim.deadline(), Timer::Deadline)),
            Place::Outside | Place::InLine { .. } | Place::Leaving { .. } => None,
        };
        let name = self.leader.as_ref().map(|(_, until)| (*until, Timer::Lapse));
        let session = self.gives_up_at().map(|due| (due, Timer::Lapse));
        request.into_iter().chain(deadline).chain(name).chain(session).min_by_key(|(due, _)| *due)
    }

    fn poll_transition(&mut self) -> Option<Transition<QueueDiagnostic>> {
        self.transitions.pop_front()
    }

    fn standing(&self) -> Standing {
        match (&self.place, self.candidacy) {
            (Place::Leading { claim, .. }, Candidacy::Campaigning { .. }) => {
                Standing::Leading(*claim)
            }
            (Place::Leading { claim, .. }, Candidacy::Withdrawn(_) | Candidacy::Releasing(_)) => {
                Standing::Resigning(*claim)
            }
            (Place::Leaving { .. }, _) => Standing::Following { leader: None },
            (Place::Outside | Place::InLine { .. }, _) => match &self.told {
                Told::Nothing => Standing::Unknown,
                Told::Others(leader) => Standing::Following { leader: leader.clone() },
            },
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

    fn is_at_rest(&self) -> bool {
        let nothing_is_there = match &self.session {
            None => true,
            Some(Session { link: Link::Up(_), .. }) => false,
            Some(session) => !session.is_over && matches!(self.place, Place::Outside),
        };
        self.in_flight.is_none() && nothing_is_there
    }

    fn call_timeout(&self) -> Duration {
        self.durations().call_timeout()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::{Drift, Durations};
    use messages::SessionId;

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

    /// Tells the machine that it was taken into its session.
    fn connect(machine: &mut QueueElection, now: Instant) {
        let request = machine.poll_request(now);
        let Some(QueueRequest::Begin { timeout } | QueueRequest::Resume { timeout }) = request
        else {
            panic!("asked for was {request:?}")
        };
        machine.handle_event(QueueEvent::Connected { session: SessionId(1), timeout }, now);
    }

    /// A clean end waits for this.
    #[test]
    fn it_is_at_rest_while_no_session_of_ours_can_have_a_znode() {
        let mut machine = candidate();
        assert_eq!(machine.call_timeout(), Duration::from_secs(8) / 3);
        assert!(machine.is_at_rest(), "nothing was asked for");
        connect(&mut machine, at(1));
        assert!(!machine.is_at_rest(), "there is a session");
        machine.handle_event(QueueEvent::Disconnected, at(1));
        assert!(machine.is_at_rest(), "a session that has nothing ends by itself");
        connect(&mut machine, at(4));
        let Some(QueueRequest::Join { prefix, .. }) = machine.poll_request(at(5)) else {
            panic!("it joins")
        };
        assert!(!machine.is_at_rest(), "a request is under way");
        machine.handle_event(
            QueueEvent::Joined { name: format!("{prefix}0000000000"), czxid: 5 },
            at(5),
        );
        machine.handle_event(QueueEvent::Disconnected, at(5));
        assert!(!machine.is_at_rest(), "our znode stays as long as the session");
        machine.release(Reason::Shutdown, at(6));
        connect(&mut machine, at(6));
        assert_eq!(machine.poll_request(at(6)), Some(QueueRequest::Close));
        machine.handle_event(QueueEvent::Closed, at(6));
        assert!(machine.is_at_rest(), "the session is closed");
    }
}
