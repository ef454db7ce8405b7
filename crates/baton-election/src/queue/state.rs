//! What the ZooKeeper machine remembers: its session, its place in the line, and what it has said.
//!
//! Pure, and no more than data: `zookeeper.rs` says what it asks for, `replies.rs` and `sessions.rs` what changes it.

use crate::claim::{Claim, FencingToken};
use crate::identity::Identity;
use crate::instant::Instant;
use crate::machine::Reason;
use crate::queue::deadline::Answers;
use crate::queue::diagnostic::QueueDiagnostic;
use crate::queue::messages::{QueueRequest, SessionId};
use crate::queue::timing::Granted;
use std::time::Duration;

/// What the last transition said of who else leads.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Told {
    /// There was none yet, or we have led since.
    Nothing,
    Others(Option<Identity>),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Session {
    pub(super) id: SessionId,
    /// `None` where it is too short to lead with.
    pub(super) granted: Option<Granted>,
    /// The smallest time-out that any server granted in it.
    pub(super) timeout: Duration,
    pub(super) link: Link,
    /// It is to be closed, and nothing else is asked in it.
    pub(super) is_over: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Link {
    Up(Answers),
    Down { since: Instant },
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Place {
    /// No znode of ours is known to be in the line.
    Outside,
    InLine {
        own: Own,
        view: View,
    },
    Leading {
        own: Own,
        claim: Claim,
        renew_at: Instant,
        /// When to look at our znode, which brings its end at once; `None` while it is watched.
        watch_at: Option<Instant>,
        told_others: ToldOthers,
    },
    /// The session's end has been asked for, so whatever becomes of that we claim nothing.
    Leaving {
        token: FencingToken,
        reason: Reason,
    },
}

/// Our znode.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Own {
    pub(super) name: String,
    pub(super) token: FencingToken,
}

/// What we know of those before us.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum View {
    Stale,
    /// Nobody is. Our znode is to be checked.
    First {
        check_at: Instant,
    },
    Behind {
        name: String,
        /// When to look at it again, though nothing was heard.
        again_at: Instant,
        /// Whether it may be read; where not, only the list shows whether it is there.
        is_readable: bool,
    },
}

/// How far the others were told that we lead.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum ToldOthers {
    NotYet {
        at: Instant,
        replaces: bool,
    },
    /// Something stands there: to be read first.
    Look,
    /// Done, or it cannot be done.
    Settled,
}

/// What is said once, or when it has changed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Remarks {
    pub(super) largest_token: FencingToken,
    pub(super) granted: Option<QueueDiagnostic>,
    pub(super) strangers: bool,
    pub(super) saturated: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct InFlight {
    pub(super) request: QueueRequest,
    pub(super) sent: Instant,
}
