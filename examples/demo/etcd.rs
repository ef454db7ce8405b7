//! A single etcd on loopback, with its data in the demo's temporary directory.
//!
//! tests/servers/kubernetes/build.sh builds the program. Start with [`EtcdServer::set_up`].

use crate::process::Process;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/.cache/kubernetes/etcd");

/// How long the server may take to start on a busy machine. An idle one needs a second.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a response may take.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Why the server cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EtcdError {
    #[error(
        "{PROGRAM} does not exist; run tests/servers/kubernetes/build.sh or \
         `make run BACKEND=etcd`"
    )]
    NotBuilt,
    #[error("cannot find free ports")]
    Io(#[from] io::Error),
}

/// A configured server. Starting it is up to the caller.
#[derive(Debug)]
pub(crate) struct EtcdServer {
    client: SocketAddr,
    peer: SocketAddr,
    data: PathBuf,
}

impl EtcdServer {
    /// Chooses ports that are free now. The data goes to `home`.
    pub(crate) fn set_up(home: &Path) -> Result<Self, EtcdError> {
        if !Path::new(PROGRAM).is_file() {
            return Err(EtcdError::NotBuilt);
        }
        // Both are bound at the same time, so that they differ.
        let [client, peer] = [
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?,
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?,
        ];
        Ok(Self { client: client.local_addr()?, peer: peer.local_addr()?, data: home.join("etcd") })
    }

    pub(crate) const fn program() -> &'static str {
        PROGRAM
    }

    pub(crate) fn arguments(&self) -> Vec<String> {
        let Self { client, peer, data } = self;
        vec![
            format!("--data-dir={}", data.display()),
            format!("--listen-client-urls=http://{client}"),
            format!("--advertise-client-urls=http://{client}"),
            format!("--listen-peer-urls=http://{peer}"),
            format!("--initial-advertise-peer-urls=http://{peer}"),
            format!("--initial-cluster=default=http://{peer}"),
            "--auto-compaction-retention=1h".to_owned(),
            "--log-level=error".to_owned(),
        ]
    }

    /// The flags that point a candidate to this server.
    pub(crate) fn flags(&self) -> [String; 2] {
        ["--backend=etcd".to_owned(), format!("--etcd-endpoints=http://{}", self.client)]
    }

    /// Waits until the server responds. Returns `false` if it exits or takes too long.
    pub(crate) async fn wait_until_serving(
        &self,
        process: &mut Process,
        now: impl Fn() -> Instant,
    ) -> io::Result<bool> {
        let deadline = now() + START_TIMEOUT;
        while now() < deadline && process.reap(now())?.is_none() {
            if let Ok(Ok(response)) = timeout(RESPONSE_TIMEOUT, self.health()).await
                && response.contains(r#""health":"true""#)
            {
                return Ok(true);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(false)
    }

    async fn health(&self) -> io::Result<String> {
        let mut stream = TcpStream::connect(self.client).await?;
        stream.write_all(b"GET /health HTTP/1.0\r\n\r\n").await?;
        let mut response = String::new();
        stream.read_to_string(&mut response).await?;
        Ok(response)
    }
}
