//! How the API server is reached: in a Pod by its environment and service account, elsewhere by a kubeconfig.
//!
//! Touches files, environment (through kube) and nothing of the network: connecting is the first request's business.

use crate::config::Cluster;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt as _;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use std::time::Duration;
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
    /// A proxy on the way to the API server.
    #[error(
        "the kubeconfig or HTTPS_PROXY names the proxy {0}, which Baton does not know how to use: take proxy-url out of the \
         kubeconfig, or unset HTTPS_PROXY"
    )]
    Proxy(String),
    /// Certificates or keys that cannot be used.
    #[error("no client can be made of the certificates and credentials that were found")]
    Client(#[source] kube::Error),
}

/// A client for `cluster`, and the namespace to hold elections in.
pub(super) async fn connect(cluster: &Cluster) -> Result<(Client, String), ConnectError> {
    let config = match cluster {
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
    if let Some(proxy) = &config.proxy_url {
        return Err(ConnectError::Proxy(proxy.to_string()));
    }
    Ok((client(&config).map_err(ConnectError::Client)?, config.default_namespace))
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
