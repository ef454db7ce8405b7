//! What a candidate was last told to do about leading.
//!
//! Pure. Orders come from the supervisor; each machine asks here what it may do.

use crate::instant::Instant;
use crate::machine::{Reason, Withdrawal};

/// The last order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Candidacy {
    /// Try to lead from this instant on.
    Campaigning { from: Instant },
    /// Do not, and promise nothing.
    Withdrawn(Withdrawal),
    /// Give back what is ours.
    Releasing(Reason),
}

impl Candidacy {
    /// Takes in the order to withdraw, which does not take back one to release.
    pub(super) fn withdraw(&mut self, how: Withdrawal) {
        if let Self::Campaigning { .. } | Self::Withdrawn(_) = self {
            *self = Self::Withdrawn(how);
        }
    }
}
