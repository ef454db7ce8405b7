//! An error with its causes, on one line.
//!
//! Pure. Start with [`ErrorChain`].

use std::error::Error;
use std::fmt;

/// Displays an error and each of its causes once, separated by colons.
#[derive(Debug)]
pub struct ErrorChain<'a>(pub &'a dyn Error);

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told = self.0.to_string();
        let mut cause = self.0.source();
        while let Some(error) = cause {
            let part = error.to_string();
            // Other crates' errors may have said it already.
            if !told.contains(&part) {
                told = format!("{told}: {part}");
            }
            cause = error.source();
        }
        f.write_str(&told)
    }
}
