//! The settings of a cluster: the flags of its members.

use super::{CLIENT_PORT, PEER_PORT};
use crate::rig::assets::EtcdVersion;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

#[derive(Clone)]
pub(crate) struct EtcdSettings {
    pub(crate) version: EtcdVersion,
    /// How many members.
    pub(crate) size: usize,
    /// Whether members can be cut off from the others.
    pub(crate) can_be_cut: bool,
    /// Whether each write waits for the disk. Only tests of slow disks need it.
    pub(crate) waits_for_disk: bool,
    /// `http`, or `https` with the certificate in the flags.
    pub(crate) scheme: &'static str,
    /// Whether the administrator of the rig cannot ask them.
    pub(crate) is_opaque: bool,
    /// More flags.
    pub(crate) flags: Vec<String>,
    /// More flags of `etcdctl`.
    pub(crate) etcdctl_flags: Vec<String>,
}

impl Default for EtcdSettings {
    fn default() -> Self {
        Self {
            version: EtcdVersion::chosen(),
            size: 1,
            can_be_cut: false,
            waits_for_disk: false,
            scheme: "http",
            is_opaque: false,
            flags: Vec::new(),
            etcdctl_flags: Vec::new(),
        }
    }
}

impl EtcdSettings {
    /// Three members that can be cut off.
    pub(crate) fn cluster() -> Self {
        Self { size: 3, can_be_cut: true, ..Self::default() }
    }

    /// One member with these flags.
    pub(crate) fn with_flags(flags: &[&str]) -> Self {
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        Self { flags, ..Self::default() }
    }

    /// The flags of the member `at`, which the others reach at its address in `peers`.
    pub(super) fn flags(
        &self,
        folder: &Path,
        ip: IpAddr,
        peers: &[SocketAddr],
        at: usize,
    ) -> Vec<String> {
        let client = format!("{}://{}", self.scheme, SocketAddr::new(ip, CLIENT_PORT));
        let members = peers.iter().enumerate().map(|(at, peer)| format!("{at}=http://{peer}"));
        let mut flags = vec![
            format!("--name={at}"),
            format!("--data-dir={}", folder.join(at.to_string()).display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls=http://{}", SocketAddr::new(ip, PEER_PORT)),
            format!("--initial-advertise-peer-urls=http://{}", peers[at]),
            format!("--initial-cluster={}", members.collect::<Vec<_>>().join(",")),
        ];
        if !self.waits_for_disk {
            flags.push("--unsafe-no-fsync".to_owned());
        }
        flags.extend(self.flags.iter().cloned());
        flags
    }
}
