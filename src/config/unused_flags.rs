//! Finds flags that do nothing because they belong to another store.
//!
//! Pure. Start with [`unused_flags`]. `check-config` refuses such flags, and `run` warns of them.

use crate::cli::Settings;
use crate::config::{StoreKind, non_empty};

/// A flag of another store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "--{flag} does nothing with --backend {store}, only with {owners}: remove the flag or its \
     environment variable, or pass another --backend",
    store = .store.as_str()
)]
pub struct UnusedFlag {
    flag: &'static str,
    owners: &'static str,
    store: StoreKind,
}

/// Every flag in `settings` that does not belong to `store`.
pub fn unused_flags(settings: &Settings, store: StoreKind) -> Vec<UnusedFlag> {
    let unused = owned_flags(settings)
        .into_iter()
        .filter(|(_, value, owners)| non_empty(*value).is_some() && !owners.contain(store));
    unused.map(|(flag, _, Owners(_, owners))| UnusedFlag { flag, owners, store }).collect()
}

/// The stores that a flag belongs to, and their names for messages.
#[derive(Clone, Copy)]
struct Owners(&'static [StoreKind], &'static str);

impl Owners {
    fn contain(self, kind: StoreKind) -> bool {
        self.0.contains(&kind)
    }
}

/// A flag, its value, and its owners.
type OwnedFlag<'a> = (&'static str, Option<&'a String>, Owners);

fn owned_flags(settings: &Settings) -> [OwnedFlag<'_>; 18] {
    let file = Owners(&[StoreKind::File], "file");
    let lease = Owners(&[StoreKind::Lease], "lease");
    let namespaced = Owners(
        &[StoreKind::Lease, StoreKind::ZooKeeper, StoreKind::Etcd],
        "lease, zookeeper, and etcd",
    );
    let zookeeper = Owners(&[StoreKind::ZooKeeper], "zookeeper");
    let etcd = Owners(&[StoreKind::Etcd], "etcd");
    [
        ("directory", settings.directory.as_ref(), file),
        ("namespace", settings.namespace.as_ref(), namespaced),
        ("kubeconfig", settings.kubeconfig.as_ref(), lease),
        ("context", settings.context.as_ref(), lease),
        ("lease-events", settings.lease_events.as_ref(), lease),
        ("zookeeper-servers", settings.zookeeper_servers.as_ref(), zookeeper),
        ("zookeeper-path", settings.zookeeper_path.as_ref(), zookeeper),
        ("zookeeper-tick-time", settings.zookeeper_tick_time.as_ref(), zookeeper),
        ("zookeeper-auth-file", settings.zookeeper_auth_file.as_ref(), zookeeper),
        ("zookeeper-ca-file", settings.zookeeper_ca_file.as_ref(), zookeeper),
        ("zookeeper-cert-file", settings.zookeeper_cert_file.as_ref(), zookeeper),
        ("zookeeper-key-file", settings.zookeeper_key_file.as_ref(), zookeeper),
        ("etcd-endpoints", settings.etcd.endpoints.as_ref(), etcd),
        ("etcd-prefix", settings.etcd.prefix.as_ref(), etcd),
        ("etcd-user-file", settings.etcd.user_file.as_ref(), etcd),
        ("etcd-ca-file", settings.etcd.ca_file.as_ref(), etcd),
        ("etcd-cert-file", settings.etcd.cert_file.as_ref(), etcd),
        ("etcd-key-file", settings.etcd.key_file.as_ref(), etcd),
    ]
}
