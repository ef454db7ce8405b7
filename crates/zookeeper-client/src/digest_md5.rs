//! SASL with DIGEST-MD5 (RFC 2831), as ZooKeeper uses it: one realm, `qop=auth`.
//!
//! Pure: the caller provides the client's nonce. Start with [`Exchange::respond`]. The password
//! never leaves the process; client and server each prove that they know it.

use std::fmt::Write as _;

/// The service and host that every ZooKeeper server uses, whatever its name.
const DIGEST_URI: &str = "zookeeper/zk-sasl-md5";
/// How often this client has used the server's nonce.
const NONCE_COUNT: &str = "00000001";

/// Why an exchange failed although the server did not refuse it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SaslError {
    /// The challenge does not belong to DIGEST-MD5.
    #[error("the server's SASL challenge is not a DIGEST-MD5 challenge")]
    Challenge,
    /// The server accepted the response but did not prove that it knows the password.
    #[error(
        "the server accepted the SASL response but did not prove that it knows the password: it \
         may be an impostor"
    )]
    Impostor,
}

/// A response to a challenge, and the proof expected from the server.
#[derive(Debug)]
pub struct Exchange {
    /// The response to send.
    pub response: String,
    proof: String,
}

impl Exchange {
    /// Computes the response to `challenge`; `cnonce` must be unique.
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
            [
                &latin1_or_utf8(user),
                &b":"[..],
                &latin1_or_utf8(&realm),
                b":",
                &latin1_or_utf8(password),
            ]
            .concat(),
        );
        let session = [&secret[..], format!(":{nonce}:{cnonce}").as_bytes()].concat();
        let value = |method: &str| {
            let (a1, a2) = (md5::compute(&session), md5::compute(format!("{method}:{DIGEST_URI}")));
            format!(
                "{:x}",
                md5::compute(format!("{a1:x}:{nonce}:{NONCE_COUNT}:{cnonce}:auth:{a2:x}"))
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
            write!(response, ",{name}=\"{text}\"").expect("writing to a string cannot fail");
        }
        write!(response, ",nc={NONCE_COUNT},response={}", value("AUTHENTICATE"))
            .expect("writing to a string cannot fail");
        Ok(Self { response, proof: value("") })
    }

    /// Checks the server's proof that it knows the password.
    pub fn verify(&self, last: &[u8]) -> Result<(), SaslError> {
        let proof = str::from_utf8(last).ok().and_then(|last| directive(last, "rspauth"));
        if proof.as_ref() == Some(&self.proof) { Ok(()) } else { Err(SaslError::Impostor) }
    }
}

/// The value of directive `wanted` in a list of `name=value` and `name="value"`.
fn directive(list: &str, wanted: &str) -> Option<String> {
    let mut rest = list;
    loop {
        let (name, after) = rest.split_once('=')?;
        let (value, after) = if let Some(quoted) = after.strip_prefix('"') {
            unquote(quoted)?
        } else {
            let end = after.find(',').unwrap_or(after.len());
            (after[..end].to_owned(), &after[end..])
        };
        if name.trim_start_matches([',', ' ']).eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = after;
    }
}

/// The text up to the closing quotation mark, and the rest after it.
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

/// The bytes to hash: ISO 8859-1 if possible, else UTF-8 (RFC 2831, 2.1.2.1).
fn latin1_or_utf8(text: &str) -> Vec<u8> {
    let latin: Option<Vec<u8>> =
        text.chars().map(|character| u8::try_from(character).ok()).collect();
    latin.unwrap_or_else(|| text.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by another implementation, by RFC 2831.
    const RESPONSE: &str = "83c3a3289e623afc776f530b3649f99d";
    const PROOF: &str = "4e67f253f53983d3d736e68bac59d375";

    #[test]
    fn both_sides_prove_that_they_know_the_password() {
        let challenge =
            br#"realm="zk-sasl-md5",nonce="OA6MG9tEQGm2hh",charset=utf-8,algorithm=md5-sess"#;
        let exchange = Exchange::respond("alice", "secret1", challenge, "OA6MHXh6VqTrRk").unwrap();
        let expected = format!(
            "charset=utf-8,qop=auth,username=\"alice\",realm=\"zk-sasl-md5\",\
             nonce=\"OA6MG9tEQGm2hh\",cnonce=\"OA6MHXh6VqTrRk\",\
             digest-uri=\"zookeeper/zk-sasl-md5\",nc=00000001,response={RESPONSE}"
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
    fn directives_are_found_after_quoted_commas() {
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
    fn challenge_of_another_mechanism_is_refused() {
        for challenge in [&b""[..], b"\xff", b"realm=\"x\""] {
            assert!(
                Exchange::respond("alice", "secret1", challenge, "x").is_err(),
                "{challenge:?}"
            );
        }
    }
}
