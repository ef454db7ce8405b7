//! What replies mean to the ZooKeeper machine, and what follows from them.
//!
//! Pure. `zookeeper.rs` says what is asked; here the answers come in. Start with [`ZooKeeper::checked`]: only a transaction
//! that found our znode begins or extends a claim. What becomes of sessions stands in `sessions.rs`.

use crate::candidacy::Candidacy;
use crate::claim::{Claim, FencingToken};
use crate::instant::Instant;
use crate::machine::{Reason, Transition};
use crate::queue::QueueElection;
use crate::queue::diagnostic::QueueDiagnostic;
use crate::queue::messages::{Acknowledgement, QueueEvent, QueueRequest, SessionId};
use crate::queue::order;
use crate::queue::order::Placing;
use crate::queue::state::{Link, Own, Place, Session, Told, ToldOthers, View};
use std::cmp::{max, min};

impl QueueElection {
    pub(super) fn replied(
        &mut self,
        request: &QueueRequest,
        event: QueueEvent,
        sent: Instant,
        now: Instant,
    ) {
        use {QueueEvent as Event, QueueRequest as Request};
        if let Some(Session { link: Link::Up(answers), .. }) = &mut self.session
            && event != Event::Unknown
        {
            answers.answered(sent, now);
        }
        match (request, event) {
            (Request::Begin { .. }, Event::Connected { session, timeout }) => {
                self.begun(session, timeout, sent, now);
            }
            (Request::Resume { .. }, Event::Connected { session, timeout }) => {
                self.resumed(session, timeout, sent, now);
            }
            (Request::Close, Event::Closed) => self.session_ended(),
            (_, Event::Expired) => self.expired(request, sent),
            (Request::MakePath, Event::Made) => self.path_is_missing = false,
            (Request::Join { prefix, .. }, Event::Joined { name, czxid }) => {
                self.joined(prefix, name, czxid, now);
            }
            (Request::Join { .. }, Event::Missing) => self.path_is_missing = true,
            (Request::Join { .. }, Event::Saturated) => self.saturated(now),
            (Request::List, Event::Listed(names)) => self.listed(&names, now),
            (Request::Look { name }, Event::Found { owner }) => self.found(name, owner, now),
            (Request::Look { name }, Event::Missing) => self.not_found(name, now),
            (Request::Check { .. }, Event::Checked) => self.checked(sent, now),
            (Request::Acknowledge { .. }, Event::Acknowledged) => {
                self.tell_others(ToldOthers::Settled);
                self.checked(sent, now);
            }
            (Request::Acknowledge { .. }, Event::Changed) => self.tell_others(ToldOthers::Look),
            (
                Request::Check { .. } | Request::Acknowledge { .. } | Request::List,
                Event::Missing,
            ) => self.gone(now),
            (Request::ReadLeader, Event::Leader(acknowledgement)) => {
                self.leader_read(acknowledgement, now);
            }
            (_, Event::Refused) => self.refused(request, sent, now),
            // A reply of another kind than the request says as little as none.
            (
                _,
                Event::Connected { .. }
                | Event::Closed
                | Event::Made
                | Event::Joined { .. }
                | Event::Missing
                | Event::Saturated
                | Event::Listed(_)
                | Event::Found { .. }
                | Event::Checked
                | Event::Acknowledged
                | Event::Changed
                | Event::Leader(_)
                | Event::Unknown
                | Event::Disconnected
                | Event::Fired,
            ) => self.unknown(request, sent, now),
        }
    }

    /// Our znode was there, and our session lived, at some instant after `sent`.
    fn checked(&mut self, sent: Instant, now: Instant) {
        let Some(Session {
            link: Link::Up(answers),
            granted: Some(granted),
            timeout,
            is_over: false,
            ..
        }) = &mut self.session
        else {
            return;
        };
        let (asked, lag) = (self.timing.asked(), self.timing.lag());
        let (retry_period, call) = (granted.timing.retry_period(), granted.timing.call_timeout());
        let life = asked.drift().least_of_ours(*timeout);
        let deadline = answers.deadline(sent, asked.renew_deadline(), life);
        // A claim that rests on an old answer is to rest on a younger one as soon as that counts. Timers are late by some
        // milliseconds, and each takes as much off a claim that the session cuts: that is no reason to hurry. Nothing but
        // the next heartbeat's instant hangs on this, which has to come in time; the claim ends when it ends.
        let enough =
            max(granted.timing.renew_deadline().saturating_sub(lag / 4), retry_period + call);
        let is_short = deadline < sent + enough;
        let renew_at = if is_short {
            min(sent + retry_period, answers.settles_at())
        } else {
            sent + retry_period
        };
        let lasts = answers.outlast(life, call) && deadline >= max(sent + retry_period + call, now);
        match (&mut self.place, self.candidacy) {
            (Place::Leading { claim, renew_at: due, .. }, _) => {
                *claim = Claim::new(claim.token(), max(deadline, claim.deadline()));
                *due = renew_at;
            }
            (Place::InLine { own, view: View::First { .. } }, Candidacy::Campaigning { .. })
                // A claim that ends before a renewal could have extended it is none to begin a term with.
                if lasts =>
            {
                let claim = Claim::new(own.token, deadline);
                let told_others = ToldOthers::NotYet { at: now, replaces: false };
                self.transitions.push_back(Transition::Leading { token: own.token });
                self.place = Place::Leading { own: own.clone(), claim, renew_at, watch_at: Some(now), told_others };
                (self.leader, self.told) = (None, Told::Nothing);
            }
            // Not less often than a leader: its claim rests on what is asked now.
            (Place::InLine { view: View::First { check_at }, .. }, _) => *check_at = now + min(lag, retry_period),
            (Place::InLine { view: View::Stale | View::Behind { .. }, .. } | Place::Outside | Place::Leaving { .. }, _) => {}
        }
    }

    fn joined(&mut self, prefix: &str, name: String, czxid: u64, now: Instant) {
        let Some(session) = &mut self.session else { return };
        if !order::is_numbered(&name, prefix) {
            session.is_over = true;
            return self.saturated(now);
        }
        self.remarks.saturated = false;
        let (token, largest) = (FencingToken::new(czxid.into()), self.remarks.largest_token);
        if token < largest {
            self.transitions
                .push_back(Transition::StoreWentBack { token: largest, version: token });
        }
        self.remarks.largest_token = token;
        self.place = Place::InLine { own: Own { name, token }, view: View::Stale };
    }

    fn saturated(&mut self, now: Instant) {
        self.join_at = now + self.timing.asked().lease_duration();
        if !std::mem::replace(&mut self.remarks.saturated, true) {
            self.diagnose(QueueDiagnostic::Saturated);
        }
    }

    fn listed(&mut self, names: &[String], now: Instant) {
        let strange = || names.iter().filter(|name| !order::is_usual(name));
        if let Some(name) = strange().next()
            && !std::mem::replace(&mut self.remarks.strangers, true)
        {
            self.diagnose(QueueDiagnostic::Strangers {
                name: name.clone(),
                count: strange().count(),
            });
        }
        self.idle.retain(|name| names.contains(name));
        let Place::InLine { own, view } = &mut self.place else { return };
        match (order::placing(names, &own.name, &self.idle), &view) {
            (Placing::Absent, _) => self.gone(now),
            (Placing::First, _) => *view = View::First { check_at: now },
            (Placing::Behind(before), View::Behind { name, is_readable: false, .. })
                if before == name =>
            {
                let again_at = now + self.timing.asked().retry_period();
                *view = View::Behind { name: before.to_owned(), again_at, is_readable: false };
            }
            (Placing::Behind(name), View::Stale | View::First { .. } | View::Behind { .. }) => {
                *view = View::Behind { name: name.to_owned(), again_at: now, is_readable: true };
                self.read_leader_at = now;
            }
        }
    }

    fn found(&mut self, looked: &str, owner: Option<SessionId>, now: Instant) {
        let Some(session) = &mut self.session else { return };
        match &mut self.place {
            Place::InLine { view: View::Behind { name, again_at, .. }, .. } if name == looked => {
                match owner {
                    None => {
                        self.place_again();
                        self.idle.insert(looked.to_owned());
                        self.diagnose(QueueDiagnostic::Idle { name: looked.to_owned() });
                    }
                    // A create that we know nothing of: both znodes go.
                    Some(owner) if owner == session.id => session.is_over = true,
                    Some(_) => {
                        *again_at =
                            now + session.timeout * 3 / 4 + self.chance.below(session.timeout / 4);
                    }
                }
            }
            Place::Leading { own, watch_at, .. } if own.name == looked => {
                *watch_at = None;
                if owner != Some(session.id) {
                    self.lose(Reason::Conflict);
                }
            }
            Place::Outside
            | Place::InLine { .. }
            | Place::Leading { .. }
            | Place::Leaving { .. } => {}
        }
    }

    fn not_found(&mut self, looked: &str, now: Instant) {
        match &self.place {
            Place::InLine { .. } => self.place_again(),
            Place::Leading { own, .. } if own.name == looked => self.gone(now),
            Place::Leading { .. } | Place::Outside | Place::Leaving { .. } => {}
        }
    }

    /// Somebody deleted our znode.
    fn gone(&mut self, now: Instant) {
        match &self.place {
            Place::Leading { .. } => self.lose(Reason::Deleted),
            Place::InLine { .. } => {
                self.place = Place::Outside;
                self.join_at = now + self.timing.asked().retry_period();
            }
            Place::Outside | Place::Leaving { .. } => {}
        }
    }

    /// The line has changed, or may have.
    pub(super) fn place_again(&mut self) {
        if let Place::InLine { view, .. } = &mut self.place {
            *view = View::Stale;
        }
    }

    pub(super) fn fired(&mut self, now: Instant) {
        self.place_again();
        self.renew_and_watch(now);
    }

    /// Our znode is to be checked and watched at once, in this order.
    pub(super) fn renew_and_watch(&mut self, now: Instant) {
        if let Place::Leading { renew_at, watch_at, .. } = &mut self.place {
            (*renew_at, *watch_at) = (now, Some(now));
        }
    }

    fn leader_read(&mut self, read: Option<Acknowledgement>, now: Instant) {
        let Some(Session { id, timeout, .. }) = self.session else { return };
        if let Place::Leading { told_others: ToldOthers::Look, .. } = &self.place {
            let how = match read.map(|read| read.owner) {
                None => ToldOthers::NotYet { at: now, replaces: false },
                // Ours, though we never heard so.
                Some(Some(owner)) if owner == id => ToldOthers::Settled,
                // Left by a leader whose session is not over yet.
                Some(Some(_)) => ToldOthers::NotYet { at: now, replaces: true },
                Some(None) => {
                    self.diagnose(QueueDiagnostic::LeaderPathTaken);
                    ToldOthers::Settled
                }
            };
            return self.tell_others(how);
        }
        let living = read.filter(|read| read.owner.is_some_and(|owner| owner != id));
        let said = living.and_then(|read| order::acknowledged(&read.text));
        if let Some((token, _)) = said {
            self.remarks.largest_token = max(self.remarks.largest_token, token);
        }
        self.leader = said.map(|(_, identity)| (identity, now + timeout));
        self.read_leader_again(now);
        self.tell_leader();
    }

    /// Lets who leads be read again after two retry periods, or after a third of the session where that is less: nothing
    /// else that we ask keeps a follower's session alive.
    fn read_leader_again(&mut self, now: Instant) {
        let Some(session) = &self.session else { return };
        let longest = min(self.timing.asked().retry_period() * 2, session.timeout / 3);
        self.read_leader_at = now + longest * 3 / 4 + self.chance.below(longest / 4);
    }

    fn tell_others(&mut self, how: ToldOthers) {
        if let Place::Leading { told_others, .. } = &mut self.place {
            *told_others = how;
        }
    }

    /// Tells whom we follow, if that is news.
    pub(super) fn tell_leader(&mut self) {
        match self.place {
            Place::Leading { .. } | Place::Leaving { .. } => return,
            Place::Outside | Place::InLine { .. } => {}
        }
        let leader = self
            .leader
            .as_ref()
            .map(|(leader, _)| leader.clone())
            .filter(|leader| *leader != self.identity);
        let told = Told::Others(leader.clone());
        if self.told != told {
            self.told = told;
            self.transitions.push_back(Transition::Following { leader });
        }
    }

    pub(super) fn diagnose(&mut self, diagnostic: QueueDiagnostic) {
        self.transitions.push_back(Transition::Diagnosed(diagnostic));
    }

    /// The store did nothing, and will not soon.
    fn refused(&mut self, request: &QueueRequest, sent: Instant, now: Instant) {
        let later = now + self.timing.asked().retry_period();
        match request {
            QueueRequest::Begin { .. }
            | QueueRequest::Resume { .. }
            | QueueRequest::Close
            | QueueRequest::MakePath
            | QueueRequest::Join { .. }
            | QueueRequest::List => self.not_before = later,
            QueueRequest::Check { .. } => {
                self.not_before = max(now, sent + self.durations().call_timeout());
            }
            QueueRequest::Look { .. } => match &mut self.place {
                Place::InLine { view: View::Behind { again_at, is_readable, .. }, .. } => {
                    (*again_at, *is_readable) = (later, false);
                }
                Place::Leading { watch_at, .. } => *watch_at = None,
                Place::InLine { .. } | Place::Outside | Place::Leaving { .. } => {}
            },
            QueueRequest::ReadLeader => {
                self.read_leader_again(now);
                self.tell_others(ToldOthers::Settled);
                if let Place::InLine { .. } = self.place {
                    self.tell_leader();
                }
            }
            QueueRequest::Acknowledge { .. } => self.tell_others(ToldOthers::Settled),
        }
    }
}
