//! How the API server is reached: in a Pod by its environment and service account, elsewhere by a kubeconfig.
//!
//! Touches files, environment (through kube) and nothing of the network: connecting is the first request's business.

use crate::config::Cluster;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use std::time::Duration;

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
    /// Certificates or keys that cannot be used.
    #[error("no client can be made of the certificates and credentials that were found")]
    Client(#[source] kube::Error),
}

/// A client for `cluster`, and the namespace to hold elections in.
pub(super) async fn connect(cluster: &Cluster) -> Result<(Client, String), ConnectError> {
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
    // kube 5 repeats a PUT up to 15 times by default. The machine repeats what it knows the outcome of.
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT);
    let namespace = config.default_namespace.clone();
    Ok((Client::try_from(config).map_err(ConnectError::Client)?, namespace))
}
