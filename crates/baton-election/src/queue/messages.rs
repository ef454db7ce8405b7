//! The words between the ZooKeeper machine and its store: sessions, znodes, requests and replies.
//!
//! Pure. Start with [`QueueRequest`]: each request is one call, or one transaction, on one connection, and says which
//! replies it has. What a store owes the machine beyond that:
//!
//! * **The machine connects.** A store opens a connection only for [`Begin`](QueueRequest::Begin) and
//!   [`Resume`](QueueRequest::Resume), each at the next of its servers, and reconnects by no will of its own. It forgets the
//!   connection that it had before. `Begin` also forgets the session: a server must not be shown its id or the last zxid seen.
//! * **One request is in flight.** When it fails, or its future is dropped because it took too long, the machine counts the
//!   connection as lost and resumes. A refusal (`StoreError::Refused`) is a definite answer and keeps it.
//! * **A broken connection is told once**, by [`Disconnected`](QueueEvent::Disconnected), of the present connection only; a
//!   request that was in flight on it fails. Either may be told first. A connection that the store was told to close or
//!   to forget is not told of.
//! * **A watch lives as long as its connection.** The machine sets its watches anew after each `Resume`; the store need not.
//! * **Something is asked at least every third of the session time-out**, each request being as good as a ping: a store need
//!   not ping.
//! * **Nothing is closed unasked.** A store that is dropped leaves its session to run out: closing it would free the znode
//!   while our claim may still be good elsewhere.

use crate::identity::Identity;
use crate::machine::{Event, Outcome, Request, Verb};
use std::fmt;
use std::time::Duration;

/// Which session, as the servers number them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// As ZooKeeper's own tools write it.
impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// What the ZooKeeper machine asks of a store.
///
/// Besides the replies that each names, every request may be answered by [`QueueEvent::Expired`],
/// [`QueueEvent::Refused`] and [`QueueEvent::Unknown`]. `name` is always that of a child of the election's path.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum QueueRequest {
    /// Connect with a new session. Reply: `Connected`.
    Begin {
        /// The session time-out to ask for; the server may grant another.
        timeout: Duration,
    },
    /// Connect again with the session that the last `Begin` opened. Replies: `Connected`, also where the server answers with
    /// another session; `Expired` where it knows ours no more.
    Resume {
        /// The session time-out to ask for; the server may grant another than before.
        timeout: Duration,
    },
    /// Close the session, which deletes all that is ours. Reply: `Closed`.
    Close,
    /// Make the election's path: every ancestor that is missing, and itself, as containers, or persistent where the server
    /// does not know those; what is there already stays as it is. Reply: `Made`.
    MakePath,
    /// Create our own znode: ephemeral and sequential, with `prefix` before the number and `identity` as its data. Replies:
    /// `Joined`; `Missing` where the path is not there; `Saturated` where the server says that the znode exists.
    Join {
        /// What stands before the number.
        prefix: String,
        /// The data.
        identity: Identity,
    },
    /// The names of the path's children. Replies: `Listed`; `Missing` where the path is not there.
    List,
    /// Read a candidate's znode, and leave a one-shot watch on it (getData: exists would watch for a name that never comes
    /// back). Replies: `Found`; `Missing`.
    Look {
        /// Whose.
        name: String,
    },
    /// A transaction that checks that our own znode is there, in any version: `multi{check}`. It goes through the quorum,
    /// changes nothing and fires no watch. Replies: `Checked`; `Missing`.
    Check {
        /// Our znode.
        name: String,
    },
    /// Read the acknowledgement, which stands at [`leader_path`]. No watch. Reply: `Leader`.
    ReadLeader,
    /// One transaction: check that our own znode is there, in any version; delete the acknowledgement that stands, if it
    /// `replaces` one; create it anew, ephemeral, with `text` as its data. Replies: `Acknowledged`; `Missing` where the
    /// check failed; `Changed` where an acknowledgement stands though none should, or none though one should.
    Acknowledge {
        /// Our znode.
        name: String,
        /// Who leads, and with which token.
        text: String,
        /// Whether one stands there.
        replaces: bool,
    },
}

/// What the ZooKeeper machine hears.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum QueueEvent {
    /// A server took us in.
    Connected {
        /// The session in its answer, which may not be the one that was resumed.
        session: SessionId,
        /// The session time-out in its answer.
        timeout: Duration,
    },
    /// The session is over, and all that was its is gone or about to be: the server knows it no more, or says so.
    Expired,
    /// The session was closed.
    Closed,
    /// The path is there.
    Made,
    /// Our znode was created.
    Joined {
        /// Its name, with the number.
        name: String,
        /// The transaction that created it.
        czxid: u64,
    },
    /// The path has these children.
    Listed(Vec<String>),
    /// The znode is there, and is watched from now on.
    Found {
        /// Whose it is; `None` for a znode that no session owns. The owner in a Stat is zero for a persistent one and has
        /// only the highest bit for a container; every other number is a session.
        owner: Option<SessionId>,
    },
    /// The check passed: a quorum agreed that our session lives and our znode is there.
    Checked,
    /// The acknowledgement that stands, if one does.
    Leader(Option<Acknowledgement>),
    /// Our acknowledgement stands, and the check passed.
    Acknowledged,
    /// The znode that the request is about is not there.
    Missing,
    /// The path's counter has reached its end.
    Saturated,
    /// The acknowledgement is not as the request took for granted, so nothing was done.
    Changed,
    /// The server answered that we may not, and did nothing.
    Refused,
    /// No reply that says what became of the request.
    Unknown,
    /// News: the connection is lost.
    Disconnected,
    /// News: something happened to a znode that a `Look` of this connection watches.
    Fired,
}

/// What stands at [`leader_path`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Acknowledgement {
    /// What it says; bytes that are no UTF-8 replaced.
    pub text: String,
    /// Whose it is, as in [`QueueEvent::Found`].
    pub owner: Option<SessionId>,
}

/// Where who leads acknowledges it: beside the election's path, so that no candidate lists it. No election of ours can be
/// called so, since a DNS name has no underscore.
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
            Self::MakePath | Self::Join { .. } | Self::Acknowledge { .. } => Verb::Create,
            Self::List => Verb::List,
            Self::Look { .. } | Self::ReadLeader => Verb::Read,
            Self::Check { .. } => Verb::Check,
        }
    }

    fn is_renewal(&self) -> bool {
        match self {
            Self::Check { .. } | Self::Acknowledge { .. } => true,
            Self::Begin { .. }
            | Self::Resume { .. }
            | Self::Close
            | Self::MakePath
            | Self::Join { .. }
            | Self::List
            | Self::Look { .. }
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
            | Self::Acknowledged
            | Self::Disconnected
            | Self::Fired => Outcome::Applied,
            Self::Expired | Self::Missing | Self::Saturated | Self::Changed => Outcome::Conflict,
            Self::Refused | Self::Unknown => Outcome::Unknown,
        }
    }

    /// A server takes in whoever comes, everybody may read who leads, and what is not there shows no right to make it.
    fn shows_admission(&self) -> bool {
        match self {
            Self::Joined { .. }
            | Self::Listed(_)
            | Self::Found { .. }
            | Self::Checked
            | Self::Acknowledged
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
            | Self::Fired => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_stranger_could_not_have_shows_admission() {
        let told = Acknowledgement { text: "7 a".to_owned(), owner: Some(SessionId(1)) };
        for to_all in [
            QueueEvent::Connected { session: SessionId(1), timeout: Duration::from_secs(15) },
            QueueEvent::Leader(Some(told)),
            QueueEvent::Leader(None),
            QueueEvent::Missing,
        ] {
            assert!(!to_all.shows_admission(), "{to_all:?}");
        }
        assert!(
            QueueEvent::Joined { name: "x-latch-0000000000".to_owned(), czxid: 7 }
                .shows_admission()
        );
    }

    #[test]
    fn what_is_asked_and_answered_is_counted_under_its_name() {
        let name = || "x-latch-0000000000".to_owned();
        let timeout = Duration::from_secs(15);
        let acknowledge =
            QueueRequest::Acknowledge { name: name(), text: "7 a".to_owned(), replaces: false };
        for (request, verb, is_renewal) in [
            (QueueRequest::Begin { timeout }, Verb::Connect, false),
            (QueueRequest::Resume { timeout }, Verb::Connect, false),
            (QueueRequest::Close, Verb::Close, false),
            (QueueRequest::MakePath, Verb::Create, false),
            (QueueRequest::List, Verb::List, false),
            (QueueRequest::Look { name: name() }, Verb::Read, false),
            (QueueRequest::Check { name: name() }, Verb::Check, true),
            (acknowledge, Verb::Create, true),
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

    /// Candidates of other versions look there too, and tools print sessions so.
    #[test]
    fn the_acknowledgement_stands_beside_the_election() {
        assert_eq!(leader_path("/baton/shop/orders"), "/baton/shop/orders_leader");
        assert_eq!(format!("{:?}", SessionId(0x0100_00b3_d9ee_0000)), "0x10000b3d9ee0000");
    }
}
