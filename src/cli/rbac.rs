//! The flags of `baton rbac`.
//!
//! Pure. Start with [`Rbac`].

use clap::Args;

/// The flags of `baton rbac`.
#[derive(Debug, Clone, Args)]
pub struct Rbac {
    /// Name of the election
    #[arg(long, env = "BATON_ELECTION", value_name = "NAME")]
    pub election: String,
    /// Service account of the Pods
    #[arg(long, value_name = "NAME", required_unless_present = "etcd_user")]
    pub service_account: Option<String>,
    /// User of the candidates in etcd: prints etcdctl commands instead
    #[arg(long, value_name = "NAME", conflicts_with = "service_account")]
    pub etcd_user: Option<String>,
    /// Prefix of the keys in etcd [default: /baton/NAMESPACE, without a namespace /baton]
    #[arg(long, env = "BATON_ETCD_PREFIX", value_name = "PREFIX")]
    pub etcd_prefix: Option<String>,
    /// Service whose EndpointSlices the leader writes (--endpoint-slice of run) [default: none]
    #[arg(long, value_name = "NAME", conflicts_with = "etcd_user")]
    pub endpoint_slice: Option<String>,
    /// Add the right to record Events of the Lease (--lease-events of run)
    #[arg(long, conflicts_with = "etcd_user")]
    pub events: bool,
    /// Namespace of the Lease, Role, and service account [default: left out]
    #[arg(long, env = "BATON_NAMESPACE", value_name = "NAME")]
    pub namespace: Option<String>,
}
