//! A token of an API server with another end, signed by the server's own key: it gives out none for less than ten
//! minutes.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::KeyPair;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::Value;
use std::time::{SystemTime, UNIX_EPOCH};

const OURS: &str = "the API server made it";

/// What `token` says, but for its end; `key` is the one that signs, as PEM.
pub(super) fn until(end: SystemTime, token: &str, key: &str) -> String {
    let parts: Vec<_> = token.split('.').collect();
    let claims = URL_SAFE_NO_PAD.decode(parts[1]).expect(OURS);
    let mut claims: Value = serde_json::from_slice(&claims).expect(OURS);
    claims["exp"] = end.duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs().into();
    let signed = format!("{}.{}", parts[0], URL_SAFE_NO_PAD.encode(claims.to_string()));
    let key = KeyPair::from_pem(key).expect("it was written").serialize_der();
    let random = SystemRandom::new();
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &key, &random)
        .expect("it signs tokens");
    let signature = key.sign(&random, signed.as_bytes()).expect("there is randomness");
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}
