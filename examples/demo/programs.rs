//! The command lines of the demo's children. All flags of the election are in this file.
//!
//! Start with [`Programs::find`].

use crate::etcd::{EtcdError, EtcdServer};
use crate::process::{self, Process};
use crate::zookeeper::{Server, ServerError};
use clap::ValueEnum;
use humantime::format_duration;
use std::env;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A candidate's name and the port of its HTTP API.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CandidateConfig {
    pub(crate) name: &'static str,
    pub(crate) port: u16,
}

pub(crate) const CANDIDATES: [CandidateConfig; 3] = [
    CandidateConfig { name: "a", port: 4040 },
    CandidateConfig { name: "b", port: 4050 },
    CandidateConfig { name: "c", port: 4060 },
];

/// The command that the demo suggests for another terminal.
pub(crate) const CURL_COMMAND: &str = "curl -f 127.0.0.1:4040/leader";

// About a third of the defaults, so that a new leader takes over within seconds.
pub(crate) const LEASE_DURATION: Duration = Duration::from_secs(5);
pub(crate) const RENEW_DEADLINE: Duration = Duration::from_secs(3);
pub(crate) const RETRY_PERIOD: Duration = Duration::from_millis(500);

impl CandidateConfig {
    /// The URL of the HTTP API.
    pub(crate) fn url(self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

/// The store of the election, as the flag names it.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Backend {
    /// Files in a temporary directory
    File,
    /// A ZooKeeper server that the demo starts
    #[value(name = "zookeeper")]
    ZooKeeper,
    /// An etcd that the demo starts
    Etcd,
}

/// The paths of the programs, and the store of the election.
#[derive(Debug)]
pub(crate) struct Programs {
    baton: PathBuf,
    ledger: PathBuf,
    store: ElectionStore,
    pub(crate) has_setpriv: bool,
}

#[derive(Debug)]
enum ElectionStore {
    Directory(PathBuf),
    ZooKeeper(Server),
    Etcd(EtcdServer),
}

/// A server that must run before any candidate starts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StoreServer<'a> {
    ZooKeeper(&'a Server),
    Etcd(&'a EtcdServer),
}

/// Why the demo cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SetupError {
    #[error("{0} does not exist; run `cargo build --bin baton --examples` or `make run`")]
    NotBuilt(PathBuf),
    #[error(
        "port {port} of candidate {name} is in use; `ss -ltnp 'sport = :{port}'` shows the process"
    )]
    PortInUse { name: &'static str, port: u16 },
    #[error("cannot determine the path of this program; start it with `make run`")]
    NoPath(#[from] io::Error),
    #[error("cannot set up the ZooKeeper server")]
    ZooKeeper(#[from] ServerError),
    #[error("cannot set up etcd")]
    Etcd(#[from] EtcdError),
}

impl Programs {
    /// Finds the programs next to this one, where cargo puts them, checks the ports, and sets up
    /// the store in `directory`.
    pub(crate) fn find(backend: Backend, directory: &Path) -> Result<Self, SetupError> {
        let demo = env::current_exe()?;
        let baton = demo.with_file_name("../baton");
        let ledger = demo.with_file_name("ledger");
        if let Some(missing) = [&baton, &ledger].into_iter().find(|program| !program.exists()) {
            return Err(SetupError::NotBuilt(missing.clone()));
        }
        if let Some(CandidateConfig { name, port }) =
            CANDIDATES.into_iter().find(|config| is_port_in_use(config.port))
        {
            return Err(SetupError::PortInUse { name, port });
        }
        let store = match backend {
            Backend::File => ElectionStore::Directory(directory.to_owned()),
            Backend::ZooKeeper => ElectionStore::ZooKeeper(Server::set_up(directory)?),
            Backend::Etcd => ElectionStore::Etcd(EtcdServer::set_up(directory)?),
        };
        Ok(Self { baton, ledger, store, has_setpriv: process::has_setpriv() })
    }

    /// Adds the flags that select the election and its store.
    fn add_election_flags(&self, command: &mut Command) {
        command.arg("--election=demo");
        match &self.store {
            ElectionStore::Directory(directory) => {
                command.args(["--backend=file", "--directory"]).arg(directory)
            }
            ElectionStore::ZooKeeper(server) => command.args(server.flags()),
            ElectionStore::Etcd(server) => command.args(server.flags()),
        };
    }

    pub(crate) fn candidate(&self, config: CandidateConfig) -> Command {
        let mut command = self.guarded(&self.baton);
        command.arg("run");
        self.add_election_flags(&mut command);
        command
            .arg(format!("--identity-prefix={}", config.name))
            .arg(format!("--lease-duration={}", format_duration(LEASE_DURATION)))
            .arg(format!("--renew-deadline={}", format_duration(RENEW_DEADLINE)))
            .arg(format!("--retry-period={}", format_duration(RETRY_PERIOD)))
            .arg(format!("--listen=localhost:{}", config.port))
            .args(["--probe-listen=none", "--log-format=json"]);
        command
    }

    /// The preStop hook of a Pod: the candidate withdraws while the application is still stopping.
    pub(crate) fn stopping(&self, config: CandidateConfig) -> Command {
        let mut command = self.guarded(&self.baton);
        command.arg("stopping").arg(format!("--listen=localhost:{}", config.port));
        command
    }

    pub(crate) fn application(&self, config: CandidateConfig, ledger: &str) -> Command {
        let mut command = self.guarded(&self.ledger);
        command
            .args(["work", "--name", config.name])
            .args(["--sidecar", &config.url()])
            .args(["--ledger", ledger]);
        command
    }

    /// The store's server, if there is one.
    pub(crate) fn server(&self) -> Option<(StoreServer<'_>, Command)> {
        match &self.store {
            ElectionStore::Directory(_) => None,
            ElectionStore::ZooKeeper(server) => {
                let mut command = self.guarded(Path::new("java"));
                command.args(server.arguments());
                Some((StoreServer::ZooKeeper(server), command))
            }
            ElectionStore::Etcd(server) => {
                let mut command = self.guarded(Path::new(EtcdServer::program()));
                command.args(server.arguments());
                Some((StoreServer::Etcd(server), command))
            }
        }
    }

    pub(crate) fn ledger(&self) -> Command {
        let mut command = self.guarded(&self.ledger);
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        command
    }

    fn guarded(&self, program: &Path) -> Command {
        process::guarded(program.as_os_str(), self.has_setpriv)
    }
}

impl StoreServer<'_> {
    /// Waits until the server responds. Returns `false` if it exits or takes too long.
    pub(crate) async fn wait_until_serving(
        self,
        process: &mut Process,
        now: impl Fn() -> Instant,
    ) -> io::Result<bool> {
        match self {
            Self::ZooKeeper(server) => server.wait_until_serving(process, now).await,
            Self::Etcd(server) => server.wait_until_serving(process, now).await,
        }
    }
}

/// Whether the port is in use on either loopback address. This check only reports the error early:
/// a candidate itself reports a port that is taken later.
fn is_port_in_use(port: u16) -> bool {
    let is_taken = |listener: io::Result<TcpListener>| {
        listener.is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
    };
    is_taken(TcpListener::bind((Ipv4Addr::LOCALHOST, port)))
        || is_taken(TcpListener::bind((Ipv6Addr::LOCALHOST, port)))
}
