//! The last order that a candidate received: campaign, withdraw, or release.
//!
//! Pure. The supervisor gives the orders, and the machine plans its requests by the last one. Start
//! with [`Candidacy`].

use crate::instant::Instant;
use crate::machine::{Reason, Withdrawal};

/// The last order that the candidate received.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Candidacy {
    /// Try to lead from this instant on.
    Campaigning { from: Instant },
    /// Make no promises, and do not acquire leadership.
    Withdrawn(Withdrawal),
    /// Release leadership, and do not acquire it again.
    Releasing(Reason),
}

impl Candidacy {
    /// Applies an order to withdraw. It never cancels an order to release.
    pub(super) fn withdraw(&mut self, how: Withdrawal) {
        if let Self::Campaigning { .. } | Self::Withdrawn(_) = self {
            *self = Self::Withdrawn(how);
        }
    }
}
