//! A standalone ZooKeeper server on loopback, with its data in the demo's temporary directory.
//!
//! tests/servers/zookeeper/fetch.sh downloads its jars. Start with [`Server::set_up`].

use crate::process::Process;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

const JARS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/.cache/zookeeper");

/// A quarter of the default, for session timeouts from 1 s to 10 s.
const TICK_MS: &str = "500";

/// How long the server may take to start on a busy machine. An idle one needs half a second.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a response may take. A server that has not loaded its data yet leaves the connection
/// open without a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Why the server cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    #[error(
        "{JARS} does not exist; run tests/servers/zookeeper/fetch.sh or \
         `make run BACKEND=zookeeper`"
    )]
    NoJars,
    #[error("cannot run java; install a Java runtime (Debian: default-jre-headless)")]
    NoJava(#[source] io::Error),
    #[error("cannot prepare its port and configuration")]
    Io(#[from] io::Error),
}

/// A configured server. Starting it is up to the caller.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    config: PathBuf,
}

impl Server {
    /// Writes a configuration to `home`, with a port that is free now.
    pub(crate) fn set_up(home: &Path) -> Result<Self, ServerError> {
        if !Path::new(JARS).is_dir() {
            return Err(ServerError::NoJars);
        }
        let mut probe = Command::new("java");
        probe.arg("-version").stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().map_err(ServerError::NoJava)?;
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let config = home.join("zoo.cfg");
        let (data, port) = (home.join("data"), address.port());
        let text = format!(
            "tickTime={TICK_MS}\n\
             dataDir={}\n\
             clientPort={port}\n\
             clientPortAddress=127.0.0.1\n\
             admin.enableServer=false\n\
             4lw.commands.whitelist=srvr\n",
            data.display()
        );
        fs::write(&config, text)?;
        Ok(Self { address, config })
    }

    /// The arguments for Java: fast start, little memory, errors on standard error.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let small = [
            "-Xms16m",
            "-Xmx96m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:-UsePerfData",
        ];
        // ServerCnxn logs only harmless errors about closed connections.
        let quiet = [
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
            "-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.server.ServerCnxn=off",
            "-cp",
        ];
        let jars = format!("{JARS}/*");
        let main = [&*jars, "org.apache.zookeeper.server.quorum.QuorumPeerMain"];
        let arguments = small.into_iter().chain(quiet).chain(main).map(OsString::from);
        arguments.chain([self.config.clone().into()]).collect()
    }

    /// The flags that point a candidate to this server.
    pub(crate) fn flags(&self) -> [String; 3] {
        [
            "--backend=zookeeper".to_owned(),
            format!("--zookeeper-servers={}", self.address),
            format!("--zookeeper-tick-time={TICK_MS}ms"),
        ]
    }

    /// Waits until the server responds. Returns `false` if it exits or takes too long.
    pub(crate) async fn wait_until_serving(
        &self,
        process: &mut Process,
        now: impl Fn() -> Instant,
    ) -> io::Result<bool> {
        let deadline = now() + START_TIMEOUT;
        while now() < deadline && process.reap(now())?.is_none() {
            if let Ok(Ok(response)) = timeout(RESPONSE_TIMEOUT, self.srvr()).await
                && response.contains("Mode:")
            {
                return Ok(true);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(false)
    }

    /// Sends the four-letter command `srvr` and returns the response.
    async fn srvr(&self) -> io::Result<String> {
        let mut stream = TcpStream::connect(self.address).await?;
        stream.write_all(b"srvr").await?;
        let mut response = String::new();
        stream.read_to_string(&mut response).await?;
        Ok(response)
    }
}
