//! Displays an error with its causes on one line.
//!
//! Pure. Start with [`ErrorChain`].

use std::error::Error;
use std::fmt;

/// Displays an error and its causes, separated by colons.
#[derive(Debug)]
pub struct ErrorChain<'a>(pub &'a dyn Error);

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.0.to_string();
        let mut cause = self.0.source();
        while let Some(error) = cause {
            let part = error.to_string();
            // Errors of other crates may include their source in their message.
            if !text.contains(&part) {
                text = format!("{text}: {part}");
            }
            cause = error.source();
        }
        f.write_str(&text)
    }
}
