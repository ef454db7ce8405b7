//! Real etcd for tests: one member or three, without root, on loopback, in their own folder.
//!
//! Each member has its own address (127.x.y.n), so its ports stay free between a kill and the next
//! start. Tests that only use etcd take [`Etcd::shared`], each with its own prefix. Disruptive
//! methods need `&mut`, so such tests start their own. All end with the test binary.

mod admin;
mod links;
mod settings;

use super::assets::{self, EtcdVersion};
use super::daemon::Daemon;
use super::history::{succeeds, wait_for};
use super::scratch::Scratch;
use super::zookeeper::own_address;
use crate::noise::{start_once, while_starting};
pub(crate) use admin::EtcdAdmin;
use links::{Links, PeerProxy};
use serde_json::{Value, json};
pub(crate) use settings::EtcdSettings;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long a start or an election among the members may take on a busy machine; on an idle one it
/// takes a second.
const STARTUP: Duration = Duration::from_mins(1);

const CLIENT_PORT: u16 = 21790;
const PEER_PORT: u16 = 21800;

pub(crate) struct Etcd {
    settings: EtcdSettings,
    members: Vec<Member>,
    /// Where the others reach each member.
    peers: Vec<SocketAddr>,
    links: Arc<Links>,
    folder: Scratch, // the last field: dropped after the servers that write to it
}

/// One of the members.
pub(crate) struct Member {
    pub(crate) server: Daemon,
    ip: IpAddr,
    /// In front of its peer port, if links can be cut.
    _proxy: Option<PeerProxy>,
}

impl Etcd {
    /// The single member of all tests that do not disrupt it.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Etcd> = OnceLock::new();
        start_once(&SHARED, || Self::start(EtcdSettings::default()))
    }

    /// Starts members for one test; they serve when this returns.
    pub(crate) fn start(settings: EtcdSettings) -> Self {
        let folder = Scratch::new();
        let links = Arc::<Links>::default();
        let ips: Vec<IpAddr> = (0..settings.size).map(|_| own_address()).collect();
        let proxies = ips.iter().enumerate().map(|(at, ip)| {
            let target = SocketAddr::new(*ip, PEER_PORT);
            settings.can_be_cut.then(|| PeerProxy::start(at, target, Arc::clone(&links)))
        });
        let proxies: Vec<_> = proxies.collect();
        let peers = ips.iter().zip(&proxies).map(|(ip, proxy)| {
            proxy.as_ref().map_or_else(|| SocketAddr::new(*ip, PEER_PORT), PeerProxy::address)
        });
        let peers: Vec<_> = peers.collect();
        let members = ips.iter().zip(proxies).enumerate().map(|(at, (ip, proxy))| {
            let flags = settings.flags(folder.path(), *ip, &peers, at);
            let log = folder.path().join(format!("{at}.log"));
            let server = Daemon::start(assets::etcd(settings.version), flags, &log);
            Member { server, ip: *ip, _proxy: proxy }
        });
        let mut started = Self { members: members.collect(), peers, settings, links, folder };
        started.await_serving();
        started.learn_ids();
        started
    }

    /// The folder that holds the data of each member, and its log.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn member(&mut self, at: usize) -> &mut Member {
        &mut self.members[at]
    }

    /// The address of a member for clients.
    pub(crate) fn address(&self, at: usize) -> SocketAddr {
        SocketAddr::new(self.members[at].ip, CLIENT_PORT)
    }

    /// The URL of a member for clients.
    pub(crate) fn url(&self, at: usize) -> String {
        format!("{}://{}", self.settings.scheme, self.address(at))
    }

    /// The URLs of all members.
    pub(crate) fn endpoints(&self) -> String {
        let urls: Vec<_> = (0..self.members.len()).map(|at| self.url(at)).collect();
        urls.join(",")
    }

    /// An administrator, who reads and writes through whichever member answers.
    pub(crate) fn admin(&self) -> EtcdAdmin {
        EtcdAdmin::of((0..self.members.len()).map(|at| self.url(at)).collect())
    }

    /// An administrator at this member.
    pub(crate) fn admin_at(&self, at: usize) -> EtcdAdmin {
        EtcdAdmin::of(vec![self.url(at)])
    }

    /// Waits until every member serves linearizable reads: it must be in a quorum, not only run.
    pub(crate) fn await_serving(&mut self) {
        if self.settings.is_opaque {
            return self.await_listening();
        }
        for at in 0..self.members.len() {
            let admin = self.admin_at(at);
            let member = &mut self.members[at];
            while_starting("etcd", || {
                wait_for(STARTUP, "etcd serves clients", || {
                    member.server.assert_alive();
                    admin.try_read("/").ok()
                })
            });
        }
    }

    /// Waits until every member accepts connections.
    fn await_listening(&mut self) {
        for at in 0..self.members.len() {
            let address = self.address(at);
            let member = &mut self.members[at];
            while_starting("etcd", || {
                wait_for(STARTUP, "etcd accepts connections", || {
                    member.server.assert_alive();
                    std::net::TcpStream::connect(address).ok()
                })
            });
        }
    }

    /// Kills every member, then restarts each.
    pub(crate) fn restart(&mut self) {
        for member in &mut self.members {
            member.server.kill();
        }
        for member in &mut self.members {
            member.server.restart();
        }
        self.await_serving();
    }

    /// Replaces a member and its data by a new one at the same address.
    pub(crate) fn replace(&mut self, at: usize) {
        let id = self.ids()[&at].to_string();
        self.members[at].server.kill();
        fs::remove_dir_all(self.folder().join(at.to_string())).expect("the folder is ours");
        let admin = self.admin();
        let peer = format!("http://{}", self.peers[at]);
        for (path, order) in [
            ("/v3/cluster/member/remove", json!({ "ID": id })),
            ("/v3/cluster/member/add", json!({ "peerURLs": [peer] })),
        ] {
            // The members refuse while they elect a leader.
            succeeds(STARTUP, path, || admin.try_call(path, &order));
        }
        let ip = self.members[at].ip;
        let mut flags = self.settings.flags(self.folder.path(), ip, &self.peers, at);
        flags.push("--initial-cluster-state=existing".to_owned());
        let log = self.folder().join(format!("{at}.log"));
        let program = assets::etcd(self.settings.version);
        self.members[at].server = Daemon::start(program, flags, &log);
        self.await_serving();
        self.learn_ids();
    }

    /// Restarts a member as another version.
    pub(crate) fn change_version(&mut self, at: usize, version: EtcdVersion) {
        self.members[at].server.replace(assets::etcd(version));
        self.await_serving();
    }

    /// The version that a member reports.
    pub(crate) fn version(&self, at: usize) -> String {
        let status = self.admin_at(at).call("/v3/maintenance/status", &json!({}));
        status["version"].as_str().expect("it is text").to_owned()
    }

    /// Writes a backup of a single member.
    pub(crate) fn back_up(&self) {
        let backup = self.folder().join("backup.db").display().to_string();
        self.etcdctl(&["snapshot", "save", &backup]);
    }

    /// Restores that backup, with these flags of `etcdutl snapshot restore`.
    pub(crate) fn restore(&mut self, flags: &[&str]) {
        self.members[0].server.kill();
        let data = self.folder().join("0");
        fs::remove_dir_all(&data).expect("the folder is ours");
        let peer = format!("http://{}", self.peers[0]);
        let mut etcdutl = Command::new(assets::etcdutl());
        etcdutl.env_clear().args(["snapshot", "restore"]).arg(self.folder().join("backup.db"));
        etcdutl.arg(format!("--data-dir={}", data.display())).arg("--name=0");
        etcdutl.arg(format!("--initial-cluster=0={peer}"));
        etcdutl.arg(format!("--initial-advertise-peer-urls={peer}")).args(flags);
        let ran = etcdutl.output().expect("the program is built");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        self.restart();
    }

    /// The id of the cluster.
    pub(crate) fn cluster_id(&self) -> String {
        let status = self.admin().call("/v3/maintenance/status", &json!({}));
        status["header"]["cluster_id"].as_str().expect("it is text").to_owned()
    }

    /// The index of the leader, once there is one that a quorum follows.
    pub(crate) fn leader(&self) -> usize {
        wait_for(STARTUP, "the members have a leader", || {
            (0..self.members.len()).find(|at| {
                let status = self.admin_at(*at).try_call("/v3/maintenance/status", &json!({}));
                status.is_ok_and(|status| status["leader"] == status["header"]["member_id"])
            })
        })
    }

    /// The indexes of the followers.
    pub(crate) fn followers(&self) -> Vec<usize> {
        let leader = self.leader();
        (0..self.members.len()).filter(|at| *at != leader).collect()
    }

    /// Makes the next member the leader. The members may refuse while they elect one.
    pub(crate) fn move_leader(&self) {
        let leader = self.leader();
        let next = self.ids()[&((leader + 1) % self.members.len())];
        let order = json!({ "targetID": next.to_string() });
        self.admin_at(leader).try_call("/v3/maintenance/transfer-leadership", &order).ok();
    }

    /// Partitions a member from the others. Its clients stay connected to it.
    pub(crate) fn cut_off(&self, at: usize) {
        self.links.cut_off(at);
    }

    /// Ends the partition.
    pub(crate) fn heal(&self, at: usize) {
        self.links.heal(at);
    }

    /// The ids of the members, by index.
    fn ids(&self) -> BTreeMap<usize, u64> {
        let list = self.admin().call("/v3/cluster/member/list", &json!({}));
        let id = |member: &Value| {
            let name: usize = member["name"].as_str()?.parse().ok()?;
            Some((name, member["ID"].as_str()?.parse().ok()?))
        };
        list["members"].as_array().into_iter().flatten().filter_map(id).collect()
    }

    fn learn_ids(&self) {
        if self.settings.can_be_cut {
            self.links.learn(self.ids());
        }
    }

    /// Runs `etcdctl` and returns its output; panics if it fails.
    pub(crate) fn etcdctl(&self, arguments: &[&str]) -> String {
        self.etcdctl_with_input(arguments, "")
    }

    /// The same, with this text as its standard input.
    pub(crate) fn etcdctl_with_input(&self, arguments: &[&str], input: &str) -> String {
        let mut etcdctl = Command::new(assets::etcdctl());
        etcdctl.env_clear().arg(format!("--endpoints={}", self.endpoints()));
        etcdctl.args(&self.settings.etcdctl_flags).args(arguments);
        etcdctl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = etcdctl.spawn().expect("the program is built");
        let mut stdin = running.stdin.take().expect("it is piped");
        stdin.write_all(input.as_bytes()).expect("it reads its input");
        drop(stdin);
        let ran = running.wait_with_output().expect("it is our child");
        assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).expect("it prints text")
    }

    /// How many sessions hold or await a lock: each has a key below it.
    pub(crate) fn sessions(&self, lock: &str) -> usize {
        let keys = self.etcdctl(&["get", "--prefix", "--keys-only", &format!("{lock}/")]);
        keys.lines().filter(|line| !line.is_empty()).count()
    }
}
