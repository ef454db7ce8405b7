//! The requests and replies between a queue election and its store.
//!
//! Pure. Start with [`QueueRequest`]: each is one call, or one transaction, on one connection, and
//! lists its replies. The store also guarantees the following:
//!
//! * **Only the machine connects.** The store opens a connection only for
//!   [`Begin`](QueueRequest::Begin) and [`Resume`](QueueRequest::Resume), each to the next server
//!   in turn, and drops the previous connection. It never reconnects by itself. `Begin` also
//!   forgets the previous session: the server must not receive its id or the last zxid seen.
//! * **One request is in flight.** If it fails, or its future is dropped after a timeout, the
//!   machine treats the connection as lost and resumes. A refusal (`StoreError::Refused`) is a
//!   definite reply and keeps the connection.
//! * **A lost connection is reported once**, by [`Disconnected`](QueueEvent::Disconnected), and
//!   only if it is the current one. A request in flight on it fails; the two reports may arrive in
//!   either order. A connection that the machine closed or replaced is not reported.
//! * **A watch lives as long as its connection.** The machine sets its watches again after each
//!   `Resume`.
//! * **The store need not ping.** The machine sends a request at least every third of the session
//!   timeout, and any request keeps the session alive.
//! * **Only `Close` closes a session.** A dropped store leaves its session to expire. Closing it
//!   would free the znode while the claim may still hold.

use crate::identity::Identity;
use crate::machine::{Event, Outcome, Request, Verb};
use std::fmt;
use std::time::Duration;

/// A session id, as assigned by the servers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// Formats the id like ZooKeeper's own tools.
impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A request of a queue election to its store.
///
/// Besides the replies listed, every request may receive [`QueueEvent::Expired`],
/// [`QueueEvent::Refused`], or [`QueueEvent::Unknown`]. `name` is always the name of a child of the
/// election's path.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum QueueRequest {
    /// Connect with a new session. Reply: `Connected`.
    Begin {
        /// The session timeout to request. The server may grant another one.
        timeout: Duration,
    },
    /// Reconnect to the session of the last `Begin`. Replies: `Connected`, even if the server
    /// replies with another session; `Expired` if the session no longer exists.
    Resume {
        /// The session timeout to request. The server may grant another one than before.
        timeout: Duration,
    },
    /// Close the session, which deletes its znodes. Reply: `Closed`.
    Close,
    /// Create the election's path and its missing ancestors as containers, or as persistent znodes
    /// if the server does not support containers. Existing znodes stay as they are. Reply: `Made`.
    MakePath,
    /// Create our znode, ephemeral and sequential, with the name `prefix` and the data `identity`.
    /// Replies: `Joined`; `Missing` if the path does not exist; `Saturated` if the server reports
    /// that the znode exists already.
    Join {
        /// The name before the sequence number.
        prefix: String,
        /// The data of the znode.
        identity: Identity,
    },
    /// List the children of the path. Replies: `Listed`; `Missing` if the path does not exist.
    List,
    /// Read a candidate's znode and set a one-shot watch on it. This is getData: exists would also
    /// watch for a name that never returns. Replies: `Found`; `Missing`.
    Watch {
        /// The candidate's znode.
        name: String,
    },
    /// Check that our znode exists, in any version, in a transaction: `multi{check}`. It passes
    /// through the quorum, changes nothing, and triggers no watch. Replies: `Checked`; `Missing`.
    Check {
        /// Our znode.
        name: String,
    },
    /// Read the announcement at [`leader_path`], without a watch. Reply: `Leader`.
    ReadLeader,
    /// Announce our term in one transaction: check that our znode exists, in any version; delete
    /// the old announcement if it `replaces` one; create a new one, ephemeral, with the data
    /// `text`. Replies: `Announced`; `Missing` if the check failed; `Changed` if an announcement
    /// exists and none should, or the reverse.
    Announce {
        /// Our znode.
        name: String,
        /// The leader's token and identity.
        text: String,
        /// Whether an announcement exists.
        replaces: bool,
    },
}

/// A reply or watch event for a queue election.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum QueueEvent {
    /// A server accepted the connection.
    Connected {
        /// The session in its reply, which may differ from the one to resume.
        session: SessionId,
        /// The session timeout in its reply.
        timeout: Duration,
    },
    /// The session has expired. Its znodes are deleted, or are about to be.
    Expired,
    /// The session was closed.
    Closed,
    /// The path exists.
    Made,
    /// Our znode was created.
    Joined {
        /// Its name, with the sequence number.
        name: String,
        /// The id of the transaction that created it.
        czxid: u64,
    },
    /// The names of the path's children.
    Listed(Vec<String>),
    /// The znode exists, and is watched from now on.
    Found {
        /// The session that owns it, if any. In a Stat, the owner is zero for a persistent znode
        /// and has only the highest bit set for a container; any other value is a session.
        owner: Option<SessionId>,
    },
    /// The check passed: a quorum agreed that our session is alive and our znode exists.
    Checked,
    /// The current announcement, if any.
    Leader(Option<Announcement>),
    /// Our announcement was written, and the check passed.
    Announced,
    /// The znode of the request does not exist.
    Missing,
    /// The path's counter has reached its end.
    Saturated,
    /// An announcement exists although the request expected none, or the reverse. Nothing was
    /// performed.
    Changed,
    /// The server denied the request and performed nothing.
    Refused,
    /// The outcome of the request is unknown.
    Unknown,
    /// Not a reply: the connection was lost.
    Disconnected,
    /// Not a reply: a watch set by `Watch` on this connection was triggered.
    WatchFired,
}

/// The znode at [`leader_path`], in which a leader announces its term.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Announcement {
    /// Its data, with invalid UTF-8 replaced.
    pub text: String,
    /// The session that owns it, as in [`QueueEvent::Found`].
    pub owner: Option<SessionId>,
}

/// The path of the leader's announcement. It lies beside the election's path, so that candidates do
/// not list it. No other election can have this name, because a DNS name has no underscore.
pub fn leader_path(election: &str) -> String {
    format!("{election}_leader")
}

impl Request for QueueRequest {
    const VERBS: &'static [Verb] =
        &[Verb::Connect, Verb::Close, Verb::Create, Verb::List, Verb::Read, Verb::Check];

    fn verb(&self) -> Verb {
        match self {
            Self::Begin { .. } | Self::Resume { .. } => Verb::Connect,
            Self::Close => Verb::Close,
            Self::MakePath | Self::Join { .. } | Self::Announce { .. } => Verb::Create,
            Self::List => Verb::List,
            Self::Watch { .. } | Self::ReadLeader => Verb::Read,
            Self::Check { .. } => Verb::Check,
        }
    }

    fn is_renewal(&self) -> bool {
        match self {
            Self::Check { .. } | Self::Announce { .. } => true,
            Self::Begin { .. }
            | Self::Resume { .. }
            | Self::Close
            | Self::MakePath
            | Self::Join { .. }
            | Self::List
            | Self::Watch { .. }
            | Self::ReadLeader => false,
        }
    }
}

impl Event for QueueEvent {
    const UNKNOWN: Self = Self::Unknown;
    const REFUSED: Self = Self::Refused;

    fn outcome(&self) -> Outcome {
        match self {
            Self::Connected { .. }
            | Self::Closed
            | Self::Made
            | Self::Joined { .. }
            | Self::Listed(_)
            | Self::Found { .. }
            | Self::Checked
            | Self::Leader(_)
            | Self::Announced
            | Self::Disconnected
            | Self::WatchFired => Outcome::Applied,
            Self::Expired | Self::Missing | Self::Saturated | Self::Changed => Outcome::Conflict,
            Self::Refused | Self::Unknown => Outcome::Unknown,
        }
    }

    /// Any client may connect and read the announcement, and a missing znode proves no right to
    /// create it.
    fn shows_admission(&self) -> bool {
        match self {
            Self::Joined { .. }
            | Self::Listed(_)
            | Self::Found { .. }
            | Self::Checked
            | Self::Announced
            | Self::Changed => true,
            Self::Connected { .. }
            | Self::Expired
            | Self::Closed
            | Self::Made
            | Self::Leader(_)
            | Self::Missing
            | Self::Saturated
            | Self::Refused
            | Self::Unknown
            | Self::Disconnected
            | Self::WatchFired => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_replies_that_need_a_permission_show_admission() {
        let announcement = Announcement { text: "7 a".to_owned(), owner: Some(SessionId(1)) };
        for event in [
            QueueEvent::Connected { session: SessionId(1), timeout: Duration::from_secs(15) },
            QueueEvent::Leader(Some(announcement)),
            QueueEvent::Leader(None),
            QueueEvent::Missing,
        ] {
            assert!(!event.shows_admission(), "{event:?}");
        }
        assert!(
            QueueEvent::Joined { name: "x-latch-0000000000".to_owned(), czxid: 7 }
                .shows_admission()
        );
    }

    #[test]
    fn requests_have_verbs_and_replies_have_outcomes() {
        let name = || "x-latch-0000000000".to_owned();
        let timeout = Duration::from_secs(15);
        let announce =
            QueueRequest::Announce { name: name(), text: "7 a".to_owned(), replaces: false };
        for (request, verb, is_renewal) in [
            (QueueRequest::Begin { timeout }, Verb::Connect, false),
            (QueueRequest::Resume { timeout }, Verb::Connect, false),
            (QueueRequest::Close, Verb::Close, false),
            (QueueRequest::MakePath, Verb::Create, false),
            (QueueRequest::List, Verb::List, false),
            (QueueRequest::Watch { name: name() }, Verb::Read, false),
            (QueueRequest::Check { name: name() }, Verb::Check, true),
            (announce, Verb::Create, true),
        ] {
            assert_eq!((request.verb(), request.is_renewal()), (verb, is_renewal), "{request:?}");
        }
        for (event, outcome) in [
            (QueueEvent::Checked, Outcome::Applied),
            (QueueEvent::Missing, Outcome::Conflict),
            (QueueEvent::Expired, Outcome::Conflict),
            (QueueEvent::Refused, Outcome::Unknown),
            (QueueEvent::Unknown, Outcome::Unknown),
        ] {
            assert_eq!(event.outcome(), outcome, "{event:?}");
        }
    }

    /// Other versions read this path, and ZooKeeper's tools print session ids in this form.
    #[test]
    fn leader_path_and_session_format_are_stable() {
        assert_eq!(leader_path("/baton/shop/orders"), "/baton/shop/orders_leader");
        assert_eq!(format!("{:?}", SessionId(0x0100_00b3_d9ee_0000)), "0x10000b3d9ee0000");
    }
}
