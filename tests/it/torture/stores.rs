//! The stores of the torture: their servers, and what only a server or a stranger can do to them.
//!
//! Start with [`Tortured`]. Each store has a server of the run's own.

use super::fault::Backend;
use super::peers::Program;
use crate::rig::{
    ApiServer, Delay, Disk, ELECTIONS, Ensemble, Etcd, EtcdKeys, EtcdSettings, Files, Leases,
    Settings, Start, Store, Timing, Znodes,
};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// How long each write to a slow disk takes: far less than a call may take.
const SLOW: Duration = Duration::from_millis(300);

/// The holder that a stranger writes.
const STRANGER: &str = "stranger";

/// A store that can be tortured. A method that returns false, or nothing, could not act.
pub(super) trait Tortured: Store + Sized + 'static {
    const BACKEND: Backend;
    /// Short, so that many terms fit, and with promises that outlast a second signal where they
    /// can.
    const TIMING: Timing;
    /// The peers of this store.
    const PEERS: &'static [Program<Self>] = &[];
    type Server;

    /// Starts a server and an empty store on it.
    fn serve() -> (Self::Server, Self);

    /// The address that a proxy is put in front of.
    fn address(server: &Self::Server) -> Option<SocketAddr>;

    /// Makes a candidate use the store through a proxy.
    fn through<'a>(&self, start: Start<'a, Self>, proxy: SocketAddr) -> Start<'a, Self>;

    fn pause(server: &mut Self::Server) -> bool;
    fn resume(server: &mut Self::Server);
    fn kill(server: &mut Self::Server);
    /// Starts it again, and returns once it serves.
    fn restart(server: &mut Self::Server);

    /// Slows the disk that the server, or each of these candidates, writes to.
    fn slow_disk(_server: &mut Self::Server, _candidates: &[u32]) -> Vec<Delay> {
        Vec::new()
    }

    fn fill_disk(_server: &mut Self::Server) -> bool {
        false
    }

    /// Frees the disk. Returns whether it was still full.
    fn free_disk(_server: &mut Self::Server) -> bool {
        false
    }

    fn revoke_rights(&self) -> bool {
        false
    }

    fn grant_rights(&self) {}

    /// Adds a label to the record.
    fn label(&self, _election: &str) -> bool {
        false
    }

    /// Replaces the holder in the record.
    fn usurp(&self, _election: &str) -> bool {
        false
    }
}

impl Tortured for Leases {
    const BACKEND: Backend = Backend::Lease;
    const TIMING: Timing = Timing::of_ms(6000, 4400, 500, 1600);
    const PEERS: &'static [Program<Self>] = Program::OF_LEASES;
    type Server = ApiServer;

    fn serve() -> (ApiServer, Self) {
        let server = ApiServer::with_disk();
        let store = Self::on(&server);
        (server, store)
    }

    fn address(server: &ApiServer) -> Option<SocketAddr> {
        Some(server.address())
    }

    fn through<'a>(&self, start: Start<'a, Self>, proxy: SocketAddr) -> Start<'a, Self> {
        start.by(&self.account.access.through(proxy))
    }

    fn pause(server: &mut ApiServer) -> bool {
        server.server.pause();
        true
    }

    fn resume(server: &mut ApiServer) {
        server.server.resume();
    }

    fn kill(server: &mut ApiServer) {
        server.server.kill();
    }

    fn restart(server: &mut ApiServer) {
        server.restart();
    }

    fn slow_disk(server: &mut ApiServer, _candidates: &[u32]) -> Vec<Delay> {
        vec![Delay::of_all_threads(server.etcd.pid(), "fdatasync", SLOW)]
    }

    fn revoke_rights(&self) -> bool {
        self.account.revoke();
        true
    }

    fn grant_rights(&self) {
        self.account.grant();
    }

    fn label(&self, election: &str) -> bool {
        let label = json!({ "metadata": { "labels": { "edited-by": STRANGER } } });
        let unlabel = json!({ "metadata": { "labels": { "edited-by": null } } });
        let admin = &self.namespace.admin;
        [label, unlabel].iter().all(|patch| admin.patch(election, patch).is_ok())
    }

    fn usurp(&self, election: &str) -> bool {
        let patch = json!({ "spec": { "holderIdentity": STRANGER } });
        self.namespace.admin.patch(election, &patch).is_ok()
    }
}

impl Tortured for Znodes {
    const BACKEND: Backend = Backend::ZooKeeper;
    const TIMING: Timing = Timing::of_ms(6000, 4400, 500, 1600);
    const PEERS: &'static [Program<Self>] = Program::OF_ZNODES;
    type Server = Ensemble;

    fn serve() -> (Ensemble, Self) {
        let server = Ensemble::start(Settings::default());
        let store = Self::on(&server, &server.connect_string());
        (server, store)
    }

    fn address(server: &Ensemble) -> Option<SocketAddr> {
        Some(server.address(0))
    }

    fn through<'a>(&self, start: Start<'a, Self>, proxy: SocketAddr) -> Start<'a, Self> {
        start.flag("--zookeeper-servers", self.servers_at(proxy))
    }

    fn pause(server: &mut Ensemble) -> bool {
        server.member(0).server.pause();
        true
    }

    fn resume(server: &mut Ensemble) {
        server.member(0).server.resume();
    }

    fn kill(server: &mut Ensemble) {
        server.member(0).server.kill();
    }

    fn restart(server: &mut Ensemble) {
        server.member(0).restart();
    }
}

impl Tortured for EtcdKeys {
    const BACKEND: Backend = Backend::Etcd;
    const TIMING: Timing = Timing::of_ms(5000, 3800, 400, 1600);
    const PEERS: &'static [Program<Self>] = Program::OF_ETCD_KEYS;
    type Server = Etcd;

    fn serve() -> (Etcd, Self) {
        let server = Etcd::start(EtcdSettings { waits_for_disk: true, ..EtcdSettings::default() });
        let store = Self::on(&server);
        (server, store)
    }

    fn address(server: &Etcd) -> Option<SocketAddr> {
        Some(server.address(0))
    }

    fn through<'a>(&self, start: Start<'a, Self>, proxy: SocketAddr) -> Start<'a, Self> {
        start.flag("--etcd-endpoints", format!("http://{proxy}"))
    }

    fn pause(server: &mut Etcd) -> bool {
        server.member(0).server.pause();
        true
    }

    fn resume(server: &mut Etcd) {
        server.member(0).server.resume();
    }

    fn kill(server: &mut Etcd) {
        server.member(0).server.kill();
    }

    fn restart(server: &mut Etcd) {
        server.member(0).server.restart();
        server.await_serving();
    }

    fn slow_disk(server: &mut Etcd, _candidates: &[u32]) -> Vec<Delay> {
        vec![Delay::of_all_threads(server.member(0).server.pid(), "fdatasync", SLOW)]
    }
}

/// A directory on a small disk of its own. There is no server: its state is what a fault changes.
pub(super) struct SmallDisk {
    disk: Disk,
    directory: PathBuf,
    /// The locks of the elections while the store is paused.
    locks: Vec<File>,
    _folder: TempDir,
}

impl SmallDisk {
    fn away(&self) -> PathBuf {
        self.directory.with_extension("away")
    }
}

impl Tortured for Files {
    const BACKEND: Backend = Backend::File;
    const TIMING: Timing = Timing::of_ms(3000, 2200, 250, 400);
    type Server = SmallDisk;

    fn serve() -> (SmallDisk, Self) {
        let folder = tempfile::tempdir().expect("temporary folders can be made");
        let disk = Disk::mount(folder.path(), "size=256k");
        let directory = disk.path.join("store");
        fs::create_dir(&directory).expect("the disk is new");
        let store = Self::at(&directory);
        (SmallDisk { disk, directory, locks: Vec::new(), _folder: folder }, store)
    }

    fn address(_server: &SmallDisk) -> Option<SocketAddr> {
        None
    }

    fn through<'a>(&self, start: Start<'a, Self>, _proxy: SocketAddr) -> Start<'a, Self> {
        start
    }

    /// Takes each lock that is free. A candidate that is paused may hold one.
    fn pause(server: &mut SmallDisk) -> bool {
        let paths = ELECTIONS.iter().map(|election| server.directory.join(election).join("lock"));
        let locks = paths.filter_map(|path| File::open(path).ok());
        server.locks = locks.filter(|lock| lock.try_lock().is_ok()).collect();
        !server.locks.is_empty()
    }

    fn resume(server: &mut SmallDisk) {
        server.locks.clear();
    }

    /// Moves the directory away.
    fn kill(server: &mut SmallDisk) {
        fs::rename(&server.directory, server.away()).expect("the disk is ours");
    }

    fn restart(server: &mut SmallDisk) {
        fs::rename(server.away(), &server.directory).expect("the disk is ours");
    }

    fn slow_disk(_server: &mut SmallDisk, candidates: &[u32]) -> Vec<Delay> {
        candidates.iter().map(|pid| Delay::of_all_threads(*pid, "fsync,fdatasync", SLOW)).collect()
    }

    fn fill_disk(server: &mut SmallDisk) -> bool {
        server.disk.fill();
        true
    }

    fn free_disk(server: &mut SmallDisk) -> bool {
        let probe = server.disk.path.join("probe");
        let is_full = fs::write(&probe, [0; 4096]).is_err();
        fs::remove_file(&probe).ok();
        server.disk.free();
        is_full
    }

    fn usurp(&self, election: &str) -> bool {
        let Ok(lock) = File::open(self.directory().join(election).join("lock")) else {
            return false;
        };
        if lock.try_lock().is_err() {
            return false;
        }
        let (path, draft) = (self.record_path(election), self.directory().join(STRANGER));
        let Ok(text) = fs::read(&path) else { return false };
        let mut record: Value = serde_json::from_slice(&text).expect("a record is JSON");
        record["holderIdentity"] = STRANGER.into();
        fs::write(&draft, record.to_string()).and_then(|()| fs::rename(&draft, &path)).is_ok()
    }
}
