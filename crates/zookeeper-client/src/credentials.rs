//! Credentials that a client presents to the servers.
//!
//! Pure. Start with [`Credential::parse_all`]. Neither errors nor `Debug` reveal a secret.

use std::fmt;

/// One credential, a line of a file.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// A scheme and its secret, as zkCli's `addauth` takes them.
    Plain {
        /// The scheme, such as `digest`.
        scheme: String,
        /// The secret; `user:password` for `digest`.
        secret: Vec<u8>,
    },
    /// A user for SASL with DIGEST-MD5.
    Sasl {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
}

/// Why a text is not a list of credentials. The error never quotes the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// There is no credential. An empty file is more likely a mistake than a decision for open
    /// access.
    #[error(
        "it is empty: write a line like digest:user:password or sasl:user:password, or omit the \
         file"
    )]
    Empty,
    /// The line with this number is not a credential, or a second `sasl`.
    #[error(
        "line {0} is invalid: write it like digest:user:password or sasl:user:password, with sasl \
         at most once"
    )]
    Line(usize),
}

impl Credential {
    /// Parses one credential per line; blank lines are ignored.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, CredentialError> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let mut all = Vec::new();
        for (at, line) in lines {
            let credential = Self::parse(line.trim()).ok_or(CredentialError::Line(at + 1))?;
            if matches!(credential, Self::Sasl { .. })
                && all.iter().any(|other| matches!(other, Self::Sasl { .. }))
            {
                return Err(CredentialError::Line(at + 1));
            }
            all.push(credential);
        }
        if all.is_empty() { Err(CredentialError::Empty) } else { Ok(all) }
    }

    fn parse(line: &str) -> Option<Self> {
        let (scheme, secret) = line
            .split_once(':')
            .filter(|(scheme, secret)| !scheme.is_empty() && !secret.is_empty())?;
        match scheme {
            "sasl" => {
                let (user, password) =
                    secret.split_once(':').filter(|(user, _)| !user.is_empty())?;
                Some(Self::Sasl { user: user.to_owned(), password: password.to_owned() })
            }
            "digest" if !secret.contains(':') => None,
            scheme => {
                Some(Self::Plain { scheme: scheme.to_owned(), secret: secret.as_bytes().to_vec() })
            }
        }
    }

    /// Whether the secret crosses the network in clear text without TLS. SASL sends only a digest.
    pub const fn is_sent_in_clear(&self) -> bool {
        match self {
            Self::Plain { .. } => true,
            Self::Sasl { .. } => false,
        }
    }

    /// The scheme, as access lists name it.
    pub fn scheme(&self) -> &str {
        match self {
            Self::Plain { scheme, .. } => scheme,
            Self::Sasl { .. } => "sasl",
        }
    }
}

/// Omits the secret.
impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:…", self.scheme())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_parsed_per_line_and_not_shown() {
        let all = Credential::parse_all("digest:shop:s3:cret\n\nsasl:alice:pass word\n").unwrap();
        let digest =
            Credential::Plain { scheme: "digest".to_owned(), secret: b"shop:s3:cret".to_vec() };
        let sasl = Credential::Sasl { user: "alice".to_owned(), password: "pass word".to_owned() };
        assert_eq!(all, [digest, sasl]);
        assert_eq!(format!("{all:?}"), "[digest:…, sasl:…]");
        for (wrong, line) in
            [("digest", 1), ("digest:user", 1), ("\nsasl:alice", 2), (":x", 1), ("ip:", 1)]
        {
            assert_eq!(Credential::parse_all(wrong), Err(CredentialError::Line(line)), "{wrong}");
        }
        assert_eq!(Credential::parse_all("sasl:a:b\nsasl:c:d"), Err(CredentialError::Line(2)));
    }

    #[test]
    fn file_without_credentials_is_refused() {
        for empty in ["", "\n", " \n\t\n"] {
            assert_eq!(Credential::parse_all(empty), Err(CredentialError::Empty), "{empty:?}");
        }
    }
}
