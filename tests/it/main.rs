//! The only test crate: one link step, and this list says what belongs where.
#![expect(clippy::disallowed_methods, reason = "a test measures the sidecar by clocks of its own")]

/// Stories of the pure machine, read aloud: what it says to what it hears.
mod transcripts;
