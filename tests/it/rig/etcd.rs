//! A real etcd that tests reach by TCP, for comparisons with programs of etcd.
//!
//! Touches a process and a folder, which end with the test binary. Start with [`Etcd::shared`].

use super::assets;
use super::daemon::Daemon;
use super::history::wait_for;
use super::scratch::Scratch;
use crate::noise::{start_once, while_starting};
use serde_json::Value;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

/// How long a start may take on a busy machine; on an idle one it takes a second.
const STARTUP: Duration = Duration::from_mins(1);

pub(crate) struct Etcd {
    pub(crate) address: SocketAddr,
    _server: Daemon,
    _folder: Scratch, // the last field: dropped after the server that writes to it
}

impl Etcd {
    /// The server of all tests.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Etcd> = OnceLock::new();
        start_once(&SHARED, Self::start)
    }

    fn start() -> Self {
        let folder = Scratch::new();
        let log = folder.path().join("etcd.log");
        let flags = [
            format!("--data-dir={}", folder.path().join("etcd").display()),
            "--listen-client-urls=http://127.0.0.1:0".to_owned(),
            "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
            // `--listen-client-urls` requires it; nothing uses the value.
            "--advertise-client-urls=http://127.0.0.1:2379".to_owned(),
            // No test cuts the power.
            "--unsafe-no-fsync".to_owned(),
        ];
        let mut server = Daemon::start(assets::server("etcd"), flags.to_vec(), &log);
        let address = while_starting("etcd", || {
            wait_for(STARTUP, "etcd serves clients", || {
                server.assert_alive();
                client_address(&log)
            })
        });
        Self { address, _server: server, _folder: folder }
    }

    /// How many sessions hold or await a lock: each has a key below it.
    pub(crate) fn sessions(&self, lock: &str) -> usize {
        let keys = Command::new(assets::etcdctl())
            .arg(format!("--endpoints=http://{}", self.address))
            .args(["get", "--prefix", "--keys-only", &format!("{lock}/")])
            .output()
            .expect("the program is built");
        assert!(keys.status.success(), "{}", String::from_utf8_lossy(&keys.stderr));
        let keys = String::from_utf8(keys.stdout).expect("the keys are text");
        keys.lines().filter(|line| !line.is_empty()).count()
    }
}

/// The address in the log line that says that etcd serves clients.
fn client_address(log: &Path) -> Option<SocketAddr> {
    let text = fs::read_to_string(log).expect("the process has created it");
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut serving = lines.filter(|line| {
        line["msg"].as_str().is_some_and(|message| message.starts_with("serving client traffic"))
    });
    Some(serving.next()?["address"].as_str()?.parse().expect("it is an address"))
}
