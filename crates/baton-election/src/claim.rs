//! The right to lead: a fencing token and a deadline on the candidate's own clock.
//!
//! Pure. Start with [`Claim`]. A claim ends by itself at its deadline, without any code that clears
//! it.

use crate::identity::Identity;
use crate::instant::Instant;
use std::fmt;
use std::time::Duration;

/// A number that is constant within a term and larger in every later term of the same election.
///
/// A resource that remembers the largest token it has seen can refuse a former leader. 128 bits
/// hold every `resourceVersion` that Kubernetes allows (KEP-5504).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FencingToken(u128);

impl FencingToken {
    /// The token with this value.
    pub const fn new(value: u128) -> Self {
        Self(value)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The right to lead until a deadline on the candidate's own clock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Claim {
    token: FencingToken,
    deadline: Instant,
}

impl Claim {
    /// A claim in the term `token` that ends at `deadline`. Only a machine constructs claims, and
    /// only after the store acknowledged a conditional write.
    pub(crate) const fn new(token: FencingToken, deadline: Instant) -> Self {
        Self { token, deadline }
    }

    /// The fencing token of the term.
    pub const fn token(&self) -> FencingToken {
        self.token
    }

    /// The instant at which the claim ends.
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The time until the deadline, or zero if it has passed.
    pub fn remaining(&self, now: Instant) -> Duration {
        self.deadline.since(now)
    }
}

/// The role of a candidate in its election.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Standing {
    /// The store has not replied yet.
    Unknown,
    /// Another candidate may lead.
    Following {
        /// The leader, if known.
        leader: Option<Identity>,
    },
    /// This candidate holds the election and may promise leadership.
    Leading(Claim),
    /// This candidate still holds the election but promises nothing any more.
    Resigning(Claim),
}
