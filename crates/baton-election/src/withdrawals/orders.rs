//! Orders to withdraw, the causes that they add, and how they end.
//!
//! Pure. Start with [`Order`].

use crate::machine::Reason;
use std::time::Duration;

/// Why a candidate stays away. If several causes apply, the first gives the reason of a release.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cause {
    /// The process was asked to stop. This cause never leaves the set.
    Shutdown,
    /// An operator asked the candidate to resign.
    Resigned,
    /// The application stopped asking for promises.
    Unasked,
    /// The application is not fit to lead.
    Unfit,
    /// The Pod is about to end. The record is held until the shutdown.
    Stopping,
}

impl Cause {
    /// The reason of a release that this cause leads to.
    pub(super) const fn reason(self) -> Reason {
        match self {
            Self::Shutdown | Self::Stopping => Reason::Shutdown,
            Self::Resigned => Reason::Resigned,
            Self::Unasked => Reason::Unasked,
            Self::Unfit => Reason::Unfit,
        }
    }
}

/// An order to withdraw.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Order {
    /// Release, and stay away for good.
    Shutdown,
    /// Release, and campaign again when `hold_off` has passed since the release. If its outcome is
    /// unknown, the hold-off counts from the end of the claim.
    Resign {
        /// How long to leave the election to other candidates.
        hold_off: Duration,
    },
    /// Release, and stay away until [`Withdrawals::end`](super::Withdrawals::end).
    Unasked,
    /// Stay away until [`Withdrawals::end`](super::Withdrawals::end).
    Unfit {
        /// Whether to release too; else the record is kept until the process has ended.
        releases: bool,
    },
    /// Keep the record without a promise. If no shutdown follows within `limit`, campaign again.
    Stopping {
        /// How long the withdrawal lasts at most.
        limit: Duration,
    },
}

impl Order {
    /// The cause that this order adds.
    pub const fn cause(self) -> Cause {
        match self {
            Self::Shutdown => Cause::Shutdown,
            Self::Resign { .. } => Cause::Resigned,
            Self::Unasked => Cause::Unasked,
            Self::Unfit { .. } => Cause::Unfit,
            Self::Stopping { .. } => Cause::Stopping,
        }
    }
}

/// Identifies an order, so that its caller learns how it ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub(super) u64);

/// How an order to withdraw ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OrderOutcome {
    /// No promise holds, and the record is kept, as ordered.
    Withdrawn,
    /// The store holds nothing of this candidate.
    Confirmed,
    /// The claim ended before the store confirmed the release.
    Unconfirmed,
    /// The store refuses this candidate, as after `helm uninstall`, which deletes its rights before
    /// the leader exits. Only a process about to exit gets this; others retry.
    Refused,
    /// A later order of the same cause took the place of this one, or the cause ended first.
    Superseded,
}

/// A change to report to callers and operators.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WithdrawalEvent {
    /// The order with this ticket ended. Every order ends at most once.
    Settled(Ticket, OrderOutcome),
    /// No shutdown followed the order to prepare for it, so its cause has left the set.
    StoppingExpired,
}
