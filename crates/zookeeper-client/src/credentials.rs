//! What we show to the servers of an ensemble so that they know us.
//!
//! Pure: the text of the file is handed in, and nothing here prints what stands in it.

use std::fmt;

/// One line of a file of credentials.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// What zkCli's `addauth` takes: a scheme, and what the scheme wants.
    Plain {
        /// The scheme: `digest`.
        scheme: String,
        /// What it wants: `user:password`.
        secret: Vec<u8>,
    },
    /// A user of SASL's DIGEST-MD5.
    Sasl {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
}

/// A text that holds no credentials. The error never repeats the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// No line holds any. Without credentials everybody could change our znodes.
    #[error(
        "it is empty: write a line like digest:user:password or sasl:user:password, or leave the file out"
    )]
    Empty,
    /// The line of this number is no credential.
    #[error(
        "line {0} is not scheme:credentials: write it like digest:user:password or sasl:user:password, sasl at most once"
    )]
    Line(usize),
}

impl Credential {
    /// The credentials in a file, one a line, and at least one.
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

    /// Whether a connection without TLS would carry the secret as it is. SASL sends a digest of it.
    pub const fn is_sent_in_clear(&self) -> bool {
        match self {
            Self::Plain { .. } => true,
            Self::Sasl { .. } => false,
        }
    }

    /// The scheme, as an access list would name it.
    pub fn scheme(&self) -> &str {
        match self {
            Self::Plain { scheme, .. } => scheme,
            Self::Sasl { .. } => "sasl",
        }
    }
}

/// Never what is secret.
impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:…", self.scheme())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_line_by_line_and_never_shown() {
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
    fn a_file_without_credentials_is_refused() {
        for empty in ["", "\n", " \n\t\n"] {
            assert_eq!(Credential::parse_all(empty), Err(CredentialError::Empty), "{empty:?}");
        }
    }
}
