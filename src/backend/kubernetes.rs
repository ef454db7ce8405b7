//! How the API server is reached: in a Pod by its environment and service account, elsewhere by a kubeconfig.
//!
//! Touches files and environment (through kube), runs the program that a kubeconfig may name for credentials, and does
//! nothing on the network: connecting is the first request's business. Credentials change while we live (kubelet
//! replaces a token long before it expires), so a [`Connection`] can tell that it is stale, and another is opened then.

use crate::config::Cluster;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt as _;
use kube::config::{AuthInfo, InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use secrecy::{ExposeSecret as _, SecretString};
use std::fmt::Display;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tower::{BoxError, ServiceBuilder};

/// How long a connection may take to be made; a call's own time-out may be shorter.
const CONNECT: Duration = Duration::from_secs(2);

/// Why the lease backend cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// A Pod without a usable service account.
    #[error(
        "this is a Pod (KUBERNETES_SERVICE_HOST is set), but its service account cannot be used: mount its token \
         (automountServiceAccountToken: true, or a projected volume at /var/run/secrets/kubernetes.io/serviceaccount)"
    )]
    InCluster(#[source] InClusterError),
    /// No usable kubeconfig.
    #[error("no kubeconfig can be used: pass --kubeconfig FILE and --context NAME, or set KUBECONFIG, as for kubectl")]
    Kubeconfig(#[source] KubeconfigError),
    /// An address that is none of an API server.
    #[error("{0} is no address of an API server: in the kubeconfig, let the cluster's server begin with https://")]
    Server(String),
    /// A bundle of certificates without one.
    #[error("no certificate is in the certificate authority's bundle: it must be PEM, -----BEGIN CERTIFICATE-----")]
    NoCertificate,
    /// A proxy, which we do not speak to.
    #[error(
        "API servers are reached directly, and not through {0}: unset HTTPS_PROXY, or take proxy-url out of the kubeconfig"
    )]
    Proxy(String),
    /// A token file that is not there.
    #[error("the token file {} cannot be read", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Something that no bearer token can be.
    #[error("the bearer token in {0} cannot be sent: it must be one line of visible ASCII characters")]
    Token(String),
    /// Certificates, keys or programs that give no credentials.
    #[error("no client can be made of the certificates and credentials that were found")]
    Client(#[source] kube::Error),
}

/// The way to an API server, with the credentials of one moment.
pub(super) struct Connection {
    pub(super) client: Client,
    /// The namespace of the Pod, or of the kubeconfig's context.
    pub(super) namespace: String,
    token: Option<TokenFile>,
}

/// A file with a bearer token that somebody replaces from time to time.
struct TokenFile {
    path: PathBuf,
    text: String,
}

impl Connection {
    /// The way to `cluster`, with what stands in the files now.
    pub(super) async fn open(cluster: &Cluster) -> Result<Self, ConnectError> {
        let mut config = match cluster {
            Cluster::Pod => Config::incluster_env().map_err(ConnectError::InCluster)?,
            Cluster::Kubeconfig { path, context } => {
                let kubeconfig = match path {
                    Some(path) => Kubeconfig::read_from(path),
                    None => Kubeconfig::read(),
                };
                let options = KubeConfigOptions { context: context.clone(), ..Default::default() };
                let kubeconfig = kubeconfig.map_err(ConnectError::Kubeconfig)?;
                Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(ConnectError::Kubeconfig)?
            }
        };
        check(&config)?;
        let token = take_token(&mut config.auth_info)?;
        let namespace = config.default_namespace.clone();
        // A program that prints credentials is waited for here.
        let client = spawn_blocking(move || client(&config)).await.expect("nobody aborts it, and it does not panic");
        Ok(Self { client: client.map_err(ConnectError::Client)?, namespace, token })
    }

    /// Whether the token file has changed. One that cannot be read says nothing: the token may still be good.
    pub(super) fn is_stale(&self) -> bool {
        let changed = |file: &TokenFile| fs::read_to_string(&file.path).is_ok_and(|text| text != file.text);
        self.token.as_ref().is_some_and(changed)
    }
}

/// kube's own stack of layers, less its retries and its log lines, over connections that send at once.
///
/// kube repeats a PUT up to 15 times; the machine repeats what it knows the outcome of. And kube leaves Nagle's algorithm
/// on: where a TLS session is resumed, the end of the handshake and the first request are two small writes, of which
/// the second waits 40 ms for the server's delayed acknowledgement. A candidate that takes over makes just such a
/// connection, since its watch keeps the one that it had.
fn client(config: &Config) -> kube::Result<Client> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT));
    let connector = config.rustls_https_connector_with_connector(tcp)?;
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(legacy::Client::builder(TokioExecutor::new()).build(connector));
    Ok(Client::new(service, config.default_namespace.clone()))
}

/// Refuses what kube takes and fails with at each request.
fn check(config: &Config) -> Result<(), ConnectError> {
    if !matches!(config.cluster_url.scheme_str(), Some("http" | "https")) {
        return Err(ConnectError::Server(config.cluster_url.to_string()));
    }
    if config.root_cert.as_ref().is_some_and(Vec::is_empty) {
        return Err(ConnectError::NoCertificate);
    }
    match &config.proxy_url {
        Some(proxy) => Err(ConnectError::Proxy(proxy.to_string())),
        None => Ok(()),
    }
}

/// Has kube send the token that is in a file by now. Left to itself it would look there once a minute, send the line's
/// end with it, and panic over one in a kubeconfig.
fn take_token(auth: &mut AuthInfo) -> Result<Option<TokenFile>, ConnectError> {
    // A kubeconfig's token goes before its token file; an empty one is what a template leaves.
    if let Some(token) = auth.token.take().filter(|token| !token.expose_secret().is_empty()) {
        auth.token = Some(sendable(token.expose_secret(), "the kubeconfig")?);
        return Ok(None);
    }
    let Some(path) = auth.token_file.take().map(PathBuf::from) else { return Ok(None) };
    let text = fs::read_to_string(&path).map_err(|source| ConnectError::TokenFile { path: path.clone(), source })?;
    auth.token = Some(sendable(&text, path.display())?);
    Ok(Some(TokenFile { path, text }))
}

fn sendable(text: &str, place: impl Display) -> Result<SecretString, ConnectError> {
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(ConnectError::Token(place.to_string()));
    }
    Ok(token.into())
}
