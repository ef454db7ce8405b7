//! Why the API server of an election cannot be reached with what was configured.
//!
//! Pure.

pub use super::credentials::ProgramError;
use kube::config::{InClusterError, KubeconfigError};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Where Kubernetes mounts a Pod's service account.
pub(super) const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Why the lease backend cannot begin, or cannot have other credentials.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// A Pod without a usable service account.
    #[error(
        "this is a Pod (KUBERNETES_SERVICE_HOST is set), but its service account cannot be used: mount its token \
         (automountServiceAccountToken: true, or a projected volume at {SERVICE_ACCOUNT})"
    )]
    InCluster(#[source] InClusterError),
    /// No usable kubeconfig.
    #[error(
        "no kubeconfig can be used: pass --kubeconfig FILE and --context NAME, or set KUBECONFIG, as for kubectl"
    )]
    Kubeconfig(#[source] KubeconfigError),
    /// An address that is none of an API server.
    #[error(
        "{0} is no address of an API server: in the kubeconfig, let the cluster's server begin with https://"
    )]
    Server(String),
    /// A kubeconfig that leads elsewhere by now.
    #[error(
        "the kubeconfig leads to {is} now, and this election is held at {was}: start Baton anew to go there"
    )]
    Elsewhere {
        /// The address of the election.
        was: String,
        /// The address that is named now.
        is: String,
    },
    /// A bundle of certificates without one.
    #[error(
        "no certificate is in the certificate authority's bundle: it must be PEM, -----BEGIN CERTIFICATE-----"
    )]
    NoCertificate,
    /// A proxy, which we do not speak to.
    #[error(
        "API servers are reached directly, and not through {0}: unset HTTPS_PROXY, or take proxy-url out of the kubeconfig"
    )]
    Proxy(String),
    /// A way to get credentials that kubectl knows no more either.
    #[error(
        "the kubeconfig's auth-provider {0:?} is not known here, nor to kubectl since 1.26: name a program with exec, as \
         kubelogin or gke-gcloud-auth-plugin"
    )]
    AuthProvider(String),
    /// A token file that is not there.
    #[error("the token file {} cannot be read", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Something that no bearer token can be.
    #[error(
        "the bearer token in {0} cannot be sent: it must be one line of visible ASCII characters"
    )]
    Token(String),
    /// A program that gives no credentials.
    #[error("the kubeconfig's program for credentials gives none")]
    Program(#[from] ProgramError),
    /// Certificates or keys that are none.
    #[error("no client can be made of the certificates and credentials that were found")]
    Client(#[source] kube::Error),
    /// A disk that hangs.
    #[error(
        "what the kubeconfig or the service account names was not read within {0:?}: see whether their disk answers"
    )]
    Late(Duration),
}
