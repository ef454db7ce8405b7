//! A chroot on ZooKeeper servers, where candidates queue by their znodes.

use super::{Store, Timing};
use crate::rig::NOISE;
use crate::rig::zookeeper::{Admin, Ensemble};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, SystemTime};
use uuid::Uuid;
use zookeeper_client::operations::Znode;

/// The pause before each poll, so that polling does not keep the servers busy.
const POLL: Duration = Duration::from_millis(50);

pub(crate) struct Znodes {
    pub(crate) admin: Admin,
    servers: String,
    chroot: String,
    tick: Duration,
}

impl Znodes {
    /// A new chroot, which candidates reach by this connect string.
    pub(crate) fn on(ensemble: &Ensemble, servers: &str) -> Self {
        Self::of(ensemble, servers, ensemble.admin())
    }

    /// A new chroot on servers that require these credentials.
    pub(crate) fn for_users(ensemble: &Ensemble, credentials: &str) -> Self {
        Self::of(ensemble, &ensemble.connect_string(), ensemble.admin_with(credentials))
    }

    fn of(ensemble: &Ensemble, servers: &str, admin: Admin) -> Self {
        let chroot = admin.create(&format!("/{}", Uuid::new_v4()), "").expect("the name is new");
        Self { admin, servers: servers.to_owned(), chroot, tick: ensemble.tick() }
    }

    /// The connect string of one address: a single server, or a proxy to it.
    pub(crate) fn servers_at(&self, address: SocketAddr) -> String {
        format!("{address}{}", self.chroot)
    }

    /// The path of an election.
    pub(crate) fn path(&self, election: &str) -> String {
        self.below(&format!("/baton/{election}"))
    }

    /// A path in this chroot.
    pub(crate) fn below(&self, path: &str) -> String {
        format!("{}{path}", self.chroot)
    }

    /// Creates the persistent znodes of that path, as an operator may.
    pub(crate) fn make_path(&self, election: &str) -> String {
        let path = self.path(election);
        let (above, _) = path.rsplit_once('/').expect("it has a parent");
        for path in [above, &path] {
            self.admin.create(path, "").expect("the administrator may");
        }
        path
    }

    /// The paths of an election's candidates, in queue order.
    pub(crate) fn queue(&self, election: &str) -> Vec<String> {
        thread::sleep(POLL);
        let path = self.path(election);
        let mut names = self.admin.children(&path).unwrap_or_default();
        names.sort_by_key(|name| name[name.len().saturating_sub(10)..].to_owned());
        names.iter().map(|name| format!("{path}/{name}")).collect()
    }

    /// The identities of an election's candidates, in queue order.
    pub(crate) fn identities(&self, election: &str) -> Vec<String> {
        let read = |path: String| self.admin.read(&path).ok();
        let queued = self.queue(election).into_iter().filter_map(read);
        queued.map(|node| String::from_utf8_lossy(&node.data).into_owned()).collect()
    }

    fn first(&self, election: &str) -> Option<(String, Znode)> {
        let first = self.queue(election).into_iter().next()?;
        let node = self.admin.read(&first).ok()?;
        Some((first, node))
    }
}

impl Store for Znodes {
    const FAST: Timing = Timing::of_ms(6000, 4000, 500, 500);
    const CALM: Timing = Timing::of_ms(9000, 6000, 1000, 1000);
    const SLOW: Timing = Timing::of_ms(10_000, 6000, 2000, 1000);
    /// Every request costs a server time, too, and it expires sessions in steps of its tick.
    const NOISE: Duration = NOISE.saturating_mul(2);

    /// A new chroot on the shared server.
    fn fresh() -> Self {
        let shared = Ensemble::shared();
        Self::on(shared, &shared.connect_string())
    }

    fn flags(&self) -> BTreeMap<&'static str, String> {
        BTreeMap::from([
            ("--backend", "zookeeper".to_owned()),
            ("--zookeeper-servers", format!("{}{}", self.servers, self.chroot)),
            ("--zookeeper-tick-time", format!("{:?}", self.tick)),
        ])
    }

    fn takeover(&self, timing: Timing) -> Duration {
        timing.lease_duration.mul_f64(1.1) + 2 * self.tick + timing.retry_period + Self::NOISE
    }

    fn holder(&self, election: &str) -> String {
        let first = self.first(election);
        first.map(|(_, node)| String::from_utf8_lossy(&node.data).into_owned()).unwrap_or_default()
    }

    /// The last ping of a session is not visible from outside, so the wait is not checked. The
    /// checker still checks the promises.
    fn written(&self, _election: &str) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }

    fn remove(&self, election: &str) {
        let (first, _) = self.first(election).expect("the queue is not empty");
        self.admin.delete(&first).expect("the znode exists");
    }
}
