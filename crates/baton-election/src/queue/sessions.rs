//! Handles the start, loss, and end of a queue election's sessions.
//!
//! Pure. A lost connection is resumed; an ended session takes our znode with it. Start with
//! [`QueueElection::handle_resumed`].

use crate::candidacy::Candidacy;
use crate::claim::Claim;
use crate::instant::Instant;
use crate::machine::{Reason, Transition};
use crate::queue::QueueElection;
use crate::queue::deadline::ReplyHistory;
use crate::queue::diagnostic::QueueDiagnostic;
use crate::queue::messages::{QueueRequest, SessionId};
use crate::queue::state::{AnnouncementState, Link, Membership, Session};
use crate::queue::timing::Granted;
use crate::timing::whole_milliseconds;
use std::cmp::{max, min};
use std::time::Duration;

impl QueueElection {
    pub(super) fn handle_connected(
        &mut self,
        id: SessionId,
        timeout: Duration,
        sent: Instant,
        now: Instant,
    ) {
        let granted = self.grant(timeout, now);
        let link = Link::Up(ReplyHistory::connected(sent, self.timing.lag()));
        self.session =
            Some(Session { id, granted, timeout, link, is_abandoned: granted.is_none() });
        self.membership = Membership::NotJoined;
        self.read_leader_at = now;
    }

    pub(super) fn handle_resumed(
        &mut self,
        id: SessionId,
        timeout: Duration,
        sent: Instant,
        now: Instant,
    ) {
        let Some(smallest) =
            self.session.as_ref().filter(|session| session.id == id).map(|session| session.timeout)
        else {
            return self.end_session();
        };
        if self.ended_run.is_some() {
            // The session is only closed, so its timeout does not matter.
            let link = Link::Up(ReplyHistory::connected(sent, self.timing.lag()));
            self.session = self.session.take().map(|session| Session { link, ..session });
            return;
        }
        let timeout = min(timeout, smallest);
        let granted = self.grant(timeout, now);
        let alive_until = sent + self.timing.requested().drift().min_elapsed(timeout);
        let link = Link::Up(ReplyHistory::connected(sent, self.timing.lag()));
        if let Some(session) = &mut self.session {
            (session.granted, session.timeout, session.link) = (granted, timeout, link);
            session.is_abandoned |= granted.is_none();
        }
        if let Membership::Leading { claim, .. } = &mut self.membership {
            *claim = Claim::new(claim.token(), min(claim.deadline(), alive_until));
        }
        self.renew_and_watch(now);
        self.read_leader_at = now;
    }

    /// The timing under a session timeout of `timeout`; `None` if that is too short to lead with.
    ///
    /// Reports a difference from the requested timeout, once per change.
    fn grant(&mut self, timeout: Duration, now: Instant) -> Option<Granted> {
        let requested = *self.timing.requested();
        let granted = self.timing.grant(timeout);
        let diagnostic = match &granted {
            Ok(granted) => {
                let cut = whole_milliseconds(
                    requested.renew_deadline().saturating_sub(granted.timing.renew_deadline()),
                );
                let requested = requested.lease_duration();
                let tick = Some(timeout / 2)
                    .filter(|tick| timeout > requested && *tick > self.timing.tick());
                (timeout != requested || !cut.is_zero()).then_some(QueueDiagnostic::Granted {
                    requested,
                    granted: timeout,
                    cut,
                    tick,
                })
            }
            Err(errors) => {
                self.not_before = now + requested.retry_period();
                errors.first().map(|error| QueueDiagnostic::TooShort(Box::new(*error)))
            }
        };
        if diagnostic != self.diagnosed.granted {
            self.diagnosed.granted.clone_from(&diagnostic);
            self.transitions.extend(diagnostic.map(Transition::Diagnosed));
        }
        granted.ok()
    }

    /// The server replied to `request` that the session has expired.
    pub(super) fn handle_expired(&mut self, request: &QueueRequest, sent: Instant) {
        self.end_session();
        match request {
            QueueRequest::Resume { .. } | QueueRequest::Close => {}
            // The session expired although it was connected, so the next one may expire at once
            // too: wait first.
            QueueRequest::Begin { .. }
            | QueueRequest::MakePath
            | QueueRequest::Join { .. }
            | QueueRequest::List
            | QueueRequest::Watch { .. }
            | QueueRequest::Check { .. }
            | QueueRequest::ReadLeader
            | QueueRequest::Announce { .. } => {
                self.not_before = sent + self.timing.requested().retry_period();
            }
        }
    }

    pub(super) fn handle_closed(&mut self) {
        let released = self.ended_run.take();
        self.transitions
            .extend(released.map(|identity| Transition::ReleasedForEndedRun { identity }));
        self.end_session();
    }

    /// The session has ended, and our znode with it.
    pub(super) fn end_session(&mut self) {
        match self.membership {
            Membership::Leading { .. } => self.lose(Reason::SessionExpired),
            Membership::Leaving { token, reason } => {
                self.membership = Membership::NotJoined;
                self.transitions.push_back(Transition::Resigned { token, reason });
                self.report_leader();
            }
            Membership::NotJoined | Membership::Queued { .. } => {
                self.membership = Membership::NotJoined;
            }
        }
        (self.session, self.ended_run) = (None, None);
    }

    /// Ends our term. The session, and so the znode, is closed afterwards.
    pub(super) fn lose(&mut self, reason: Reason) {
        let Membership::Leading { own, .. } = &self.membership else { return };
        self.transitions.push_back(Transition::Lost { token: own.token, reason });
        self.membership = Membership::NotJoined;
        if let Some(session) = &mut self.session {
            session.is_abandoned = true;
        }
        self.report_leader();
    }

    pub(super) fn handle_disconnected(&mut self, now: Instant) {
        let Some(Session { link: link @ Link::Up(_), .. }) = &mut self.session else { return };
        *link = Link::Down { since: now };
        self.invalidate_view();
        let spread =
            if self.is_urgent() { Duration::ZERO } else { self.timing.requested().retry_period() };
        self.not_before = now + self.jitter.below(spread);
    }

    /// When a disconnected session is presumed to have expired.
    pub(super) fn presumed_expired_at(&self) -> Option<Instant> {
        match self.session.as_ref()? {
            Session { link: Link::Down { since }, timeout, .. } => Some(*since + *timeout),
            Session { link: Link::Up(_), .. } => None,
        }
    }

    /// The outcome of `request` is unknown.
    pub(super) fn handle_unknown(&mut self, request: &QueueRequest, sent: Instant, now: Instant) {
        let retry_period = self.timing.requested().retry_period();
        let short_pause = self.durations().call_timeout() / 4;
        match request {
            QueueRequest::Begin { .. } | QueueRequest::Resume { .. } => {
                let (pause, spread) = if self.is_urgent() {
                    (short_pause, Duration::ZERO)
                } else {
                    (retry_period / 2, retry_period)
                };
                self.not_before = max(now, sent + pause) + self.jitter.below(spread);
                return;
            }
            QueueRequest::Join { .. } => {
                // The reply to the next join may be lost for the same reason, so wait first.
                self.join_at = sent + retry_period;
                if let Some(session) = &mut self.session {
                    session.is_abandoned = true;
                }
            }
            QueueRequest::Announce { replaces, .. } => {
                if let Membership::Leading { announcement, .. } = &mut self.membership {
                    *announcement =
                        AnnouncementState::Pending { at: now + retry_period, replaces: *replaces };
                }
            }
            QueueRequest::Close
            | QueueRequest::MakePath
            | QueueRequest::List
            | QueueRequest::Watch { .. }
            | QueueRequest::Check { .. }
            | QueueRequest::ReadLeader => {}
        }
        self.handle_disconnected(now);
        // A request that always breaks the connection must not cause a reconnect loop.
        self.not_before = max(self.not_before, sent + short_pause);
    }

    /// Whether the election waits for this candidate to reconnect.
    fn is_urgent(&self) -> bool {
        let holds_election = match self.membership {
            Membership::Leading { .. } | Membership::Leaving { .. } => true,
            Membership::NotJoined | Membership::Queued { .. } => false,
        };
        let is_abandoned = self.session.as_ref().is_some_and(|session| session.is_abandoned);
        holds_election || is_abandoned || matches!(self.candidacy, Candidacy::Releasing(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;
    use crate::machine::Election as _;
    use crate::queue::messages::QueueEvent;
    use crate::queue::timing::SessionTiming;
    use crate::timing::{Drift, Durations, Jitter, Timing};

    /// The tick that a candidate suspects if it requests `lease` and gets `granted`. Its configured
    /// tick is two seconds.
    fn suspected_tick(lease: u64, renew: u64, retry: u64, granted: u64) -> Option<Duration> {
        let [lease_duration, renew_deadline, retry_period, granted] =
            [lease, renew, retry, granted].map(Duration::from_millis);
        let durations = Durations {
            lease_duration,
            renew_deadline,
            retry_period,
            answer_validity: retry_period,
        };
        let timing = Timing::new(durations, Drift::default()).unwrap();
        let timing = SessionTiming::new(timing, Duration::from_secs(2)).unwrap();
        let now = Instant::since_boot(Duration::ZERO);
        let mut machine =
            QueueElection::new(Identity::parse("us_1").unwrap(), timing, Jitter::new(1), now);
        assert_eq!(
            machine.poll_request(now),
            Some(QueueRequest::Begin { timeout: lease_duration })
        );
        machine
            .handle_event(QueueEvent::Connected { session: SessionId(1), timeout: granted }, now);
        match machine.poll_transition() {
            Some(Transition::Diagnosed(QueueDiagnostic::Granted { tick, .. })) => tick,
            other => panic!("expected a diagnostic, not {other:?}"),
        }
    }

    #[test]
    fn larger_grants_suggest_a_slower_tick() {
        assert_eq!(suspected_tick(3_500, 800, 200, 6_000), Some(Duration::from_secs(3)));
        assert_eq!(
            suspected_tick(3_500, 800, 200, 4_000),
            None,
            "two ticks of two seconds are the minimum session timeout"
        );
        assert_eq!(
            suspected_tick(10_000, 8_000, 2_000, 10_000),
            None,
            "a granted request reveals nothing about ticks"
        );
    }
}
