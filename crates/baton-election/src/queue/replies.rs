//! Handles the replies of a queue election.
//!
//! Pure. `queue.rs` decides on requests, and `sessions.rs` handles sessions. Start with
//! [`QueueElection::handle_checked`]: only a transaction that found our znode begins or extends a
//! claim.

use crate::candidacy::Candidacy;
use crate::claim::{Claim, FencingToken};
use crate::instant::Instant;
use crate::machine::{Reason, Transition};
use crate::queue::QueueElection;
use crate::queue::diagnostic::QueueDiagnostic;
use crate::queue::messages::{Announcement, QueueEvent, QueueRequest, SessionId};
use crate::queue::order;
use crate::queue::order::Position;
use crate::queue::state::{AnnouncementState, Link, Membership, OwnZnode, Reported, Session, View};
use std::cmp::{max, min};

impl QueueElection {
    pub(super) fn handle_reply(
        &mut self,
        request: &QueueRequest,
        event: QueueEvent,
        sent: Instant,
        now: Instant,
    ) {
        use {QueueEvent as Event, QueueRequest as Request};
        if let Some(Session { link: Link::Up(replies), .. }) = &mut self.session
            && event != Event::Unknown
        {
            replies.record_reply(sent, now);
        }
        match (request, event) {
            (Request::Begin { .. }, Event::Connected { session, timeout }) => {
                self.handle_connected(session, timeout, sent, now);
            }
            (Request::Resume { .. }, Event::Connected { session, timeout }) => {
                self.handle_resumed(session, timeout, sent, now);
            }
            (Request::Close, Event::Closed) => self.handle_closed(),
            (_, Event::Expired) => self.handle_expired(request, sent),
            (Request::MakePath, Event::Made) => self.path_is_missing = false,
            (Request::Join { prefix, .. }, Event::Joined { name, czxid }) => {
                self.handle_joined(prefix, name, czxid, now);
            }
            (Request::Join { .. }, Event::Missing) => self.path_is_missing = true,
            (Request::Join { .. }, Event::Saturated) => self.handle_saturated(now),
            (Request::List, Event::Listed(names)) => self.handle_listed(&names, now),
            (Request::Watch { name }, Event::Found { owner }) => {
                self.handle_znode_found(name, owner, now);
            }
            (Request::Watch { name }, Event::Missing) => self.handle_znode_missing(name, now),
            (Request::Check { .. }, Event::Checked) => self.handle_checked(sent, now),
            (Request::Announce { .. }, Event::Announced) => {
                self.set_announcement(AnnouncementState::Done);
                self.handle_checked(sent, now);
            }
            (Request::Announce { .. }, Event::Changed) => {
                self.set_announcement(AnnouncementState::Occupied);
            }
            (Request::Check { .. } | Request::Announce { .. } | Request::List, Event::Missing) => {
                self.own_znode_deleted(now);
            }
            (Request::ReadLeader, Event::Leader(announcement)) => {
                self.handle_leader_read(announcement, now);
            }
            (_, Event::Refused) => self.handle_refused(request, sent, now),
            // A reply that does not match the request leaves its outcome unknown.
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
                | Event::Announced
                | Event::Changed
                | Event::Leader(_)
                | Event::Unknown
                | Event::Disconnected
                | Event::WatchFired,
            ) => self.handle_unknown(request, sent, now),
        }
    }

    /// Handles an acknowledged check: at some instant after `sent`, our session was alive and our
    /// znode existed.
    fn handle_checked(&mut self, sent: Instant, now: Instant) {
        let Some(Session {
            link: Link::Up(replies),
            granted: Some(granted),
            timeout,
            is_abandoned: false,
            ..
        }) = &mut self.session
        else {
            return;
        };
        let (requested, lag) = (self.timing.requested(), self.timing.lag());
        let (retry_period, call) = (granted.timing.retry_period(), granted.timing.call_timeout());
        let lifetime = requested.drift().min_elapsed(*timeout);
        let deadline = replies.deadline(sent, requested.renew_deadline(), lifetime);
        // If the claim counts from an old reply, renew as soon as a newer one is settled. A claim
        // that late timers shortened by some milliseconds can wait for the usual renewal. This
        // affects only the time of the next heartbeat, never the deadline.
        let enough =
            max(granted.timing.renew_deadline().saturating_sub(lag / 4), retry_period + call);
        let is_short = deadline < sent + enough;
        let renew_at = if is_short {
            min(sent + retry_period, replies.settles_at())
        } else {
            sent + retry_period
        };
        let is_sustainable = replies.can_sustain_claim(lifetime, call)
            && deadline >= max(sent + retry_period + call, now);
        match (&mut self.membership, self.candidacy) {
            (Membership::Leading { claim, renew_at: due, .. }, _) => {
                *claim = Claim::new(claim.token(), max(deadline, claim.deadline()));
                *due = renew_at;
            }
            (Membership::Queued { own, view: View::First { .. } }, Candidacy::Campaigning { .. })
                // No term begins if its claim would end before a renewal could extend it.
                if is_sustainable =>
            {
                let claim = Claim::new(own.token, deadline);
                let announcement = AnnouncementState::Pending { at: now, replaces: false };
                self.transitions.push_back(Transition::Leading { token: own.token });
                self.membership = Membership::Leading {
                    own: own.clone(),
                    claim,
                    renew_at,
                    watch_at: Some(now),
                    announcement,
                };
                (self.leader, self.reported) = (None, Reported::Nothing);
            }
            // Check at least as often as a leader renews, because the first claim counts from these
            // checks.
            (Membership::Queued { view: View::First { check_at }, .. }, _) => {
                *check_at = now + min(lag, retry_period);
            }
            (
                Membership::Queued { view: View::Stale | View::Behind { .. }, .. }
                | Membership::NotJoined
                | Membership::Leaving { .. },
                _,
            ) => {}
        }
    }

    fn handle_joined(&mut self, prefix: &str, name: String, czxid: u64, now: Instant) {
        let Some(session) = &mut self.session else { return };
        if !order::is_sequenced(&name, prefix) {
            session.is_abandoned = true;
            return self.handle_saturated(now);
        }
        self.diagnosed.saturated = false;
        let (token, largest) = (FencingToken::new(czxid.into()), self.diagnosed.largest_token);
        if token < largest {
            self.transitions
                .push_back(Transition::StoreWentBack { token: largest, version: token });
        }
        self.diagnosed.largest_token = token;
        self.membership = Membership::Queued { own: OwnZnode { name, token }, view: View::Stale };
    }

    fn handle_saturated(&mut self, now: Instant) {
        self.join_at = now + self.timing.requested().lease_duration();
        if !std::mem::replace(&mut self.diagnosed.saturated, true) {
            self.diagnose(QueueDiagnostic::CounterSaturated);
        }
    }

    fn handle_listed(&mut self, names: &[String], now: Instant) {
        let strange = || names.iter().filter(|name| !order::has_latch_name(name));
        if let Some(name) = strange().next()
            && !std::mem::replace(&mut self.diagnosed.strange_candidates, true)
        {
            self.diagnose(QueueDiagnostic::StrangeCandidates {
                name: name.clone(),
                count: strange().count(),
            });
        }
        self.idle_znodes.retain(|name| names.contains(name));
        let Membership::Queued { own, view } = &mut self.membership else { return };
        match (order::position(names, &own.name, &self.idle_znodes), &view) {
            (Position::Absent, _) => self.own_znode_deleted(now),
            (Position::First, _) => *view = View::First { check_at: now },
            (Position::Behind(before), View::Behind { name, is_readable: false, .. })
                if before == name =>
            {
                let watch_again_at = now + self.timing.requested().retry_period();
                *view =
                    View::Behind { name: before.to_owned(), watch_again_at, is_readable: false };
            }
            (Position::Behind(name), View::Stale | View::First { .. } | View::Behind { .. }) => {
                *view =
                    View::Behind { name: name.to_owned(), watch_again_at: now, is_readable: true };
                self.read_leader_at = now;
            }
        }
    }

    fn handle_znode_found(&mut self, watched: &str, owner: Option<SessionId>, now: Instant) {
        let Some(session) = &mut self.session else { return };
        match &mut self.membership {
            Membership::Queued { view: View::Behind { name, watch_again_at, .. }, .. }
                if name == watched =>
            {
                match owner {
                    None => {
                        self.invalidate_view();
                        self.idle_znodes.insert(watched.to_owned());
                        self.diagnose(QueueDiagnostic::IdleZnode { name: watched.to_owned() });
                    }
                    // A create of unknown outcome left this znode. Closing the session deletes
                    // both.
                    Some(owner) if owner == session.id => session.is_abandoned = true,
                    Some(_) => {
                        *watch_again_at =
                            now + session.timeout * 3 / 4 + self.jitter.below(session.timeout / 4);
                    }
                }
            }
            Membership::Leading { own, watch_at, .. } if own.name == watched => {
                *watch_at = None;
                if owner != Some(session.id) {
                    self.lose(Reason::Conflict);
                }
            }
            Membership::NotJoined
            | Membership::Queued { .. }
            | Membership::Leading { .. }
            | Membership::Leaving { .. } => {}
        }
    }

    fn handle_znode_missing(&mut self, watched: &str, now: Instant) {
        match &self.membership {
            Membership::Queued { .. } => self.invalidate_view(),
            Membership::Leading { own, .. } if own.name == watched => self.own_znode_deleted(now),
            Membership::Leading { .. } | Membership::NotJoined | Membership::Leaving { .. } => {}
        }
    }

    /// Handles the deletion of our znode.
    fn own_znode_deleted(&mut self, now: Instant) {
        match &self.membership {
            Membership::Leading { .. } => self.lose(Reason::Deleted),
            Membership::Queued { .. } => {
                self.membership = Membership::NotJoined;
                self.join_at = now + self.timing.requested().retry_period();
            }
            Membership::NotJoined | Membership::Leaving { .. } => {}
        }
    }

    /// Marks the view of the queue as stale.
    pub(super) fn invalidate_view(&mut self) {
        if let Membership::Queued { view, .. } = &mut self.membership {
            *view = View::Stale;
        }
    }

    pub(super) fn handle_watch_fired(&mut self, now: Instant) {
        self.invalidate_view();
        self.renew_and_watch(now);
    }

    /// Makes a leader check its znode at once, then watch it.
    pub(super) fn renew_and_watch(&mut self, now: Instant) {
        if let Membership::Leading { renew_at, watch_at, .. } = &mut self.membership {
            (*renew_at, *watch_at) = (now, Some(now));
        }
    }

    fn handle_leader_read(&mut self, read: Option<Announcement>, now: Instant) {
        let Some(Session { id, timeout, .. }) = self.session else { return };
        if let Membership::Leading { announcement: AnnouncementState::Occupied, .. } =
            &self.membership
        {
            let state = match read.map(|read| read.owner) {
                None => AnnouncementState::Pending { at: now, replaces: false },
                // Our own, written by a request whose reply was lost.
                Some(Some(owner)) if owner == id => AnnouncementState::Done,
                // Left by an earlier leader whose session has not expired yet.
                Some(Some(_)) => AnnouncementState::Pending { at: now, replaces: true },
                Some(None) => {
                    self.diagnose(QueueDiagnostic::LeaderPathTaken);
                    AnnouncementState::Done
                }
            };
            return self.set_announcement(state);
        }
        let current = read.filter(|read| read.owner.is_some_and(|owner| owner != id));
        let announced = current.and_then(|read| order::parse_announcement(&read.text));
        if let Some((token, _)) = announced {
            self.diagnosed.largest_token = max(self.diagnosed.largest_token, token);
        }
        self.leader = announced.map(|(_, identity)| (identity, now + timeout));
        self.schedule_leader_read(now);
        self.report_leader();
    }

    /// Schedules the next read of the announcement, after about two retry periods. A third of the
    /// session timeout is the limit, because a follower sends no other request that keeps its
    /// session alive.
    fn schedule_leader_read(&mut self, now: Instant) {
        let Some(session) = &self.session else { return };
        let longest = min(self.timing.requested().retry_period() * 2, session.timeout / 3);
        self.read_leader_at = now + longest * 3 / 4 + self.jitter.below(longest / 4);
    }

    fn set_announcement(&mut self, state: AnnouncementState) {
        if let Membership::Leading { announcement, .. } = &mut self.membership {
            *announcement = state;
        }
    }

    /// Reports the followed leader if it changed.
    pub(super) fn report_leader(&mut self) {
        match self.membership {
            Membership::Leading { .. } | Membership::Leaving { .. } => return,
            Membership::NotJoined | Membership::Queued { .. } => {}
        }
        let leader = self
            .leader
            .as_ref()
            .map(|(leader, _)| leader.clone())
            .filter(|leader| *leader != self.identity);
        let reported = Reported::Following(leader.clone());
        if self.reported != reported {
            self.reported = reported;
            self.transitions.push_back(Transition::Following { leader });
        }
    }

    pub(super) fn diagnose(&mut self, diagnostic: QueueDiagnostic) {
        self.transitions.push_back(Transition::Diagnosed(diagnostic));
    }

    /// Handles a request that the store denied, and will deny again if it is repeated soon.
    fn handle_refused(&mut self, request: &QueueRequest, sent: Instant, now: Instant) {
        let later = now + self.timing.requested().retry_period();
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
            QueueRequest::Watch { .. } => match &mut self.membership {
                Membership::Queued {
                    view: View::Behind { watch_again_at, is_readable, .. },
                    ..
                } => {
                    (*watch_again_at, *is_readable) = (later, false);
                }
                Membership::Leading { watch_at, .. } => *watch_at = None,
                Membership::Queued { .. } | Membership::NotJoined | Membership::Leaving { .. } => {}
            },
            QueueRequest::ReadLeader => {
                self.schedule_leader_read(now);
                self.set_announcement(AnnouncementState::Done);
                if let Membership::Queued { .. } = self.membership {
                    self.report_leader();
                }
            }
            QueueRequest::Announce { .. } => self.set_announcement(AnnouncementState::Done),
        }
    }
}
