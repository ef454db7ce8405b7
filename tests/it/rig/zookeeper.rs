//! Real ZooKeeper servers for tests: standalone or an ensemble, without root, on loopback, in their
//! own folder.
//!
//! Each ensemble has its own addresses (127.x.y.n), so its ports stay free between a kill and the
//! next start. Tests that only use a server take [`Ensemble::shared`], each with its own path.
//! Disruptive methods need `&mut`, so such tests start their own. All end with the test binary.

mod admin;
mod counter;
mod session_stripper;
mod settings;
mod tests;

use super::daemon::Daemon;
use super::history::{eventually, wait_for};
use super::proxy::{Direction, Flow, Proxy};
use super::scratch::Scratch;
use crate::noise::{start_once, while_starting};
pub(crate) use admin::Admin;
pub(crate) use session_stripper::strip_sessions;
pub(crate) use settings::Settings;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a start or an election among the servers may take on a busy machine; on an idle one it
/// takes a second.
const STARTUP: Duration = Duration::from_mins(1);
/// How long a server may take to answer a four-letter command.
const ANSWER: Duration = Duration::from_secs(1);

const CLIENT_PORT: u16 = 21810;
/// The port for TLS clients, if the settings enable it.
pub(crate) const SECURE_PORT: u16 = 21820;
const QUORUM_PORT: u16 = 22880;
const ELECTION_PORT: u16 = 23880;

/// Where fetch.sh installs the server.
const JARS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/.cache/zookeeper");
/// An old server, which does not support container znodes.
const OLD_JARS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/.cache/zookeeper-old");

pub(crate) struct Ensemble {
    settings: Settings,
    members: Vec<Member>,
    folder: Scratch, // the last field: dropped after the servers that write to it
}

/// One of the servers.
pub(crate) struct Member {
    pub(crate) server: Daemon,
    ip: IpAddr,
    /// Proxies to the others' quorum ports, if links can be cut.
    links: Vec<Proxy>,
}

impl Ensemble {
    /// The server of all tests that do not disrupt it.
    pub(crate) fn shared() -> &'static Self {
        // Not a LazyLock: if the start fails, each test must report the cause.
        static SHARED: OnceLock<Ensemble> = OnceLock::new();
        start_once(&SHARED, || Self::start(Settings::default()))
    }

    /// Starts servers for one test; they serve when this returns.
    pub(crate) fn start(settings: Settings) -> Self {
        let jars = settings.jars();
        assert!(
            Path::new(jars).is_dir(),
            "{jars} is missing: run `make test`, or tests/servers/zookeeper/fetch.sh once (needs Maven and Java)"
        );
        let folder = Scratch::new();
        let ips: Vec<IpAddr> = (0..settings.size).map(|_| own_address()).collect();
        let members = ips.iter().enumerate().map(|(at, ip)| {
            let links = if settings.can_be_cut { links(&ips, at) } else { Vec::new() };
            let home = folder.path().join(at.to_string());
            settings.write(&home, &ips, at, &links);
            let log = folder.path().join(format!("{at}.log"));
            let server = Daemon::start(PathBuf::from("java"), settings.java(&home), &log);
            Member { server, ip: *ip, links }
        });
        let members = members.collect();
        let mut started = Self { settings, members, folder };
        started.await_serving();
        started
    }

    /// Kills every server and restarts it with other configuration lines. Returns how long they
    /// were down.
    pub(crate) fn restart_with(&mut self, lines: &[&str]) -> Duration {
        self.settings.lines = lines.iter().map(|line| (*line).to_owned()).collect();
        let ips: Vec<IpAddr> = self.members.iter().map(|member| member.ip).collect();
        for (at, member) in self.members.iter().enumerate() {
            self.settings.write(&self.folder.path().join(at.to_string()), &ips, at, &member.links);
        }
        self.restart()
    }

    /// Kills every server, then restarts each. Returns how long they were down.
    pub(crate) fn restart(&mut self) -> Duration {
        let begun = Instant::now();
        for member in &mut self.members {
            member.server.kill();
        }
        for member in &mut self.members {
            member.server.restart();
        }
        self.await_serving();
        begun.elapsed()
    }

    /// Restarts a standalone server with another sequence number for the next child of `path`.
    pub(crate) fn set_counter(&mut self, path: &str, next: i32) {
        let data = self.folder.path().join("0/data");
        // A start writes a snapshot of everything, which is then the newest.
        self.member(0).restart();
        self.member(0).server.kill();
        counter::set(&data, path, next);
        self.member(0).restart();
    }

    /// Waits until every server serves.
    pub(crate) fn await_serving(&mut self) {
        for member in &mut self.members {
            member.await_serving();
        }
    }

    pub(crate) fn member(&mut self, at: usize) -> &mut Member {
        &mut self.members[at]
    }

    /// The address of a server for clients.
    pub(crate) fn address(&self, at: usize) -> SocketAddr {
        self.members[at].address()
    }

    /// The tickTime of the servers.
    pub(crate) fn tick(&self) -> Duration {
        self.settings.tick
    }

    /// The connect string of all servers.
    pub(crate) fn connect_string(&self) -> String {
        connect_string(self.members.iter().map(Member::address))
    }

    /// Whether a server serves its clients.
    pub(crate) fn is_serving(&self, at: usize) -> bool {
        self.members[at].mode().is_some()
    }

    /// The index of the leader, once there is one.
    pub(crate) fn leader(&self) -> usize {
        let leads = |member: &Member| member.mode().is_some_and(|mode| mode == "leader");
        wait_for(STARTUP, "the servers have a leader", || self.members.iter().position(leads))
    }

    /// The indexes of the followers.
    pub(crate) fn followers(&self) -> Vec<usize> {
        let leader = self.leader();
        (0..self.members.len()).filter(|at| *at != leader).collect()
    }

    /// The sum of a counter of `mntr` over all servers.
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.members.iter().map(|member| member.count(name)).sum()
    }

    /// An administrator, who may read and write everything.
    pub(crate) fn admin(&self) -> Admin {
        self.admin_with("")
    }

    /// The same, on servers that require credentials.
    pub(crate) fn admin_with(&self, credentials: &str) -> Admin {
        Admin::of(&self.connect_string(), credentials)
    }

    /// Partitions a server from the ensemble's leader, whichever server that is. Its clients stay
    /// connected to it.
    pub(crate) fn cut_off(&self, at: usize) {
        self.members[at].set_links(Flow::Hold);
    }

    /// Ends the partition.
    pub(crate) fn heal(&self, at: usize) {
        self.members[at].set_links(Flow::Pass);
    }
}

impl Member {
    /// Waits until it serves: it must be in a quorum, not only run.
    pub(crate) fn await_serving(&mut self) {
        while_starting("a ZooKeeper server", || {
            eventually(STARTUP, "the ZooKeeper server serves", || {
                self.server.assert_alive();
                self.mode().is_some()
            });
        });
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::new(self.ip, CLIENT_PORT)
    }

    /// Kills it if it is running, starts it again, and waits until it serves.
    pub(crate) fn restart(&mut self) {
        self.server.restart();
        self.await_serving();
    }

    /// `standalone`, `leader`, or `follower`; `None` while it does not serve.
    pub(crate) fn mode(&self) -> Option<String> {
        let answer = self.ask("srvr").ok()?;
        answer.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_owned)
    }

    /// A counter of `mntr`.
    pub(crate) fn count(&self, name: &str) -> u64 {
        let answer = wait_for(STARTUP, "the server counts", || self.ask("mntr").ok());
        let count = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'));
        count
            .and_then(|count| count.parse().ok())
            .unwrap_or_else(|| panic!("mntr has no count {name}:\n{answer}"))
    }

    /// The answer to a four-letter command.
    fn ask(&self, letters: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.address(), ANSWER)?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.write_all(letters.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    fn set_links(&self, flow: Flow) {
        assert!(!self.links.is_empty(), "the settings must allow links to be cut");
        for link in &self.links {
            link.set(Direction::Requests, flow);
            link.set(Direction::Replies, flow);
        }
    }
}

/// A connect string of these addresses.
pub(crate) fn connect_string(addresses: impl Iterator<Item = SocketAddr>) -> String {
    addresses.map(|address| address.to_string()).collect::<Vec<_>>().join(",")
}

/// An unused address in 127.0.0.0/8, from this process's PID and a counter.
pub(in crate::rig) fn own_address() -> IpAddr {
    static COUNT: AtomicU32 = AtomicU32::new(1);
    let [_, _, high, low] = process::id().to_be_bytes();
    let count = u8::try_from(COUNT.fetch_add(1, Ordering::Relaxed))
        .expect("no more than 255 servers in one run");
    Ipv4Addr::new(127, high | 0x80, low, count).into()
}

/// A proxy to the quorum port of each server but this one.
fn links(addresses: &[IpAddr], own: usize) -> Vec<Proxy> {
    let others = addresses.iter().enumerate().filter(|(at, _)| *at != own);
    others.map(|(_, address)| Proxy::on(*address, SocketAddr::new(*address, QUORUM_PORT))).collect()
}
