//! The state of a record election: its role, its knowledge of the record, and its request in flight.
//!
//! Pure data. Start with [`Role`]. `record.rs` plans requests from the state; `replies.rs` changes
//! it.

use crate::claim::{Claim, FencingToken};
use crate::identity::Identity;
use crate::instant::Instant;
use crate::machine::Reason;
use crate::record::messages::{Intent, RecordRequest};

/// The candidate's role.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Role {
    Unknown,
    Following {
        leader: Option<Identity>,
    },
    Leading {
        claim: Claim,
        renew_at: Instant,
    },
    /// A release has been sent, so the candidate claims nothing, whatever the outcome.
    Releasing {
        token: FencingToken,
        reason: Reason,
        /// A release had an unknown outcome.
        may_be_applied: bool,
    },
}

/// How far the next step can rely on the observed record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Knowledge {
    /// Observed earlier. An acquisition needs a new read.
    Cached,
    /// The record was free when it was read, or a watch event showed its release. An acquisition may
    /// follow.
    Fresh,
    /// A write has an unknown outcome.
    Uncertain,
    /// A write ended in a conflict, or a watch event contradicts the claim: the store holds another
    /// record.
    Contradicted,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct InFlight {
    pub(super) request: RecordRequest,
    pub(super) sent: Instant,
    /// A reply with a lower version is older than a watch event that arrived while it was in
    /// flight.
    pub(super) stale_below: u128,
    /// The ended run on whose behalf this release is sent.
    pub(super) ended_run: Option<Identity>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Read,
    Write(Intent),
}
