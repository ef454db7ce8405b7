//! The role in which a candidate sends a request, and the race that the request takes part in.
//!
//! Pure. Start with [`RoleWhenSent`].

use baton_election::instant::Instant;

/// The role of a candidate when it sends a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::checkers) enum RoleWhenSent {
    /// It holds a claim, so the request does not begin a term.
    Leading,
    /// It may begin a term.
    Campaigning,
    /// It must stay away.
    Away,
}

/// The outcome of a write that follows a read and would begin a term, until the next watch event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::checkers) enum Race {
    None,
    Running,
    /// It met a conflict at this time.
    Lost(Instant),
}
