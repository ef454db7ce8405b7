//! The state of a queue election: its session, its membership in the queue, and what it has
//! reported.
//!
//! Pure data. Start with [`Membership`]. `queue.rs` plans requests from the state; `replies.rs` and
//! `sessions.rs` change it.

use crate::claim::{Claim, FencingToken};
use crate::identity::Identity;
use crate::instant::Instant;
use crate::machine::Reason;
use crate::queue::deadline::ReplyHistory;
use crate::queue::diagnostic::QueueDiagnostic;
use crate::queue::messages::{QueueRequest, SessionId};
use crate::queue::timing::Granted;
use std::time::Duration;

/// The leader that the last transition reported as followed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Reported {
    /// No such transition yet, or a term of our own has begun since.
    Nothing,
    Following(Option<Identity>),
}

/// The current session.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Session {
    pub(super) id: SessionId,
    /// `None` if the granted timeout is too short to lead with.
    pub(super) granted: Option<Granted>,
    /// The smallest timeout that any server granted in this session.
    pub(super) timeout: Duration,
    pub(super) link: Link,
    /// The session is to be closed. No other request is sent in it.
    pub(super) is_abandoned: bool,
}

/// The connection of a session.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Link {
    Up(ReplyHistory),
    Down { since: Instant },
}

/// The candidate's membership in the queue.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Membership {
    /// No znode of ours is known to be in the queue.
    NotJoined,
    Queued {
        own: OwnZnode,
        view: View,
    },
    Leading {
        own: OwnZnode,
        claim: Claim,
        renew_at: Instant,
        /// When to set a watch on our znode, which reports its deletion at once; `None` while one
        /// is set.
        watch_at: Option<Instant>,
        announcement: AnnouncementState,
    },
    /// The close of the session has been requested, so the candidate claims nothing, whatever the
    /// outcome.
    Leaving {
        token: FencingToken,
        reason: Reason,
    },
}

/// The candidate's znode in the queue.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct OwnZnode {
    pub(super) name: String,
    pub(super) token: FencingToken,
}

/// The part of the queue ahead of the candidate, as of the last list.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum View {
    /// The queue may have changed since the last list.
    Stale,
    /// The candidate is first, and its znode is to be checked.
    First { check_at: Instant },
    /// The candidate waits for its predecessor, the znode `name`.
    Behind {
        name: String,
        /// When to watch it again if no watch event arrives.
        watch_again_at: Instant,
        /// Whether we may read it. If not, only a list shows whether it still exists.
        is_readable: bool,
    },
}

/// The announcement of our term to the other candidates.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum AnnouncementState {
    /// Not written yet. If `replaces`, the announcement of an earlier leader must be deleted first.
    Pending { at: Instant, replaces: bool },
    /// Another announcement exists, and must be read first.
    Occupied,
    /// Written, or impossible to write.
    Done,
}

/// The problems already reported. Each is reported once, or again when it changes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct DiagnosticState {
    pub(super) largest_token: FencingToken,
    pub(super) granted: Option<QueueDiagnostic>,
    pub(super) strange_candidates: bool,
    pub(super) saturated: bool,
}

/// The next request. Most callers of the plan only need the due time, so it borrows the names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step<'a> {
    Begin,
    Resume,
    Close,
    MakePath,
    Join,
    List,
    Watch(&'a str),
    Check(&'a OwnZnode),
    ReadLeader,
    Announce { own: &'a OwnZnode, replaces: bool },
}

/// The request in flight, and when it was sent.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct InFlight {
    pub(super) request: QueueRequest,
    pub(super) sent: Instant,
}
