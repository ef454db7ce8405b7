//! SASL's DIGEST-MD5 (RFC 2831), as far as ZooKeeper's servers speak it: one realm, `qop=auth`.
//!
//! Pure; the client's nonce is handed in. The password never leaves the process: what is sent proves that it is known, and what
//! comes back proves that the server knows it too.

use std::fmt::Write as _;

/// The service and host that ZooKeeper's servers name themselves with, whatever they are called.
const DIGEST_URI: &str = "zookeeper/zk-sasl-md5";
/// How often we have used the server's nonce.
const NONCE_COUNT: &str = "00000001";

/// What makes an exchange fail before the server has judged it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SaslError {
    /// Not what the mechanism's servers say.
    #[error("the server's SASL challenge is not one of DIGEST-MD5")]
    Challenge,
    /// The server accepted us without knowing the password.
    #[error(
        "the server accepts our SASL response, but does not know the password itself: it is not the one we mean"
    )]
    Impostor,
}

/// An answer to a challenge, waiting for the server's own proof.
#[derive(Debug)]
pub struct Exchange {
    /// What to send.
    pub response: String,
    proof: String,
}

impl Exchange {
    /// The response to `challenge`.
    pub fn respond(
        user: &str,
        password: &str,
        challenge: &[u8],
        cnonce: &str,
    ) -> Result<Self, SaslError> {
        let challenge = str::from_utf8(challenge).map_err(|_| SaslError::Challenge)?;
        let nonce = directive(challenge, "nonce").ok_or(SaslError::Challenge)?;
        let realm = directive(challenge, "realm").unwrap_or_default();

        let secret = md5::compute(
            [&legacy(user), &b":"[..], &legacy(&realm), b":", &legacy(password)].concat(),
        );
        let session = [&secret[..], format!(":{nonce}:{cnonce}").as_bytes()].concat();
        let value = |method: &str| {
            let (one, two) =
                (md5::compute(&session), md5::compute(format!("{method}:{DIGEST_URI}")));
            format!(
                "{:x}",
                md5::compute(format!("{one:x}:{nonce}:{NONCE_COUNT}:{cnonce}:auth:{two:x}"))
            )
        };
        let mut response = String::from("charset=utf-8,qop=auth");
        for (name, text) in [
            ("username", user),
            ("realm", &realm),
            ("nonce", &nonce),
            ("cnonce", cnonce),
            ("digest-uri", DIGEST_URI),
        ] {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"");
            write!(response, ",{name}=\"{text}\"").expect("a String takes everything");
        }
        write!(response, ",nc={NONCE_COUNT},response={}", value("AUTHENTICATE"))
            .expect("a String takes everything");
        Ok(Self { response, proof: value("") })
    }

    /// Whether the server has proved that it knows the password.
    pub fn verify(&self, last: &[u8]) -> Result<(), SaslError> {
        let proof = str::from_utf8(last).ok().and_then(|last| directive(last, "rspauth"));
        if proof.as_ref() == Some(&self.proof) { Ok(()) } else { Err(SaslError::Impostor) }
    }
}

/// The value of a directive in a list of `name=value` and `name="value"`.
fn directive(list: &str, wanted: &str) -> Option<String> {
    let mut rest = list;
    loop {
        let (name, behind) = rest.split_once('=')?;
        let (value, behind) = if let Some(quoted) = behind.strip_prefix('"') {
            unquote(quoted)?
        } else {
            let end = behind.find(',').unwrap_or(behind.len());
            (behind[..end].to_owned(), &behind[end..])
        };
        if name.trim_start_matches([',', ' ']).eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = behind;
    }
}

/// The text up to the closing quotation mark, and what stands behind that.
fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((text, &quoted[at + 1..])),
            '\\' => text.push(characters.next()?.1),
            other => text.push(other),
        }
    }
    None
}

/// A text as it is hashed: in ISO 8859-1 where that can hold it (RFC 2831, 2.1.2.1).
fn legacy(text: &str) -> Vec<u8> {
    let latin: Option<Vec<u8>> =
        text.chars().map(|character| u8::try_from(character).ok()).collect();
    latin.unwrap_or_else(|| text.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by another implementation of MD5, along RFC 2831.
    const RESPONSE: &str = "83c3a3289e623afc776f530b3649f99d";
    const PROOF: &str = "4e67f253f53983d3d736e68bac59d375";

    #[test]
    fn who_knows_the_password_proves_it_and_wants_proof() {
        let challenge =
            br#"realm="zk-sasl-md5",nonce="OA6MG9tEQGm2hh",charset=utf-8,algorithm=md5-sess"#;
        let exchange = Exchange::respond("alice", "secret1", challenge, "OA6MHXh6VqTrRk").unwrap();
        let expected = format!(
            "charset=utf-8,qop=auth,username=\"alice\",realm=\"zk-sasl-md5\",nonce=\"OA6MG9tEQGm2hh\",\
             cnonce=\"OA6MHXh6VqTrRk\",digest-uri=\"zookeeper/zk-sasl-md5\",nc=00000001,response={RESPONSE}"
        );
        assert_eq!(exchange.response, expected);
        assert_eq!(exchange.verify(format!("rspauth={PROOF}").as_bytes()), Ok(()));
        assert_eq!(
            exchange.verify(format!("rspauth={RESPONSE}").as_bytes()),
            Err(SaslError::Impostor)
        );
        assert_eq!(exchange.verify(b""), Err(SaslError::Impostor));
    }

    #[test]
    fn directives_are_found_behind_others_that_hold_commas_and_quotes() {
        let list = r#"realm="a,\"b=c",nonce=plain, algorithm=md5-sess"#;
        assert_eq!(directive(list, "realm").as_deref(), Some("a,\"b=c"));
        assert_eq!(directive(list, "nonce").as_deref(), Some("plain"));
        assert_eq!(directive(list, "algorithm").as_deref(), Some("md5-sess"));
        assert_eq!(directive(list, "rspauth"), None);
        for broken in ["", "nonce", "nonce=\"", "nonce=\"\\", "=,=,=", "\"=\""] {
            assert_eq!(directive(broken, "nonce"), None, "{broken:?}");
        }
    }

    #[test]
    fn a_challenge_of_something_else_is_refused() {
        for challenge in [&b""[..], b"\xff", b"realm=\"x\""] {
            assert!(
                Exchange::respond("alice", "secret1", challenge, "x").is_err(),
                "{challenge:?}"
            );
        }
    }
}
