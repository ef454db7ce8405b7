//! Who a candidate is.
//!
//! Pure. An identity is unique to one start of one process: a restarted process must not inherit the
//! term of the one before it, which is why the random part can not be switched off (every tutorial
//! passes the Pod's name alone to client-go, and a restarted Pod then "is" the old leader).

use crate::text::{one_line, spoils_a_line};
use std::fmt;
use std::sync::Arc;

/// The identity of a candidate as it stands in the record: `<prefix>_<uuid>` for ours, any
/// text that is not empty for others'.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Identity(Arc<str>);

/// A text that cannot be an identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// Nothing, which in a Lease means that nobody holds it.
    #[error("an identity must not be empty")]
    Empty,
    /// Longer than [`Identity::LONGEST`] bytes.
    #[error("an identity is at most {} bytes long", Identity::LONGEST)]
    TooLong,
    /// A line break, or another character that would spoil logs and records.
    #[error("an identity must not contain control characters, nor ones that reorder or hide text")]
    Control,
}

impl Identity {
    /// The longest identity that is read or written, in bytes.
    pub const LONGEST: usize = 1024;

    /// Our own identity: a readable prefix (Pod or host name) and what makes this start unique.
    pub fn unique(prefix: &str, unique: impl fmt::Display) -> Result<Self, IdentityError> {
        Self::parse(&format!("{prefix}_{unique}"))
    }

    /// The identity in `text`, ours or another's.
    pub fn parse(text: &str) -> Result<Self, IdentityError> {
        if text.is_empty() {
            Err(IdentityError::Empty)
        } else if text.len() > Self::LONGEST {
            Err(IdentityError::TooLong)
        } else if text.contains(spoils_a_line) {
            Err(IdentityError::Control)
        } else {
            Ok(Self(text.into()))
        }
    }

    /// Whoever stands in a record that others write: nobody for an empty text, and for one that could not be ours somebody
    /// who can still be waited for and named.
    pub fn lossy(text: &str) -> Option<Self> {
        let end = text.floor_char_boundary(Self::LONGEST);
        // A question mark is never longer than the character that it replaces.
        Self::parse(&one_line(&text[..end])).ok()
    }

    /// The whole identity.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The readable part, up to the last `_`: for our own candidates the Pod's name. An identity
    /// without `_` (client-go's may be such) is its own name.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('_').map_or(&self.0, |(name, _)| name)
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
    fn the_name_is_what_stands_before_the_last_underscore() {
        let name = |text| Identity::parse(text).unwrap().name().to_owned();
        assert_eq!(name("orders-7d9f_5be1"), "orders-7d9f");
        assert_eq!(name("a_b_c"), "a_b");
        assert_eq!(name("plain"), "plain");
    }

    #[test]
    fn holder_with_bidi_and_separators_is_flattened() {
        let holder = Identity::lossy("a\u{202e}b\u{2028}c\nd").unwrap();
        assert_eq!(holder.as_str(), "a?b?c?d");
    }

    #[test]
    fn what_would_spoil_a_record_is_refused() {
        assert_eq!(Identity::parse(""), Err(IdentityError::Empty));
        assert_eq!(Identity::parse("a\nb"), Err(IdentityError::Control));
        assert_eq!(Identity::parse("a\u{202e}b"), Err(IdentityError::Control));
        assert_eq!(Identity::parse(&"x".repeat(1025)), Err(IdentityError::TooLong));
    }
}
