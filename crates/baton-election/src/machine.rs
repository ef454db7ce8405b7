//! The interface of an election machine: events and instants in, requests and transitions out.
//!
//! Pure: no async, no client, no clock, and no randomness except what the caller passes in. The
//! method names follow quinn-proto. The same machines run over real stores and in the simulator.
//! Start with [`Election`].
//!
//! ```text
//!  handle_event(reply or watch event, now) ─┐      ┌─► poll_request(now): the request to send
//!                      handle_timeout(now) ─┼─►  ──┼─► poll_timeout(): when to call again, and why
//!              campaign, withdraw, release ─┘      ├─► poll_transition(): what changed
//!                                                  └─► standing(): the role to publish
//! ```

use crate::claim::{Claim, FencingToken, Standing};
use crate::identity::Identity;
use crate::instant::Instant;
use crate::timing::Durations;
use std::fmt;
use std::hash::Hash;
use std::time::Duration;

/// One candidate of an election, as a state machine.
pub trait Election {
    /// Problems in the store that an operator should know about.
    type Diagnostic: Diagnostic;
    /// Requests to the store. At most one is in flight.
    type Request: Request;
    /// Replies to requests, and watch events.
    type Event: Event;

    /// Handles a reply or watch event that was received at `now`.
    fn handle_event(&mut self, event: Self::Event, now: Instant);

    /// Advances the machine to `now`. Call it when [`Self::poll_timeout`] is due; other times are
    /// harmless.
    fn handle_timeout(&mut self, now: Instant);

    /// Returns the request that is due at `now`, if any.
    ///
    /// A claim that the request earns counts from `now`, so the caller must read the clock before
    /// it sends the request. No other request is returned until the reply arrives. If none arrives
    /// within [`Self::call_timeout`], the caller passes [`Event::UNKNOWN`] to
    /// [`Self::handle_event`].
    fn poll_request(&mut self, now: Instant) -> Option<Self::Request>;

    /// When to call [`Self::handle_timeout`] and [`Self::poll_request`] next, and why.
    fn poll_timeout(&self) -> Option<(Instant, Timer)>;

    /// The oldest transition not yet returned. Logs and counters come from transitions alone.
    fn poll_transition(&mut self) -> Option<Transition<Self::Diagnostic>>;

    /// The candidate's role as of the last event or timeout.
    fn standing(&self) -> Standing;

    /// The claim in [`Self::standing`].
    fn claim(&self) -> Option<Claim>;

    /// Orders the candidate to try to lead from the instant `from` on.
    fn campaign(&mut self, from: Instant);

    /// Orders the candidate to withdraw: it promises nothing, begins no term, and keeps what it
    /// holds.
    fn withdraw(&mut self, how: Withdrawal);

    /// Orders the candidate to release what it holds and to begin no term. Call it only after the
    /// last promise has expired.
    fn release(&mut self, reason: Reason, now: Instant);

    /// Whether the store certainly holds nothing of this candidate, and no request is in flight.
    fn is_released(&self) -> bool;

    /// How long one call to the store may take, under the current timing.
    fn call_timeout(&self) -> Duration;
}

/// Whether a withdrawn candidate keeps renewing its claim.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Withdrawal {
    /// The claim is renewed until a release is ordered, however long that takes.
    Renewing,
    /// The claim is not renewed, because its release follows as soon as the last promise expires.
    /// That is before the deadline, and a renewal in flight would only delay the release.
    Releasing,
}

/// A request to a store, as the driver and metrics see it.
pub trait Request: Clone + fmt::Debug {
    /// Every value of [`Self::verb`].
    const VERBS: &'static [Verb];

    /// The operation that the store performs.
    fn verb(&self) -> Verb;

    /// Whether a claim depends on this request.
    fn is_renewal(&self) -> bool;
}

/// A reply or watch event, as the driver and metrics see it.
pub trait Event: Clone + fmt::Debug {
    /// The reply to a request of unknown outcome: it timed out, the connection broke, or the store
    /// refused it for now.
    const UNKNOWN: Self;
    /// The reply of a store that denied the request.
    const REFUSED: Self;

    /// The outcome of the request that this event answers.
    fn outcome(&self) -> Outcome;

    /// Whether this reply proves that the store permits the candidate to take part.
    fn shows_admission(&self) -> bool;
}

/// An operation on a store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verb {
    /// Read a record.
    Read,
    /// Create a record or a znode.
    Create,
    /// Replace one version of a record.
    Replace,
    /// Open a connection.
    Connect,
    /// End the session.
    Close,
    /// List the candidates.
    List,
    /// Confirm through a quorum that the candidate's znode still exists, without a write.
    Check,
}

impl Verb {
    /// The name in metrics and logs.
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

    /// Whether this operation changes what other candidates see. Every store has a separate
    /// permission for that.
    pub const fn writes(self) -> bool {
        match self {
            Self::Create | Self::Replace => true,
            Self::Read | Self::Connect | Self::Close | Self::List | Self::Check => false,
        }
    }
}

/// The outcome of a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Outcome {
    /// The store performed the request and acknowledged it.
    Applied,
    /// The request's precondition did not hold, so the store did nothing.
    Conflict,
    /// It is unknown whether the store performed the request.
    Unknown,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 3] = [Self::Applied, Self::Conflict, Self::Unknown];

    /// The name in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Conflict => "conflict",
            Self::Unknown => "unknown",
        }
    }
}

/// The reason for the next timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timer {
    /// The deadline of the claim.
    Deadline,
    /// Something expires: another candidate's lease, the leader's name, or a disconnected session.
    Lapse,
    /// A request is due.
    Request,
}

/// A change of the candidate's role, or of the evidence behind it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Transition<D> {
    /// The followed leader changed.
    Following {
        /// The leader; `None` if there is none, or if it is unknown.
        leader: Option<Identity>,
    },
    /// A term of this candidate began.
    Leading {
        /// The fencing token of the term.
        token: FencingToken,
    },
    /// A term of this candidate ended without a release.
    Lost {
        /// The fencing token of the term.
        token: FencingToken,
        /// Why the term ended.
        reason: Reason,
    },
    /// The store returned an older state than before, as after a restore from a backup. Tokens
    /// issued from now on may be smaller than tokens that resources have already seen.
    StoreWentBack {
        /// The fencing token of the term, or the largest token seen before.
        token: FencingToken,
        /// The version that the store returned.
        version: FencingToken,
    },
    /// The machine found a problem in the store that an operator should know about.
    Diagnosed(D),
    /// A term of this candidate ended with its release.
    Resigned {
        /// The fencing token of the term.
        token: FencingToken,
        /// Why the candidate released it.
        reason: Reason,
    },
    /// The candidate released the record or session of its previous run, which has ended.
    ReleasedForEndedRun {
        /// The identity of that run.
        identity: Identity,
    },
}

impl<D: Diagnostic> Transition<D> {
    /// Whether the store's settings prevent this candidate from leading with its timing.
    pub fn prevents_leading(&self) -> bool {
        match self {
            Self::Diagnosed(diagnostic) => diagnostic.prevents_leading(),
            Self::Following { .. }
            | Self::Leading { .. }
            | Self::Lost { .. }
            | Self::StoreWentBack { .. }
            | Self::Resigned { .. }
            | Self::ReleasedForEndedRun { .. } => false,
        }
    }
}

/// A problem in a store that does not stop the election.
///
/// `Display` states what was found, what it means, and what to do.
pub trait Diagnostic: Clone + Eq + Hash + fmt::Debug + fmt::Display {
    /// The event name in logs.
    fn event(&self) -> &'static str;

    /// Whether the problem impairs the election. It is then logged as an error.
    fn is_error(&self) -> bool;

    /// Whether the store's settings prevent this candidate from leading with its timing.
    fn prevents_leading(&self) -> bool {
        self.remedy().is_some()
    }

    /// Durations that would let this candidate lead, if its own prevent it from leading.
    fn remedy(&self) -> Option<Durations>;
}

/// Why a term or the process ended. Logs, metrics, files, and JSON share these reasons.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// No renewal was acknowledged before the deadline.
    Deadline,
    /// The record names another holder, or is not the one that this candidate wrote; or its znode
    /// belongs to another session.
    Conflict,
    /// The record or the znode was deleted.
    Deleted,
    /// The session expired.
    SessionExpired,
    /// An operator asked the candidate to resign.
    Resigned,
    /// The application stopped asking for promises, so it may be dead.
    Unasked,
    /// The application is not fit to lead.
    Unfit,
    /// The process was asked to stop.
    Shutdown,
    /// The process failed.
    Fault,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 9] = [
        Self::Deadline,
        Self::Conflict,
        Self::Deleted,
        Self::SessionExpired,
        Self::Resigned,
        Self::Unasked,
        Self::Unfit,
        Self::Shutdown,
        Self::Fault,
    ];

    /// The name in metrics, logs, and files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deadline => "deadline",
            Self::Conflict => "conflict",
            Self::Deleted => "deleted",
            Self::SessionExpired => "session_expired",
            Self::Resigned => "resigned",
            Self::Unasked => "unasked",
            Self::Unfit => "unfit",
            Self::Shutdown => "shutdown",
            Self::Fault => "fault",
        }
    }

    /// The reason with this name.
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

    /// Alerts and log searches depend on these names.
    #[test]
    fn names_of_verbs_outcomes_and_reasons_are_stable() {
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
        let reasons =
            "deadline conflict deleted session_expired resigned unasked unfit shutdown fault";
        assert_eq!(Reason::ALL.map(|reason| reason.to_string()).join(" "), reasons);
    }

    #[test]
    fn reasons_parse_from_their_names() {
        for reason in Reason::ALL {
            assert_eq!(Reason::parse(reason.as_str()), Some(reason));
        }
        assert_eq!(Reason::parse("unheard_of"), None);
    }
}
