//! The flags for etcd.
//!
//! Pure. Start with [`EtcdFlags`].

use clap::Args;

/// The flags for etcd, as typed.
#[derive(Debug, Default, Clone, Args)]
pub struct EtcdFlags {
    /// Members of the cluster, as URLs: https://etcd-0:2379,https://etcd-1:2379
    #[arg(
        long = "etcd-endpoints",
        env = "BATON_ETCD_ENDPOINTS",
        value_name = "URLS",
        help_heading = "etcd"
    )]
    pub endpoints: Option<String>,
    /// Prefix of the keys PREFIX/ELECTION/record and PREFIX/ELECTION/term [default:
    /// /baton/NAMESPACE, without a namespace /baton]
    #[arg(
        long = "etcd-prefix",
        env = "BATON_ETCD_PREFIX",
        value_name = "PREFIX",
        help_heading = "etcd"
    )]
    pub prefix: Option<String>,
    /// User and password, as user:password in one line
    #[arg(
        long = "etcd-user-file",
        env = "BATON_ETCD_USER_FILE",
        value_name = "FILE",
        help_heading = "etcd"
    )]
    pub user_file: Option<String>,
    /// CA certificates of the members, in PEM; required for https://
    #[arg(
        long = "etcd-ca-file",
        env = "BATON_ETCD_CA_FILE",
        value_name = "FILE",
        help_heading = "etcd"
    )]
    pub ca_file: Option<String>,
    /// Client certificate, in PEM
    #[arg(
        long = "etcd-cert-file",
        env = "BATON_ETCD_CERT_FILE",
        value_name = "FILE",
        help_heading = "etcd"
    )]
    pub cert_file: Option<String>,
    /// Key of the client certificate, in PEM
    #[arg(
        long = "etcd-key-file",
        env = "BATON_ETCD_KEY_FILE",
        value_name = "FILE",
        help_heading = "etcd"
    )]
    pub key_file: Option<String>,
}
