//! The right to lead: a fencing token, and a deadline on the candidate's own clock.
//!
//! Pure. Start with [`Claim`]. A claim ends by itself, so no code has to notice that it is over.

use crate::identity::Identity;
use crate::instant::Instant;
use std::fmt;
use std::time::Duration;

/// A number that is constant for a term and larger in each later term of the same election.
///
/// A resource that remembers the largest one it has seen can refuse a leader of the past. 128 bits
/// hold every `resourceVersion` that Kubernetes allows (KEP-5504).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FencingToken(u128);

impl FencingToken {
    /// The token with this number.
    pub const fn new(number: u128) -> Self {
        Self(number)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The right to lead until a deadline on our own clock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Claim {
    token: FencingToken,
    deadline: Instant,
}

impl Claim {
    /// A claim of the term `token` that ends at `deadline`. Only a machine can make one, and only for
    /// an acknowledged conditional write.
    pub(crate) const fn new(token: FencingToken, deadline: Instant) -> Self {
        Self { token, deadline }
    }

    /// The token of the term.
    pub const fn token(&self) -> FencingToken {
        self.token
    }

    /// The instant from which this claim is worth nothing.
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// How long the claim still holds; zero from the deadline on.
    pub fn remaining(&self, now: Instant) -> Duration {
        self.deadline.since(now)
    }
}

/// Where an election machine stands.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Standing {
    /// Nothing was heard from the store yet.
    Unknown,
    /// Somebody else may lead.
    Following {
        /// Who holds the election, as far as we know.
        leader: Option<Identity>,
    },
    /// We hold the election and may promise it.
    Leading(Claim),
    /// We hold the election and promise nothing more.
    Resigning(Claim),
}
