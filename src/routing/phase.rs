//! The phases of a plan for an EndpointSlice: a term, a clearing, or neither.
//!
//! Pure. Start with [`Phase`].

use super::plan::Finding;
use baton_election::claim::FencingToken;
use baton_election::instant::Instant;
use std::mem::{Discriminant, discriminant};

/// The purpose of the next write.
#[derive(Debug)]
pub(super) enum Phase {
    /// There is nothing to write.
    Idle,
    /// This process leads.
    Leading(Leading),
    /// A stop waits for the clearing until this instant.
    Clearing(Instant),
    /// The clearing goes on for as long as the process runs.
    ClearingLate,
}

/// The slice in one term of this process.
#[derive(Debug)]
pub(super) struct Leading {
    pub(super) term: FencingToken,
    /// Whether the slice holds our addresses, as far as known.
    pub(super) is_published: bool,
    /// Whether nothing is left to write, so that the next call is a read.
    pub(super) is_settled: bool,
    /// The kinds of the findings of this term.
    reported: Vec<Discriminant<Finding>>,
}

impl Leading {
    pub(super) const fn new(term: FencingToken) -> Self {
        Self { term, is_published: false, is_settled: false, reported: Vec::new() }
    }

    /// The finding, unless this term has had one of its kind.
    pub(super) fn once(&mut self, finding: Finding) -> Option<Finding> {
        let kind = discriminant(&finding);
        if self.reported.contains(&kind) {
            return None;
        }
        self.reported.push(kind);
        Some(finding)
    }
}
