//! What every election machine is: events and an instant go in, requests and transitions come out.
//!
//! Pure: no async, no client, no clock, no randomness that was not handed in. The verbs are those of
//! sans-IO Rust (quinn-proto). One driver, `backend::drive`, runs any machine over a real store; a
//! simulator runs the very same machines. Start with [`lease`], the machine of Lease and file.
//!
//! ```text
//!              handle_event(reply or notice, now) ─┐      ┌─► poll_request(now): what to ask the store
//!                             handle_timeout(now) ─┼─►  ──┼─► poll_timeout(): when to come back, and why
//!   campaign, withdraw, release: what we are told ─┘      ├─► poll_transition(): what happened
//!                                                         └─► standing(): what may be published
//! ```

use crate::claim::{FencingToken, Standing};
use crate::identity::Identity;
use crate::instant::Instant;
use crate::timing::Durations;
use std::fmt;
use std::hash::Hash;
use std::time::Duration;

/// An election as a state machine, for one candidate.
pub trait Election {
    /// What it finds in its store that a person should know.
    type Diagnostic: Diagnostic;
    /// What it asks of the store; at most one request is in flight.
    type Request: Request;
    /// What it hears: replies to its requests, and news that nobody asked for.
    type Event: Event;

    /// Takes in a reply or a notice that was received at `now`.
    fn handle_event(&mut self, event: Self::Event, now: Instant);

    /// Takes in that it is `now`; to be called at what [`Self::poll_timeout`] says, and harmless at any time.
    fn handle_timeout(&mut self, now: Instant);

    /// The request that is due at `now`, which counts as the instant before it is sent. Until its reply comes
    /// in there is no other; a reply that does not come in time is [`Event::UNKNOWN`].
    fn poll_request(&mut self, now: Instant) -> Option<Self::Request>;

    /// When this machine wants to be looked at again, and what for.
    fn poll_timeout(&self) -> Option<(Instant, Timer)>;

    /// What happened since the last call, oldest first; the one source of logs and counters.
    fn poll_transition(&mut self) -> Option<Transition<Self::Diagnostic>>;

    /// Where it stands, as of the last event or time-out.
    fn standing(&self) -> Standing;

    /// From `from` on, try to lead.
    fn campaign(&mut self, from: Instant);

    /// Promise nothing more and do not try to lead; what is held stays held.
    fn withdraw(&mut self, how: Withdrawal);

    /// Give back what is ours, and do not try to lead. To be called when the last promise has run out.
    fn release(&mut self, reason: Reason, now: Instant);

    /// Whether nothing of ours is, or may be, in the store, and nothing is in flight.
    fn is_at_rest(&self) -> bool;

    /// How long one call to the store may take, as things are now.
    fn call_timeout(&self) -> Duration;
}

/// What becomes of a claim that is withdrawn.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Withdrawal {
    /// It is renewed until somebody orders its release, however long that takes.
    Renewing,
    /// Its release follows when the last promise has run out, which is before its deadline: a renewal on the way would
    /// only keep the release waiting.
    Releasing,
}

/// A request to a store, as the driver and the metrics see it.
pub trait Request: fmt::Debug {
    /// Every verb that [`Self::verb`] can say.
    const VERBS: &'static [Verb];

    /// What the store is asked to do.
    fn verb(&self) -> Verb;

    /// Whether a claim hangs on it.
    fn is_renewal(&self) -> bool;
}

/// What a machine hears, as the driver and the metrics see it.
pub trait Event: fmt::Debug {
    /// The reply of which nothing is known: it timed out, the connection broke, the store refused for now.
    const UNKNOWN: Self;
    /// The reply of a store that answered that we may not.
    const REFUSED: Self;

    /// How the request went that this is the reply to.
    fn outcome(&self) -> Outcome;

    /// Whether this shows that the store lets us take part.
    fn shows_admission(&self) -> bool;
}

/// What a store can be asked to do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verb {
    /// Read a record.
    Read,
    /// Write a record where there is none.
    Create,
    /// Write a record over a version of it.
    Replace,
    /// Open a connection.
    Connect,
    /// End the session.
    Close,
    /// List the candidates.
    List,
    /// Write nothing, and have it agreed that what is ours is still there.
    Check,
}

impl Verb {
    /// The verb as metrics and logs spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Create => "create",
            Self::Replace => "replace",
            Self::Connect => "connect",
            Self::Close => "close",
            Self::List => "list",
            Self::Check => "check",
        }
    }

    /// Whether this request changes what other candidates see. In every store this is a right of
    /// its own.
    pub const fn writes(self) -> bool {
        match self {
            Self::Create | Self::Replace => true,
            Self::Read | Self::Connect | Self::Close | Self::List | Self::Check => false,
        }
    }
}

/// How a request went.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Outcome {
    /// The store did it, and said so.
    Applied,
    /// The store holds something else than the request takes for granted, and did nothing.
    Conflict,
    /// Nobody knows.
    Unknown,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Applied, Self::Conflict, Self::Unknown];

    /// The outcome as metrics and logs spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Conflict => "conflict",
            Self::Unknown => "unknown",
        }
    }
}

/// Why a machine wants to be woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timer {
    /// The claim ends.
    Deadline,
    /// Another's lease ends.
    Lapse,
    /// A request is due.
    Request,
}

/// A change of standing, or of what standings rest on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Transition<D> {
    /// Somebody else holds the election, or nobody does.
    Following {
        /// Who holds it, as far as we know.
        leader: Option<Identity>,
    },
    /// A term of ours began.
    Leading {
        /// Its token.
        token: FencingToken,
    },
    /// A term of ours ended without our doing.
    Lost {
        /// Its token.
        token: FencingToken,
        /// Why.
        reason: Reason,
    },
    /// The store knows less than it did, as after a restore from a backup: tokens given from now on may be smaller than
    /// ones that resources have seen.
    StoreWentBack {
        /// The token of our term.
        token: FencingToken,
        /// The version that the store gives now.
        version: FencingToken,
    },
    /// The machine found something in its store that a person should know.
    Diagnosed(D),
    /// A term of ours ended because we gave it back.
    Resigned {
        /// Its token.
        token: FencingToken,
        /// Why.
        reason: Reason,
    },
}

impl<D: Diagnostic> Transition<D> {
    /// Whether the store's settings keep this candidate from leading with its own.
    pub fn prevents_leading(&self) -> bool {
        match self {
            Self::Diagnosed(diagnostic) => diagnostic.prevents_leading(),
            Self::Following { .. }
            | Self::Leading { .. }
            | Self::Lost { .. }
            | Self::StoreWentBack { .. }
            | Self::Resigned { .. } => false,
        }
    }
}

/// Something that is not as it should be in a store, though the election goes on as well as it can.
///
/// Its `Display` says what is there, what it means, and what to do.
pub trait Diagnostic: Clone + Eq + Hash + fmt::Debug + fmt::Display {
    /// Its name in logs.
    fn event(&self) -> &'static str;

    /// Whether the election suffers from it.
    fn is_error(&self) -> bool;

    /// Whether the store's settings keep this candidate from leading with its own.
    fn prevents_leading(&self) -> bool {
        self.remedy().is_some()
    }

    /// Durations that would let this candidate lead, where its own do not.
    fn remedy(&self) -> Option<Durations>;
}

/// Why a term, or the process, ended: one list for logs, metrics, files and JSON.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// No renewal was acknowledged in time.
    Deadline,
    /// The record is another's, or not the one that we wrote.
    Conflict,
    /// The record is gone.
    Deleted,
    /// The store ended our session.
    SessionExpired,
    /// Somebody asked us to give leadership up.
    Resigned,
    /// Our application did not ask for so long that it may be dead.
    Unasked,
    /// The process was told to stop.
    Shutdown,
    /// Something of ours failed.
    Fault,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Deadline,
        Self::Conflict,
        Self::Deleted,
        Self::SessionExpired,
        Self::Resigned,
        Self::Unasked,
        Self::Shutdown,
        Self::Fault,
    ];

    /// The reason as metrics, logs and files spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deadline => "deadline",
            Self::Conflict => "conflict",
            Self::Deleted => "deleted",
            Self::SessionExpired => "session_expired",
            Self::Resigned => "resigned",
            Self::Unasked => "unasked",
            Self::Shutdown => "shutdown",
            Self::Fault => "fault",
        }
    }

    /// The reason that is spelled so.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// People write alerts and searches with these.
    #[test]
    fn words_are_spelled_as_they_always_were() {
        let verbs = [
            Verb::Read,
            Verb::Create,
            Verb::Replace,
            Verb::Connect,
            Verb::Close,
            Verb::List,
            Verb::Check,
        ];
        assert_eq!(
            verbs.map(Verb::as_str),
            ["read", "create", "replace", "connect", "close", "list", "check"]
        );
        assert_eq!(Outcome::ALL.map(Outcome::as_str), ["applied", "conflict", "unknown"]);
        let reasons = "deadline conflict deleted session_expired resigned unasked shutdown fault";
        assert_eq!(Reason::ALL.map(|reason| reason.to_string()).join(" "), reasons);
    }

    #[test]
    fn a_reason_is_the_one_that_is_spelled_so() {
        for reason in Reason::ALL {
            assert_eq!(Reason::parse(reason.as_str()), Some(reason));
        }
        assert_eq!(Reason::parse("boredom"), None);
    }
}
