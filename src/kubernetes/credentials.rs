//! The credentials of a kubeconfig's user, or of a Pod's service account: a header, a client
//! certificate, or both.
//!
//! Touches the files that the user names, and runs its exec plugin. Start with
//! [`Credentials::load`]. kube would read the files on a schedule of its own, send a token's
//! trailing newline, and panic over a newline inside it.

use super::api_server_error::ApiServerError;
use super::exec_plugin;
use super::exec_plugin::PluginCredentials;
use super::tls::ClientIdentity;
use hyper::header::HeaderValue;
use k8s_openapi::ByteString;
use kube::config::AuthInfo;
use secrecy::ExposeSecret;
use serde_json::Value;
use std::fmt::Display;
use std::fs;
use std::path::PathBuf;
use tokio::runtime::Handle;

/// The proof of a client's identity.
#[derive(Debug, Default)]
pub(super) struct Credentials {
    /// The header of every request.
    pub(super) authorization: Option<HeaderValue>,
    /// The client certificate of every connection.
    pub(super) identity: Option<ClientIdentity>,
}

impl Credentials {
    /// Reads the files of `user`, or runs its exec plugin. Blocks.
    ///
    /// The order of preference is kube's: user and password, token, token file, exec plugin.
    pub(super) fn load(user: &AuthInfo) -> Result<Self, ApiServerError> {
        if let Some(provider) = &user.auth_provider {
            return Err(ApiServerError::AuthProvider(provider.name.clone()));
        }
        // Templates render an unset token as an empty one.
        let token = user.token.as_ref().map(ExposeSecret::expose_secret);
        let token = token.filter(|token| !token.is_empty());
        let (mut authorization, mut plugin_pem) = (None, None);
        if let (Some(name), Some(password)) = (&user.username, &user.password) {
            authorization = Some(basic(name, password.expose_secret()));
        } else if let Some(token) = token {
            authorization = Some(bearer(token, "the kubeconfig")?);
        } else if let Some(path) = user.token_file.as_ref().map(PathBuf::from) {
            let text = fs::read_to_string(&path)
                .map_err(|source| ApiServerError::TokenFile { path: path.clone(), source })?;
            authorization = Some(bearer(&text, path.display())?);
        } else if let Some(program) = &user.exec {
            match Handle::current().block_on(exec_plugin::run(program))? {
                PluginCredentials::Token(token) => {
                    let name = program.command.as_deref().unwrap_or_default();
                    authorization = Some(bearer(&token, format_args!("the output of {name}"))?);
                }
                PluginCredentials::Certificate { certificate, key } => {
                    plugin_pem = Some([key, certificate].join("\n").into_bytes());
                }
            }
        }
        let pem = if plugin_pem.is_some() { plugin_pem } else { named_identity(user)? };
        let identity = pem.map(|pem| ClientIdentity::from_pem(&pem)).transpose()?;
        Ok(Self { authorization, identity })
    }
}

/// The header for a user and password.
fn basic(user: &str, password: &str) -> HeaderValue {
    secret(&format!("Basic {}", to_base64(format!("{user}:{password}"))))
}

/// The header for a token, without the whitespace around it.
fn bearer(text: &str, source: impl Display) -> Result<HeaderValue, ApiServerError> {
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(ApiServerError::Token(source.to_string()));
    }
    Ok(secret(&format!("Bearer {token}")))
}

/// A header that `Debug` does not show.
fn secret(value: &str) -> HeaderValue {
    let mut value = HeaderValue::from_str(value).expect("it is visible ASCII");
    value.set_sensitive(true);
    value
}

/// The client certificate and key that `user` names, as PEM.
fn named_identity(user: &AuthInfo) -> Result<Option<Vec<u8>>, ApiServerError> {
    let certificate = user.client_certificate_data.as_deref();
    let certificate =
        pem("client-certificate-data", certificate, user.client_certificate.as_ref())?;
    let key = user.client_key_data.as_ref().map(ExposeSecret::expose_secret);
    match (certificate, pem("client-key-data", key, user.client_key.as_ref())?) {
        (Some(certificate), Some(key)) => Ok(Some([key, certificate].join(&b'\n'))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(ApiServerError::HalfIdentity("client-certificate", "client-key")),
        (None, Some(_)) => Err(ApiServerError::HalfIdentity("client-key", "client-certificate")),
    }
}

/// The content of `field`, or else of the file.
fn pem(
    field: &'static str,
    data: Option<&str>,
    file: Option<&String>,
) -> Result<Option<Vec<u8>>, ApiServerError> {
    if let Some(data) = data {
        let data = serde_json::from_value(Value::String(data.to_owned()));
        let ByteString(pem) =
            data.map_err(|source| ApiServerError::ClientData { field, source })?;
        return Ok(Some(pem));
    }
    let read = |path: PathBuf| {
        fs::read(&path).map_err(|source| ApiServerError::ClientFile { path, source })
    };
    file.map(PathBuf::from).map(read).transpose()
}

fn to_base64(text: String) -> String {
    match serde_json::to_value(ByteString(text.into_bytes())) {
        Ok(Value::String(data)) => data,
        Ok(_) | Err(_) => unreachable!("a ByteString serializes as a string"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error_chain::ErrorChain;
    use serde_json::json;

    fn load(user: &Value) -> Result<Credentials, String> {
        let user: AuthInfo = serde_json::from_value(user.clone()).unwrap();
        Credentials::load(&user).map_err(|error| ErrorChain(&error).to_string())
    }

    /// The header that is sent for this user.
    fn header(user: &Value) -> Option<String> {
        let value = load(user).unwrap().authorization?;
        assert!(!format!("{value:?}").contains("YWRh"), "Debug shows a secret");
        Some(value.to_str().unwrap().to_owned())
    }

    #[test]
    fn password_precedes_token_and_token_precedes_its_file() {
        let mut user = json!({
            "username": "ada", "password": "pass:wörd", "token": " abc\n", "tokenFile": "/nowhere",
        });
        assert_eq!(header(&user).as_deref(), Some("Basic YWRhOnBhc3M6d8O2cmQ="));
        user["password"].take();
        assert_eq!(header(&user).as_deref(), Some("Bearer abc"));
        user["token"] = "".into();
        assert!(load(&user).unwrap_err().contains("/nowhere"), "an empty token counts as none");
        user["tokenFile"].take();
        assert_eq!(header(&user), None);
    }

    #[test]
    fn half_or_malformed_client_certificate_is_refused() {
        let hello = "aGVsbG8K";
        for (user, cause) in [
            (json!({ "client-certificate-data": hello }), "names a client-certificate and no"),
            (json!({ "client-key-data": hello }), "names a client-key and no"),
            (json!({ "client-key-data": "?" }), "client-key-data is not base64"),
            (json!({ "client-certificate": "/nowhere" }), "from /nowhere"),
            (json!({ "client-certificate-data": hello, "client-key-data": hello }), "not PEM"),
        ] {
            let error = load(&user).unwrap_err();
            assert!(error.contains(cause), "{cause:?} is not in {error}");
        }
    }
}
