//! Files with credentials, and what servers send about them: tokens, certificates, kubeconfigs,
//! ZooKeeper's file and SASL challenges.
//!
//! The first byte selects one of these formats for the rest.

use baton::config::Cluster;
use baton::store::kubernetes::LeaseStore;
use serde_json::{Value, json};
use std::error::Error;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use zookeeper_client::credentials::Credential;
use zookeeper_client::digest_md5::Exchange;
use zookeeper_client::tls::{ClientCertificate, TlsFiles};

thread_local! {
    static HOME: Home = Home::new();
}

/// A directory for the files.
struct Home {
    runtime: Runtime,
    directory: TempDir,
}

impl Home {
    fn new() -> Self {
        let memory = Some(Path::new("/dev/shm")).filter(|memory| memory.is_dir());
        let directory = memory
            .map_or_else(tempfile::tempdir, tempfile::tempdir_in)
            .expect("a temporary directory");
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { runtime, directory }
    }

    fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, content).expect("the directory is writable");
        path
    }

    /// Connects with this kubeconfig, or returns the error with its causes.
    fn connect(&self, kubeconfig: &[u8]) -> Result<(), String> {
        let cluster =
            Cluster::Kubeconfig { path: Some(self.write("kubeconfig", kubeconfig)), context: None };
        let (call, retry) = (Duration::from_mins(1), Duration::from_secs(2));
        let election = "orders".parse().expect("a name");
        let connected =
            self.runtime.block_on(LeaseStore::connect(&cluster, None, &election, call, retry));
        connected.map(drop).map_err(|error| error_chain(&error))
    }
}

pub(super) fn read(bytes: &[u8]) {
    let Some((kind, content)) = bytes.split_first() else { return };
    HOME.with(|home| match kind % 7 {
        0 => token(home, content),
        1 => authority(home, content),
        2 => certificate(home, content),
        3 => kubeconfig(home, content),
        4 => zookeeper_file(content),
        5 => challenge(content),
        _ => zookeeper_certificates(home, content),
    });
}

/// A token is one line of visible ASCII. Error messages never contain it.
fn token(home: &Home, content: &[u8]) {
    let path = home.write("token", content);
    let result = home.connect(&kubeconfig_with(&json!({}), &json!({ "tokenFile": path })));
    let text = std::str::from_utf8(content).map(str::trim).unwrap_or_default();
    let is_token = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    assert_eq!(result.is_ok(), is_token, "{result:?}");
    if let Err(error) = result {
        assert!(text.len() < 8 || !error.contains(text), "the error contains the token: {error}");
    }
}

/// Without a certificate in the file, connecting fails.
fn authority(home: &Home, content: &[u8]) {
    let path = home.write("ca.crt", content);
    let result = home.connect(&kubeconfig_with(
        &json!({ "certificate-authority": path }),
        &json!({ "token": "t" }),
    ));
    let has_certificate = content.windows(10).any(|window| window == b"-----BEGIN");
    assert!(result.is_err() || has_certificate, "accepted a file without a certificate");
}

fn certificate(home: &Home, content: &[u8]) {
    let (certificate, key) = content.split_at(content.len() / 2);
    let (certificate, key) = (home.write("own.crt", certificate), home.write("own.key", key));
    let user = json!({ "client-certificate": certificate, "client-key": key });
    drop(home.connect(&kubeconfig_with(&json!({}), &user)));
}

/// Skips kubeconfigs that could run a program (`exec`) or read a device.
fn kubeconfig(home: &Home, content: &[u8]) {
    let names_a_program = [&b"exec"[..], b"\\", b"dev", b"proc"];
    if names_a_program.iter().any(|word| content.windows(word.len()).any(|window| window == *word))
    {
        return;
    }
    drop(home.connect(content));
}

/// Each line becomes one credential unchanged, and `Debug` never shows its secret.
fn zookeeper_file(content: &[u8]) {
    let Ok(text) = std::str::from_utf8(content) else { return };
    let Ok(all) = Credential::parse_all(text) else { return };
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(all.len(), lines.len());
    for (credential, line) in all.iter().zip(lines) {
        let written = match credential {
            Credential::Plain { scheme, secret } => [scheme.as_bytes(), b":", secret].concat(),
            Credential::Sasl { user, password } => format!("sasl:{user}:{password}").into_bytes(),
        };
        assert_eq!(written, line.as_bytes());
        assert_eq!(format!("{credential:?}"), format!("{}:…", credential.scheme()));
    }
}

/// The response quotes the user, realm and nonce correctly, whatever characters they contain. A
/// server proves nothing by repeating the challenge or the response.
fn challenge(content: &[u8]) {
    let (user, challenge) = content.split_at(content.len().min(4));
    let Ok(user) = std::str::from_utf8(user) else { return };
    let Ok(exchange) = Exchange::respond(user, "pässword", challenge, "c") else { return };
    let directives = directives(&exchange.response);
    let value = |wanted: &str| {
        directives.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
    };
    assert_eq!(value("username"), Some(user), "{}", exchange.response);
    assert_eq!(value("cnonce"), Some("c"));
    assert!(
        value("nonce").is_some() && value("response").is_some_and(|response| response.len() == 32)
    );
    assert_eq!(directives.len(), 9, "unexpected directive: {}", exchange.response);
    assert!(!exchange.response.contains("pässword") || user.contains("pässword"));
    for echoed in [challenge, exchange.response.as_bytes()] {
        assert!(exchange.verify(echoed).is_err(), "accepted an echo as proof");
    }
}

/// Parses a list of directives character by character.
fn directives(list: &str) -> Vec<(String, String)> {
    let mut characters = list.chars();
    let directive = |()| {
        let name: String = characters.by_ref().take_while(|c| *c != '=').collect();
        let mut value = String::new();
        let (mut is_quoted, mut has_begun) = (false, false);
        while let Some(c) = characters.next() {
            match c {
                '"' if !has_begun => is_quoted = true,
                '"' if is_quoted => is_quoted = false,
                '\\' if is_quoted => value.extend(characters.next()),
                ',' if !is_quoted => break,
                c => value.push(c),
            }
            has_begun = true;
        }
        Some((name, value)).filter(|(name, _)| !name.is_empty())
    };
    iter::repeat(()).map_while(directive).collect()
}

fn zookeeper_certificates(home: &Home, content: &[u8]) {
    let third = content.len() / 3;
    let (authorities, rest) = content.split_at(third);
    let (certificate, key) = rest.split_at(third);
    let files = TlsFiles {
        authorities: home.write("authorities", authorities),
        client: Some(ClientCertificate {
            certificate: home.write("certificate", certificate),
            key: home.write("key", key),
        }),
    };
    match files.load() {
        Ok(_) => assert!(
            authorities.windows(10).any(|window| window == b"-----BEGIN"),
            "accepted a file without a certificate"
        ),
        Err(error) => assert!(!error_chain(&error).is_empty()),
    }
}

/// A kubeconfig with these fields of its cluster and user.
fn kubeconfig_with(cluster: &Value, user: &Value) -> Vec<u8> {
    let mut cluster = cluster.clone();
    cluster["server"] = json!("https://127.0.0.1:1");
    let clusters = json!([{ "name": "c", "cluster": cluster }]);
    let contexts = json!([{ "name": "c", "context": { "cluster": "c", "user": "u" } }]);
    let users = json!([{ "name": "u", "user": user }]);
    json!({ "current-context": "c", "clusters": clusters, "contexts": contexts, "users": users })
        .to_string()
        .into_bytes()
}

/// An error and its causes.
fn error_chain(error: &dyn Error) -> String {
    iter::successors(Some(error), |error| (*error).source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}
