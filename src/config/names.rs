//! Names of Kubernetes objects.
//!
//! Pure. Start with [`ElectionName`].

use crate::config::ConfigError;
use std::fmt;
use std::str::FromStr;

/// A DNS-1123 subdomain, as the name of a Lease must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElectionName(String);

impl ElectionName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ElectionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ElectionName {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        if is_subdomain(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(ConfigError::Election(text.to_owned()))
        }
    }
}

/// Checks that `text` is a DNS-1123 subdomain, as the name of a service account must be.
pub fn check_service_account(text: &str) -> Result<(), ConfigError> {
    if is_subdomain(text) { Ok(()) } else { Err(ConfigError::ServiceAccount(text.to_owned())) }
}

/// Checks that `text` is a DNS-1123 label, as the name of a namespace must be.
pub fn check_namespace(text: &str) -> Result<(), ConfigError> {
    if text.len() <= 63 && is_label(text) {
        Ok(())
    } else {
        Err(ConfigError::Namespace(text.to_owned()))
    }
}

fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

/// Whether `text` is a DNS-1123 label but for its length.
pub(super) fn is_label(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.chars().all(|c| letter(c) || c == '-')
        && text.starts_with(letter)
        && text.ends_with(letter)
}
