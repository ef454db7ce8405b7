//! The command line of everything that the demo starts, and in one place the flags of the election.

use crate::process;
use crate::zookeeper::{NoServer, Server};
use clap::ValueEnum;
use humantime::format_duration;
use std::env;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Where one candidate sits: its name and the port that its application asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DriverContext {
    pub(crate) name: &'static str,
    pub(crate) port: u16,
}

pub(crate) const SEATS: [DriverContext; 3] = [
    DriverContext { name: "a", port: 4040 },
    DriverContext { name: "b", port: 4050 },
    DriverContext { name: "c", port: 4060 },
];

/// What to type in another terminal.
pub(crate) const ELSEWHERE: &str = "curl -f 127.0.0.1:4040/leader";

// About a third of the defaults: an onlooker does not want to wait 15 s for the next leader.
pub(crate) const LEASE_DURATION: Duration = Duration::from_secs(5);
pub(crate) const RENEW_DEADLINE: Duration = Duration::from_secs(3);
pub(crate) const RETRY_PERIOD: Duration = Duration::from_millis(500);

impl DriverContext {
    /// Where it answers.
    pub(crate) fn url(self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

/// In what the election is held.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Backend {
    /// Files in a temporary directory
    File,
    /// A ZooKeeper server of the demo's own
    #[value(name = "zookeeper")]
    ZooKeeper,
}

/// Where the programs are, and where the election is held.
#[derive(Debug)]
pub(crate) struct Programs {
    baton: PathBuf,
    ledger: PathBuf,
    place: Place,
    pub(crate) has_setpriv: bool,
}

#[derive(Debug)]
enum Place {
    Directory(PathBuf),
    ZooKeeper(Server),
}

/// Why the demo cannot begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotReady {
    #[error("{0} is not there; run `cargo build --bin baton --examples`, or simply `make run`")]
    NotBuilt(PathBuf),
    #[error(
        "port {port} is in use, which candidate {name} needs; `ss -ltnp 'sport = :{port}'` says by whom"
    )]
    PortInUse { name: &'static str, port: u16 },
    #[error(
        "this program cannot find out where it lies, and so not the others; start it with `make run`"
    )]
    NoPath(#[from] io::Error),
    #[error("there is no ZooKeeper to hold the election in")]
    NoServer(#[from] NoServer),
}

impl Programs {
    /// Finds the programs next to this one, where cargo puts them, tries the ports, and sets up in `directory` what the
    /// election is held in.
    pub(crate) fn find(backend: Backend, directory: &Path) -> Result<Self, NotReady> {
        let demo = env::current_exe()?;
        let baton = demo.with_file_name("../baton");
        let ledger = demo.with_file_name("ledger");
        if let Some(missing) = [&baton, &ledger].into_iter().find(|program| !program.exists()) {
            return Err(NotReady::NotBuilt(missing.clone()));
        }
        if let Some(DriverContext { name, port }) = SEATS.into_iter().find(|seat| in_use(seat.port))
        {
            return Err(NotReady::PortInUse { name, port });
        }
        let place = match backend {
            Backend::File => Place::Directory(directory.to_owned()),
            Backend::ZooKeeper => Place::ZooKeeper(Server::set_up(directory)?),
        };
        Ok(Self { baton, ledger, place, has_setpriv: process::has_setpriv() })
    }

    /// The flags that say which election it is and where it is held.
    fn election(&self, command: &mut Command) {
        command.arg("--election=demo");
        match &self.place {
            Place::Directory(directory) => {
                command.args(["--backend=file", "--directory"]).arg(directory)
            }
            Place::ZooKeeper(server) => command.args(server.flags()),
        };
    }

    pub(crate) fn candidate(&self, seat: DriverContext) -> Command {
        let mut command = self.guarded(&self.baton);
        command.arg("run");
        self.election(&mut command);
        command
            .arg(format!("--identity-prefix={}", seat.name))
            .arg(format!("--lease-duration={}", format_duration(LEASE_DURATION)))
            .arg(format!("--renew-deadline={}", format_duration(RENEW_DEADLINE)))
            .arg(format!("--retry-period={}", format_duration(RETRY_PERIOD)))
            .arg(format!("--listen=localhost:{}", seat.port))
            .args(["--probe-listen=none", "--log-format=json"]);
        command
    }

    /// What a Pod's end runs first: the candidate withdraws while the application is still ending.
    pub(crate) fn stopping(&self, seat: DriverContext) -> Command {
        let mut command = self.guarded(&self.baton);
        command.arg("stopping").arg(format!("--listen=localhost:{}", seat.port));
        command
    }

    pub(crate) fn application(&self, seat: DriverContext, ledger: &str) -> Command {
        let mut command = self.guarded(&self.ledger);
        command
            .args(["work", "--name", seat.name])
            .args(["--sidecar", &seat.url()])
            .args(["--ledger", ledger]);
        command
    }

    /// What has to serve before any candidate starts, where something has to.
    pub(crate) fn server(&self) -> Option<(&Server, Command)> {
        match &self.place {
            Place::Directory(_) => None,
            Place::ZooKeeper(server) => {
                let mut command = self.guarded(Path::new("java"));
                command.args(server.arguments());
                Some((server, command))
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

/// Whether somebody has the port on either loopback. That it is free now is no promise, only a kindness:
/// a candidate that finds it taken later says so itself.
fn in_use(port: u16) -> bool {
    let taken = |listener: io::Result<TcpListener>| {
        listener.is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
    };
    taken(TcpListener::bind((Ipv4Addr::LOCALHOST, port)))
        || taken(TcpListener::bind((Ipv6Addr::LOCALHOST, port)))
}
