//! The peers of each store, with the settings that their documentation recommends, and Baton's
//! durations.
//!
//! tests/servers/peers has the programs. Start with [`Program`].

use crate::rig::{EtcdKeys, InZooKeeper, Leases, Peer, Rig, Store, Timing, Znodes};
use std::net::SocketAddr;

/// A peer that takes part in the torture of a store.
pub(in super::super) struct Program<S: Store> {
    pub(in super::super) name: &'static str,
    /// The file that pins its version, and the text before the version.
    pub(in super::super) pinned: (&'static str, &'static str),
    /// Its settings, with the page that recommends them.
    pub(super) start: fn(&Rig<S>, &Place<'_>) -> Peer,
}

/// Where a candidate of a peer takes part.
pub(super) struct Place<'a> {
    pub(super) election: &'a str,
    pub(super) identity: &'a str,
    pub(super) proxy: SocketAddr,
}

impl Program<Leases> {
    pub(in super::super) const OF_LEASES: &'static [Self] = &[Self {
        name: "client-go",
        pinned: ("tests/servers/peers/client-go/go.mod", "k8s.io/client-go "),
        start: client_go,
    }];
}

impl Program<Znodes> {
    pub(in super::super) const OF_ZNODES: &'static [Self] = &[
        Self { name: "Curator LeaderLatch", pinned: CURATOR, start: curator_latch },
        Self { name: "Curator LeaderSelector", pinned: CURATOR, start: curator_selector },
        Self {
            name: "kazoo",
            pinned: ("tests/servers/peers/kazoo/requirements.txt", "kazoo=="),
            start: kazoo,
        },
    ];
}

impl Program<EtcdKeys> {
    pub(in super::super) const OF_ETCD_KEYS: &'static [Self] = &[Self {
        name: "concurrency.Election",
        pinned: ("tests/servers/peers/etcd-election/go.mod", "go.etcd.io/etcd/client/v3 "),
        start: etcd_election,
    }];
}

const CURATOR: (&str, &str) =
    ("tests/servers/peers/curator/pom.xml", "<artifactId>curator-recipes</artifactId><version>");

/// The durations have the same names there, and a clean stop releases (`ReleaseOnCancel`):
/// <https://pkg.go.dev/k8s.io/client-go/tools/leaderelection#LeaderElectionConfig>.
fn client_go(rig: &Rig<Leases>, place: &Place<'_>) -> Peer {
    let Timing { lease_duration, renew_deadline, retry_period, .. } = rig.timing;
    let flags = [
        format!("--lease-duration={lease_duration:?}"),
        format!("--renew-deadline={renew_deadline:?}"),
        format!("--retry-period={retry_period:?}"),
        "--release-on-cancel".to_owned(),
    ];
    let flags = flags.each_ref().map(String::as_str);
    // It creates by POST, which no Role can limit to one name.
    let access = rig.store.namespace.admin.through(place.proxy);
    Peer::client_go(&access, place.election, place.identity, &flags)
}

/// The session is as long as our lease. The listener stops the work:
/// <https://curator.apache.org/docs/recipes-leader-latch>.
fn curator_latch(rig: &Rig<Znodes>, place: &Place<'_>) -> Peer {
    in_zookeeper(rig, place, Peer::curator)
}

/// The session is as long as our lease. The adapter cancels leadership, and the selector requeues:
/// <https://curator.apache.org/docs/recipes-leader-election>.
fn curator_selector(rig: &Rig<Znodes>, place: &Place<'_>) -> Peer {
    in_zookeeper(rig, place, Peer::curator_selector)
}

/// The session is as long as our lease. The work stops unless the connection is established:
/// <https://kazoo.readthedocs.io/en/latest/basic_usage.html#kazoo-states>.
fn kazoo(rig: &Rig<Znodes>, place: &Place<'_>) -> Peer {
    in_zookeeper(rig, place, Peer::kazoo)
}

fn in_zookeeper(
    rig: &Rig<Znodes>,
    place: &Place<'_>,
    start: fn(&InZooKeeper<'_>, &str) -> Peer,
) -> Peer {
    let election = InZooKeeper {
        servers: &rig.store.servers_at(place.proxy),
        path: &format!("/peers/{}", place.election),
        session_timeout: rig.timing.lease_duration,
        folder: rig.folder(),
    };
    start(&election, place.identity)
}

/// The session is as long as our lease, and the work stops when it ends:
/// <https://pkg.go.dev/go.etcd.io/etcd/client/v3/concurrency#Session.Done>.
fn etcd_election(rig: &Rig<EtcdKeys>, place: &Place<'_>) -> Peer {
    let prefix = format!("{}/peers/{}", rig.store.prefix(), place.election);
    let log = rig.folder().join(format!("{}.log", place.identity));
    let endpoints = format!("http://{}", place.proxy);
    Peer::etcd_election(&endpoints, &prefix, place.identity, rig.timing.lease_duration, log)
}
