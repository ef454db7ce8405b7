//! A real kube-apiserver with a real etcd for tests: without root, on loopback, in its own folder.
//!
//! Tests that only use it take [`ApiServer::shared`], each with its own [`Namespace`]. Disruptive
//! methods need `&mut`, so tests that kill, pause, or count start their own server. All of them end
//! with the test binary, however it ends: see [`Daemon`] and [`Scratch`].

mod access;
mod jwt;
mod namespace;
mod tests;

use super::assets;
use super::daemon::Daemon;
use super::history::eventually;
use super::keys::{self, Authority};
use super::scratch::Scratch;
use crate::noise::{start_once, while_starting};
pub(crate) use access::Access;
use k8s_openapi::api::core::v1 as core;
use kube::api::{Api, ObjectMeta, PostParams};
pub(crate) use namespace::{Account, Namespace};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpSocket;

/// How long a start may take on a busy machine; on an idle one it takes two seconds.
const STARTUP: Duration = Duration::from_mins(1);

/// The names and addresses in the server's certificate. A proxy may listen on either address.
const REACHED_BY: [&str; 4] = ["127.0.0.1", "::1", "localhost", "kubernetes.default.svc"];

/// The default authorization mode.
const DEFAULT_AUTHORIZATION: &str = "RBAC";

pub(crate) struct ApiServer {
    pub(crate) server: Daemon,
    pub(crate) etcd: Daemon,
    port: Port,
    admin: Access,
    folder: Scratch, // the last field: dropped after the servers that write to it
}

impl ApiServer {
    /// The server of all tests that do not disrupt it.
    pub(crate) fn shared() -> &'static Self {
        // Not a LazyLock: if the start fails, each test must report the cause.
        static SHARED: OnceLock<ApiServer> = OnceLock::new();
        start_once(&SHARED, Self::start)
    }

    /// A server for one test, ready to answer.
    pub(crate) fn start() -> Self {
        // No test cuts the power, so etcd need not wait for the disk.
        Self::begin(&["--unsafe-no-fsync"])
    }

    /// The same, with an etcd that waits for its disk, as it does in production.
    pub(crate) fn with_disk() -> Self {
        Self::begin(&[])
    }

    fn begin(etcd_flags: &[&str]) -> Self {
        let folder = Scratch::new();
        let path = folder.path();
        let authority = Authority::begin(path);
        authority.server("server", &REACHED_BY);
        authority.client("admin", "system:masters");
        keys::pair(path, "accounts"); // signs tokens
        let port = Port::reserve();
        let admin = Access::of_admin(path, port.address);
        let etcd = start_etcd(path, etcd_flags);
        // An API server that finds no etcd waits a second before it tries again.
        while_starting("etcd", || {
            eventually(STARTUP, "etcd is healthy", || {
                etcd_answers(path).is_ok_and(|answer| answer.contains("true"))
            });
        });
        let server = start_server(path, port.address, DEFAULT_AUTHORIZATION);
        let mut started = Self { server, etcd, port, admin, folder };
        started.await_ready();
        started
    }

    /// Waits until it can serve from etcd. `/readyz` alone is not enough: it may report etcd's
    /// health from a moment ago, so this also reads an object.
    pub(crate) fn await_ready(&mut self) {
        while_starting("the API server", || {
            eventually(STARTUP, "the API server is ready", || {
                self.etcd.assert_alive();
                self.server.assert_alive();
                self.admin.text("/readyz").is_ok() && self.admin.lease("any").is_ok()
            });
        });
    }

    /// Kills the API server if it is running, and starts it at the same address.
    pub(crate) fn restart(&mut self) {
        self.serve(DEFAULT_AUTHORIZATION);
    }

    /// The same, but with an authorizer that admits administrators only, like a server that has not
    /// read its RBAC rules yet. [`Self::restart`] makes it read them.
    pub(crate) fn restart_without_rules(&mut self) {
        self.serve("AlwaysDeny");
    }

    /// Restarts it on another port and updates every kubeconfig. Running clients need a proxy.
    pub(crate) fn restart_on_another_port(&mut self) {
        let old = std::mem::replace(&mut self.port, Port::reserve()).address.to_string();
        let new = self.port.address.to_string();
        for file in fs::read_dir(self.folder.path()).expect("the folder is ours").flatten() {
            if file.path().extension().is_some_and(|extension| extension == "kubeconfig") {
                let text = fs::read_to_string(file.path()).expect("it was written");
                fs::write(file.path(), text.replace(&old, &new)).expect("the folder is ours");
            }
        }
        self.restart();
    }

    /// Saves the contents of etcd for [`Self::restore_snapshot`].
    pub(crate) fn save_snapshot(&mut self) {
        self.etcd.kill();
        copy(&self.folder.path().join("etcd"), &self.folder.path().join("kept"));
        self.etcd.restart();
        self.await_ready();
    }

    /// Restores the contents that [`Self::save_snapshot`] saved, as an operator does after a
    /// disaster: resource versions go back too.
    pub(crate) fn restore_snapshot(&mut self) {
        self.server.kill();
        self.etcd.kill();
        fs::remove_dir_all(self.folder.path().join("etcd")).expect("the folder is ours");
        copy(&self.folder.path().join("kept"), &self.folder.path().join("etcd"));
        self.etcd.restart();
        self.restart();
    }

    /// Replaces the certificate authority as operators do: `ca.crt` first lists both authorities.
    /// Then `between` runs, for clients to read it. Then the server uses a certificate of the new
    /// one.
    pub(crate) fn rotate_authority(&mut self, between: impl FnOnce()) {
        let (folder, next) = (self.folder.path(), self.folder.path().join("next"));
        fs::create_dir(&next).expect("it is rotated once");
        Authority::begin(&next).server("server", &REACHED_BY);
        let at = |name: &str| fs::read_to_string(next.join(name)).expect("it was issued");
        let both = self.admin.authority() + &at("ca.crt");
        fs::write(folder.join("ca.crt"), both).expect("the folder is ours");
        between();
        for file in ["server.crt", "server.key"] {
            fs::write(folder.join(file), at(file)).expect("the folder is ours");
        }
        self.restart();
    }

    /// How many requests had rejected credentials, by the server's own metrics.
    pub(crate) fn refused_credentials(&self) -> u64 {
        let metrics = self.admin.text("/metrics").expect("the administrator may");
        let attempts = metrics.lines().filter(|line| line.starts_with("authentication_attempts{"));
        let refused = attempts.filter(|line| !line.contains("result=\"success\""));
        refused
            .map(|line| {
                line.rsplit(' ')
                    .next()
                    .and_then(|count| count.parse::<u64>().ok())
                    .expect("a count")
            })
            .sum()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.port.address
    }

    /// A new, empty namespace.
    pub(crate) fn namespace(&self) -> Namespace {
        static COUNT: AtomicUsize = AtomicUsize::new(1);
        let name = format!("test-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        let namespace = core::Namespace { metadata, ..core::Namespace::default() };
        let create =
            async |client| Api::all(client).create(&PostParams::default(), &namespace).await;
        self.admin.call(create).expect("the administrator may");
        Namespace { admin: self.admin.in_namespace(&name), name }
    }

    /// How many requests for a resource it has answered, by verb (`GET`, `PUT`, `WATCH`, …), from
    /// its own metrics. A watch is counted when it ends.
    pub(crate) fn requests(&self, resource: &str) -> BTreeMap<String, u64> {
        self.count(&format!("resource=\"{resource}\""), "")
    }

    /// How many of these requests it has answered with this code.
    pub(crate) fn answers(&self, resource: &str, code: u16) -> BTreeMap<String, u64> {
        self.count(&format!("resource=\"{resource}\""), &format!("code=\"{code}\""))
    }

    fn serve(&mut self, authorization: &str) {
        self.server.kill();
        self.server = start_server(self.folder.path(), self.port.address, authorization);
        self.await_ready();
    }

    fn count(&self, resource: &str, code: &str) -> BTreeMap<String, u64> {
        let metrics = self.admin.text("/metrics").expect("the administrator may");
        let mut requests = BTreeMap::new();
        let lines = metrics.lines().filter(|line| line.starts_with("apiserver_request_total{"));
        for line in lines.filter(|line| line.contains(resource) && line.contains(code)) {
            let verb = line
                .split("verb=\"")
                .nth(1)
                .and_then(|rest| rest.split('"').next())
                .expect("it has a verb");
            let count = line
                .rsplit(' ')
                .next()
                .expect("it has a value")
                .parse::<u64>()
                .expect("it is a count");
            *requests.entry(verb.to_owned()).or_default() += count;
        }
        requests
    }
}

/// An address that stays reserved while no server listens there: a socket that is bound but does
/// not listen. The server shares it by `SO_REUSEPORT`, which `--permit-port-sharing` sets.
struct Port {
    address: SocketAddr,
    _socket: TcpSocket,
}

impl Port {
    fn reserve() -> Self {
        let socket = TcpSocket::new_v4().expect("there are sockets");
        socket.set_reuseport(true).expect("Linux supports it");
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).expect("there are free ports");
        Self { address: socket.local_addr().expect("it is bound"), _socket: socket }
    }
}

fn start_etcd(folder: &Path, extra_flags: &[&str]) -> Daemon {
    let at = |name: &str| format!("{}/{name}", folder.display());
    let mut flags = vec![
        format!("--data-dir={}", at("etcd")),
        format!("--listen-client-urls=unix://{}", at("etcd.sock")),
        format!("--listen-peer-urls=unix://{}", at("peer.sock")),
        // `--listen-client-urls` requires it; nothing uses the value.
        "--advertise-client-urls=http://127.0.0.1:2379".to_owned(),
        "--log-level=warn".to_owned(),
    ];
    flags.extend(extra_flags.iter().map(|&flag| flag.to_owned()));
    Daemon::start(assets::server("etcd"), flags, &folder.join("etcd.log"))
}

fn etcd_answers(folder: &Path) -> io::Result<String> {
    let mut socket = UnixStream::connect(folder.join("etcd.sock"))?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    socket.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
    io::read_to_string(socket)
}

fn start_server(folder: &Path, address: SocketAddr, authorization: &str) -> Daemon {
    let at = |name: &str| format!("{}/{name}", folder.display());
    let flags = vec![
        format!("--etcd-servers=unix://{}", at("etcd.sock")),
        format!("--bind-address={}", address.ip()),
        format!("--secure-port={}", address.port()),
        "--permit-port-sharing".to_owned(),
        // No client finds it through a Service, and it must start on a machine without a network.
        format!("--advertise-address={}", address.ip()),
        "--endpoint-reconciler-type=none".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        format!("--tls-cert-file={}", at("server.crt")),
        format!("--tls-private-key-file={}", at("server.key")),
        format!("--client-ca-file={}", at("ca.crt")),
        format!("--authorization-mode={authorization}"),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={}", at("accounts.pub")),
        format!("--service-account-signing-key-file={}", at("accounts.key")),
        "--shutdown-delay-duration=0s".to_owned(),
        // Its identity Lease would disturb the tests that count requests; the second needs the
        // first.
        "--feature-gates=APIServerIdentity=false,UnknownVersionInteroperabilityProxy=false"
            .to_owned(),
    ];
    Daemon::start(assets::server("kube-apiserver"), flags, &folder.join("kube-apiserver.log"))
}

fn copy(from: &Path, to: &Path) {
    // etcd preallocates 64 MB at a time, most of it empty.
    let copied = Command::new("cp")
        .args(["-r", "--sparse=always"])
        .args([from, to])
        .status()
        .expect("coreutils are installed");
    assert!(copied.success(), "there is no room for a copy of {}", from.display());
}
