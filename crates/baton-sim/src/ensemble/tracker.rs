//! Tracks which sessions are alive on the leading server, in buckets of whole ticks.
//!
//! Pure. Start with [`Tracker`]. Times are by that server's clock. Source: `SessionTrackerImpl` and
//! `ExpiryQueue` of ZooKeeper. A session with timeout T whose last heartbeat was at t ends within
//! `(t + T, t + T + tick]`.

use crate::rng::nanos;
use baton_election::instant::Instant;
use baton_election::queue::messages::SessionId;
use std::collections::BTreeMap;
use std::time::Duration;

/// The sessions of a leading server.
#[derive(Clone, Debug)]
pub(super) struct Tracker {
    tick: Duration,
    sessions: BTreeMap<SessionId, Tracked>,
}

#[derive(Clone, Debug)]
struct Tracked {
    timeout: Duration,
    expires: Instant,
    is_closing: bool,
    /// The server that the session was last connected to.
    owner: Option<usize>,
}

/// The status of a session from the point of view of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SessionStatus {
    Live,
    Expired,
    /// It was resumed at another server.
    Moved,
}

impl Tracker {
    /// A new leader gives every session its full timeout again.
    pub(super) fn new(
        tick: Duration,
        sessions: &BTreeMap<SessionId, Duration>,
        now: Instant,
    ) -> Self {
        let mut tracker = Self { tick, sessions: BTreeMap::new() };
        for (session, timeout) in sessions {
            tracker.open(*session, *timeout, None, now);
        }
        tracker
    }

    pub(super) fn open(
        &mut self,
        session: SessionId,
        timeout: Duration,
        owner: Option<usize>,
        now: Instant,
    ) {
        let expires = self.bucket(now + timeout);
        self.sessions.insert(session, Tracked { timeout, expires, is_closing: false, owner });
    }

    /// Records a heartbeat.
    pub(super) fn touch(&mut self, session: SessionId, now: Instant) {
        let tick = self.tick;
        if let Some(tracked) = self.sessions.get_mut(&session).filter(|tracked| !tracked.is_closing)
        {
            tracked.expires = tracked.expires.max(bucket(tick, now + tracked.timeout));
        }
    }

    /// Resumes the session at `server`; `None` if it has ended.
    pub(super) fn resume_session(
        &mut self,
        session: SessionId,
        server: usize,
        now: Instant,
    ) -> Option<Duration> {
        let tracked = self.sessions.get_mut(&session).filter(|tracked| !tracked.is_closing)?;
        tracked.owner = Some(server);
        let timeout = tracked.timeout;
        self.touch(session, now);
        Some(timeout)
    }

    pub(super) fn session_status(&self, session: SessionId, server: usize) -> SessionStatus {
        match self.sessions.get(&session) {
            Some(Tracked { is_closing: false, owner, .. })
                if owner.is_none_or(|owner| owner == server) =>
            {
                SessionStatus::Live
            }
            Some(Tracked { is_closing: false, .. }) => SessionStatus::Moved,
            Some(_) | None => SessionStatus::Expired,
        }
    }

    /// Lets no request extend or resume the session, as `setSessionClosing` does when a server
    /// prepares to close it.
    pub(super) fn mark_closing(&mut self, session: SessionId) {
        if let Some(tracked) = self.sessions.get_mut(&session) {
            tracked.is_closing = true;
        }
    }

    /// Returns the expired sessions, and marks them as closing.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<SessionId> {
        let expired = self
            .sessions
            .iter_mut()
            .filter(|(_, tracked)| !tracked.is_closing && tracked.expires <= now);
        expired
            .map(|(session, tracked)| {
                tracked.is_closing = true;
                *session
            })
            .collect()
    }

    /// When the next bucket expires.
    pub(super) fn next_bucket(&self, now: Instant) -> Instant {
        self.bucket(now)
    }

    fn bucket(&self, time: Instant) -> Instant {
        bucket(self.tick, time)
    }
}

/// The first whole tick after `time`.
fn bucket(tick: Duration, time: Instant) -> Instant {
    let tick = nanos(tick);
    let rounded = (nanos(time.elapsed_since_boot()) / tick + 1).saturating_mul(tick);
    Instant::since_boot(Duration::from_nanos(rounded))
}
