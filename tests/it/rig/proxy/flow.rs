//! The orders that a proxy has for the bytes of each direction.
//!
//! Pure. Start with [`Flow`].

/// How the bytes of one direction are treated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Pass,
    /// The bytes wait here, even if their sender has gone, and are delivered after `Pass`: a late
    /// write.
    Hold,
    /// The bytes are dropped: replies to applied requests. After `Pass`, such a connection is
    /// closed.
    Lose,
    /// Every connection, old or new, is closed, and its waiting bytes are dropped.
    Close,
    /// The bytes are delivered late.
    Delay,
    /// Half of the next bytes is delivered, and the connection is closed.
    Truncate,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Requests,
    Replies,
}
