//! A service account's token with another expiry, signed with the server's key. The server itself
//! issues no token for less than ten minutes.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::KeyPair;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::Value;
use std::time::{SystemTime, UNIX_EPOCH};

const ISSUED: &str = "the API server issued the token";

/// Copies `token` with another expiry; `key` is the signing key, as PEM.
pub(super) fn until(end: SystemTime, token: &str, key: &str) -> String {
    let parts: Vec<_> = token.split('.').collect();
    let claims = URL_SAFE_NO_PAD.decode(parts[1]).expect(ISSUED);
    let mut claims: Value = serde_json::from_slice(&claims).expect(ISSUED);
    claims["exp"] = end.duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs().into();
    let signed = format!("{}.{}", parts[0], URL_SAFE_NO_PAD.encode(claims.to_string()));
    let key = KeyPair::from_pem(key).expect("it was written").serialize_der();
    let random = SystemRandom::new();
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &key, &random)
        .expect("the key signs tokens");
    let signature = key.sign(&random, signed.as_bytes()).expect("there is randomness");
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}
