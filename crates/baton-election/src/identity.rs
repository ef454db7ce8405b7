//! The identity of a candidate.
//!
//! Pure. Start with [`Identity`]. It is unique to one start of one process, because a restarted
//! process must not inherit the term of the one before it. So the random part cannot be turned off.
//! Most client-go tutorials pass only the Pod name, and a restarted container then assumes that it
//! still leads.

use crate::text::{is_unsafe_in_line, one_line};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The identity of a candidate as stored in the record.
///
/// Ours is `<prefix>_<uuid>`. Other candidates may use any non-empty text.
#[derive(Clone, Eq)]
pub struct Identity(Arc<str>);

/// Why a text is not a valid identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The text is empty, which in a Lease means that it has no holder.
    #[error("an identity must not be empty")]
    Empty,
    /// The text is longer than [`Identity::MAX_BYTES`] bytes.
    #[error("an identity must not be longer than {} bytes", Identity::MAX_BYTES)]
    TooLong,
    /// The text contains a line break or another character that is unsafe in logs and records.
    #[error(
        "an identity must not contain control characters, or characters that reorder or hide text"
    )]
    Control,
}

impl Identity {
    /// The length limit for identities, in bytes.
    pub const MAX_BYTES: usize = 1024;

    /// Our own identity: a readable prefix (Pod or host name), and a part unique to this start.
    pub fn unique(prefix: &str, unique: impl fmt::Display) -> Result<Self, IdentityError> {
        Self::parse(&format!("{prefix}_{unique}"))
    }

    /// Parses an identity, ours or another candidate's.
    pub fn parse(text: &str) -> Result<Self, IdentityError> {
        if text.is_empty() {
            Err(IdentityError::Empty)
        } else if text.len() > Self::MAX_BYTES {
            Err(IdentityError::TooLong)
        } else if text.contains(is_unsafe_in_line) {
            Err(IdentityError::Control)
        } else {
            Ok(Self(text.into()))
        }
    }

    /// Parses an identity from a record that others may have written.
    ///
    /// Returns `None` for empty text. Text that is too long is truncated, and unsafe characters are
    /// replaced, so that a candidate can still name the holder and wait for it.
    pub fn parse_lossy(text: &str) -> Option<Self> {
        let end = text.floor_char_boundary(Self::MAX_BYTES);
        // A question mark is never longer than the character it replaces, so the limit still holds.
        Self::parse(&one_line(&text[..end])).ok()
    }

    /// The whole identity.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The readable part, up to the last `_`: the Pod name for our own candidates. Without a `_`,
    /// as client-go allows, it is the whole identity.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('_').map_or(&self.0, |(name, _)| name)
    }
}

/// Most comparisons are between clones of one identity, which share their text.
impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Hash for Identity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_ends_at_the_last_underscore() {
        let name = |text| Identity::parse(text).unwrap().name().to_owned();
        assert_eq!(name("orders-7d9f_5be1"), "orders-7d9f");
        assert_eq!(name("a_b_c"), "a_b");
        assert_eq!(name("plain"), "plain");
    }

    #[test]
    fn lossy_parsing_replaces_unsafe_characters() {
        let holder = Identity::parse_lossy("a\u{202e}b\u{2028}c\nd").unwrap();
        assert_eq!(holder.as_str(), "a?b?c?d");
    }

    #[test]
    fn invalid_identities_are_rejected() {
        assert_eq!(Identity::parse(""), Err(IdentityError::Empty));
        assert_eq!(Identity::parse("a\nb"), Err(IdentityError::Control));
        assert_eq!(Identity::parse("a\u{202e}b"), Err(IdentityError::Control));
        assert_eq!(Identity::parse(&"x".repeat(1025)), Err(IdentityError::TooLong));
    }
}
