//! Why the configured API server cannot be used.
//!
//! Pure. Start with [`ApiServerError`].

pub use super::exec_plugin::ExecPluginError;
use super::tls::TlsError;
use kube::config::{InClusterError, KubeconfigError};
use kube::core::request::Error as RequestError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Where Kubernetes mounts the service account of a Pod.
pub(super) const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Why the API server cannot be used, or the credentials cannot be renewed.
#[derive(Debug, thiserror::Error)]
pub enum ApiServerError {
    /// The Pod has no usable service account.
    #[error(
        "this is a Pod (KUBERNETES_SERVICE_HOST is set), but its service account cannot be used: \
         mount its token (automountServiceAccountToken: true, or a projected volume at \
         {SERVICE_ACCOUNT})"
    )]
    InCluster(#[source] InClusterError),
    /// There is no usable kubeconfig.
    #[error(
        "there is no usable kubeconfig: pass --kubeconfig FILE and --context NAME, or set \
         KUBECONFIG, as for kubectl"
    )]
    Kubeconfig(#[source] KubeconfigError),
    /// The server's address is not a URL of an API server.
    #[error(
        "{0} is not the address of an API server: in the kubeconfig, the cluster's server must \
         start with https://"
    )]
    Server(String),
    /// The kubeconfig now names another API server.
    #[error(
        "the kubeconfig now names {current}, but this election is held at {pinned}: restart Baton \
         to use the new address"
    )]
    AddressChanged {
        /// The address of the election.
        pinned: String,
        /// The address in the kubeconfig.
        current: String,
    },
    /// The certificate authority's bundle is empty.
    #[error(
        "the certificate authority's bundle holds no certificate: it must be PEM, starting with \
         -----BEGIN CERTIFICATE-----"
    )]
    NoCertificate,
    /// The configuration names a proxy, which this client does not support.
    #[error(
        "the proxy {0} is not supported: unset HTTPS_PROXY, or remove proxy-url from the kubeconfig"
    )]
    Proxy(String),
    /// The kubeconfig has a legacy auth provider.
    #[error(
        "the kubeconfig's auth-provider {0:?} is not supported (kubectl removed it in 1.26): use \
         an exec plugin, such as kubelogin or gke-gcloud-auth-plugin"
    )]
    AuthProvider(String),
    /// The token file is unreadable.
    #[error("cannot read the token file {}", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The token cannot be sent as a bearer token.
    #[error(
        "the bearer token in {0} cannot be sent: it must be one line of visible ASCII characters"
    )]
    Token(String),
    /// The file of the client certificate or of its key is unreadable.
    #[error("cannot read the client certificate or its key from {}", path.display())]
    ClientFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The client certificate or its key in the kubeconfig is not base64.
    #[error("the kubeconfig's {field} is not base64")]
    ClientData {
        /// The field.
        field: &'static str,
        /// The cause.
        source: serde_json::Error,
    },
    /// Only the client certificate, or only its key.
    #[error("the kubeconfig names a {0} and no {1}: a client certificate needs both")]
    HalfIdentity(&'static str, &'static str),
    /// The exec plugin returned no credentials.
    #[error("the kubeconfig's exec plugin returned no credentials")]
    ExecPlugin(#[from] ExecPluginError),
    /// The certificates are invalid.
    #[error("the certificates for the API server cannot be used")]
    Tls(#[from] TlsError),
    /// The users or groups to impersonate are invalid.
    #[error("the kubeconfig's fields that start with as- cannot be sent")]
    Impersonation(#[source] kube::Error),
    /// The disk did not answer.
    #[error(
        "the kubeconfig, or a file that it or the service account names, was not read within \
         {0:?}: check whether the disk responds"
    )]
    TimedOut(Duration),
}

/// Why a request was answered by nothing but a refusal of our credentials.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The request is malformed, by a bug of Baton.
    #[error("the request cannot be built")]
    Request(#[source] RequestError),
    /// There are no credentials yet.
    #[error("there are no credentials yet, so the API server was not called")]
    NoCredentials(#[source] ApiServerError),
    /// The credentials were refused, and could not be replaced.
    #[error("the API server rejected our credentials (401), and there are no others")]
    Rejected(#[source] ApiServerError),
}
