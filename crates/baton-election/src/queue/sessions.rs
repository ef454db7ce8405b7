//! How sessions begin, break and end, and what that means for our place in the line.
//!
//! Pure. A session that broke is resumed; one that is over takes our place with it. Start with [`ZooKeeper::resumed`].

use crate::candidacy::Candidacy;
use crate::claim::Claim;
use crate::instant::Instant;
use crate::machine::{Reason, Transition};
use crate::queue::QueueElection;
use crate::queue::deadline::Answers;
use crate::queue::diagnostic::QueueDiagnostic;
use crate::queue::messages::{QueueRequest, SessionId};
use crate::queue::state::{Link, Place, Session, ToldOthers};
use crate::queue::timing::Granted;
use crate::timing::whole_milliseconds;
use std::cmp::{max, min};
use std::time::Duration;

impl QueueElection {
    pub(super) fn begun(&mut self, id: SessionId, timeout: Duration, sent: Instant, now: Instant) {
        let granted = self.grant(timeout, now);
        let link = Link::Up(Answers::connected(sent, self.timing.lag()));
        self.session = Some(Session { id, granted, timeout, link, is_over: granted.is_none() });
        self.place = Place::Outside;
        self.read_leader_at = now;
    }

    pub(super) fn resumed(
        &mut self,
        id: SessionId,
        timeout: Duration,
        sent: Instant,
        now: Instant,
    ) {
        let Some(smallest) =
            self.session.as_ref().filter(|session| session.id == id).map(|session| session.timeout)
        else {
            return self.session_ended();
        };
        let timeout = min(timeout, smallest);
        let granted = self.grant(timeout, now);
        let lives = sent + self.timing.asked().drift().least_of_ours(timeout);
        let link = Link::Up(Answers::connected(sent, self.timing.lag()));
        if let Some(session) = &mut self.session {
            (session.granted, session.timeout, session.link) = (granted, timeout, link);
            session.is_over |= granted.is_none();
        }
        if let Place::Leading { claim, .. } = &mut self.place {
            *claim = Claim::new(claim.token(), min(claim.deadline(), lives));
        }
        self.renew_and_watch(now);
        self.read_leader_at = now;
    }

    /// What holds under a session time-out of `timeout`; `None` if we cannot lead with that.
    fn grant(&mut self, timeout: Duration, now: Instant) -> Option<Granted> {
        let asked = *self.timing.asked();
        let granted = self.timing.grant(timeout);
        let notice = match &granted {
            Ok(granted) => {
                let cut = whole_milliseconds(
                    asked.renew_deadline().saturating_sub(granted.timing.renew_deadline()),
                );
                let asked = asked.lease_duration();
                let tick =
                    Some(timeout / 2).filter(|tick| timeout > asked && *tick > self.timing.tick());
                (timeout != asked || !cut.is_zero()).then_some(QueueDiagnostic::Granted {
                    asked,
                    granted: timeout,
                    cut,
                    tick,
                })
            }
            Err(errors) => {
                self.not_before = now + asked.retry_period();
                errors.first().map(|error| QueueDiagnostic::TooShort(Box::new(*error)))
            }
        };
        if notice != self.remarks.granted {
            self.remarks.granted.clone_from(&notice);
            self.transitions.extend(notice.map(Transition::Diagnosed));
        }
        granted.ok()
    }

    /// The server that was asked for `request` knows the session no more.
    pub(super) fn expired(&mut self, request: &QueueRequest, sent: Instant) {
        self.session_ended();
        match request {
            QueueRequest::Resume { .. } | QueueRequest::Close => {}
            // A server that has just taken up a session, or opened it, would do the same with the next one.
            QueueRequest::Begin { .. }
            | QueueRequest::MakePath
            | QueueRequest::Join { .. }
            | QueueRequest::List
            | QueueRequest::Look { .. }
            | QueueRequest::Check { .. }
            | QueueRequest::ReadLeader
            | QueueRequest::Acknowledge { .. } => {
                self.not_before = sent + self.timing.asked().retry_period();
            }
        }
    }

    /// The session is over, and our znode with it.
    pub(super) fn session_ended(&mut self) {
        match self.place {
            Place::Leading { .. } => self.lose(Reason::SessionExpired),
            Place::Leaving { token, reason } => {
                self.place = Place::Outside;
                self.transitions.push_back(Transition::Resigned { token, reason });
                self.tell_leader();
            }
            Place::Outside | Place::InLine { .. } => self.place = Place::Outside,
        }
        self.session = None;
    }

    /// Ends our term. What is left of it in the store ends with the session.
    pub(super) fn lose(&mut self, reason: Reason) {
        let Place::Leading { own, .. } = &self.place else { return };
        self.transitions.push_back(Transition::Lost { token: own.token, reason });
        self.place = Place::Outside;
        if let Some(session) = &mut self.session {
            session.is_over = true;
        }
        self.tell_leader();
    }

    pub(super) fn disconnected(&mut self, now: Instant) {
        let Some(Session { link: link @ Link::Up(_), .. }) = &mut self.session else { return };
        *link = Link::Down { since: now };
        self.place_again();
        let spread =
            if self.is_pressed() { Duration::ZERO } else { self.timing.asked().retry_period() };
        self.not_before = now + self.chance.below(spread);
    }

    /// When a session that cannot be resumed is given up.
    pub(super) fn gives_up_at(&self) -> Option<Instant> {
        match self.session.as_ref()? {
            Session { link: Link::Down { since }, timeout, .. } => Some(*since + *timeout),
            Session { link: Link::Up(_), .. } => None,
        }
    }

    /// Nobody knows what became of `request`.
    pub(super) fn unknown(&mut self, request: &QueueRequest, sent: Instant, now: Instant) {
        let retry_period = self.timing.asked().retry_period();
        let hurried = self.durations().call_timeout() / 4;
        match request {
            QueueRequest::Begin { .. } | QueueRequest::Resume { .. } => {
                let (pace, spread) = if self.is_pressed() {
                    (hurried, Duration::ZERO)
                } else {
                    (retry_period / 2, retry_period)
                };
                self.not_before = max(now, sent + pace) + self.chance.below(spread);
                return;
            }
            QueueRequest::Join { .. } => {
                // Whatever lost the reply may lose the next one too.
                self.join_at = sent + retry_period;
                if let Some(session) = &mut self.session {
                    session.is_over = true;
                }
            }
            QueueRequest::Acknowledge { replaces, .. } => {
                if let Place::Leading { told_others, .. } = &mut self.place {
                    *told_others =
                        ToldOthers::NotYet { at: now + retry_period, replaces: *replaces };
                }
            }
            QueueRequest::Close
            | QueueRequest::MakePath
            | QueueRequest::List
            | QueueRequest::Look { .. }
            | QueueRequest::Check { .. }
            | QueueRequest::ReadLeader => {}
        }
        self.disconnected(now);
        // A connection that breaks at each request must not be opened over and over.
        self.not_before = max(self.not_before, sent + hurried);
    }

    /// Whether somebody waits for us to reach the store, be it the others.
    fn is_pressed(&self) -> bool {
        let holds = match self.place {
            Place::Leading { .. } | Place::Leaving { .. } => true,
            Place::Outside | Place::InLine { .. } => false,
        };
        let is_over = self.session.as_ref().is_some_and(|session| session.is_over);
        holds || is_over || matches!(self.candidacy, Candidacy::Releasing(_))
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

    /// The tick that a candidate suspects which was told of two seconds, when it asked for `lease` and got `granted`.
    fn suspected(lease: u64, renew: u64, retry: u64, granted: u64) -> Option<Duration> {
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
            other => panic!("nothing was remarked, but {other:?}"),
        }
    }

    #[test]
    fn servers_that_grant_more_than_two_ticks_may_tick_slower_than_we_were_told() {
        assert_eq!(suspected(3_500, 800, 200, 6_000), Some(Duration::from_secs(3)));
        assert_eq!(
            suspected(3_500, 800, 200, 4_000),
            None,
            "two ticks are the least that they grant"
        );
        assert_eq!(
            suspected(10_000, 8_000, 2_000, 10_000),
            None,
            "what is asked for says nothing about ticks"
        );
    }
}
