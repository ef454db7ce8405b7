//! Flags of another store than the chosen one, which do nothing.
//!
//! Pure. `check-config` refuses them; `run` ignores them, as it always did.

use crate::cli::Settings;
use crate::config::{Kind, typed};

/// A flag that the chosen store does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "--{flag} does nothing with --backend {chosen}, only with {owners}: remove the flag or its variable, or choose \
     another --backend",
    chosen = .chosen.as_str()
)]
pub struct Foreign {
    flag: &'static str,
    owners: &'static str,
    chosen: Kind,
}

/// Every flag in `settings` that belongs to another store than `chosen`.
pub fn foreign_flags(settings: &Settings, chosen: Kind) -> Vec<Foreign> {
    let flags = owned(settings)
        .into_iter()
        .filter(|(_, value, owners)| typed(*value).is_some() && !owners.has(chosen));
    flags.map(|(flag, _, Owners(_, owners))| Foreign { flag, owners, chosen }).collect()
}

/// The stores that know a flag, and how they are told.
#[derive(Clone, Copy)]
struct Owners(&'static [Kind], &'static str);

impl Owners {
    fn has(self, kind: Kind) -> bool {
        self.0.contains(&kind)
    }
}

type Owned<'a> = (&'static str, Option<&'a String>, Owners);

fn owned(settings: &Settings) -> [Owned<'_>; 11] {
    let file = Owners(&[Kind::File], "file");
    let lease = Owners(&[Kind::Lease], "lease");
    let named = Owners(&[Kind::Lease, Kind::ZooKeeper], "lease and zookeeper");
    let zookeeper = Owners(&[Kind::ZooKeeper], "zookeeper");
    [
        ("directory", settings.directory.as_ref(), file),
        ("namespace", settings.namespace.as_ref(), named),
        ("kubeconfig", settings.kubeconfig.as_ref(), lease),
        ("context", settings.context.as_ref(), lease),
        ("zookeeper-servers", settings.zookeeper_servers.as_ref(), zookeeper),
        ("zookeeper-path", settings.zookeeper_path.as_ref(), zookeeper),
        ("zookeeper-tick-time", settings.zookeeper_tick_time.as_ref(), zookeeper),
        ("zookeeper-auth-file", settings.zookeeper_auth_file.as_ref(), zookeeper),
        ("zookeeper-ca-file", settings.zookeeper_ca_file.as_ref(), zookeeper),
        ("zookeeper-cert-file", settings.zookeeper_cert_file.as_ref(), zookeeper),
        ("zookeeper-key-file", settings.zookeeper_key_file.as_ref(), zookeeper),
    ]
}
