//! A ZooKeeper server of the demo's own: alone, on loopback, in the demo's temporary directory, and gone with it.
//!
//! tests/servers/zookeeper/fetch.sh has put its jars where they are looked for.

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

/// Grants sessions from one to ten seconds, where a usual server grants none below four.
const TICK: &str = "500";

/// How long it may take to serve on a busy machine: on an idle one it takes half a second.
const START: Duration = Duration::from_secs(30);
/// How long an answer may take. A server that is asked before it has its data fails at that, and leaves the connection open.
const ANSWER: Duration = Duration::from_secs(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoServer {
    #[error(
        "{JARS} is not there; run tests/servers/zookeeper/fetch.sh, or simply `make run BACKEND=zookeeper`"
    )]
    NoJars,
    #[error("there is no `java`, which ZooKeeper's server needs (Debian: default-jre-headless)")]
    NoJava(#[source] io::Error),
    #[error("its directory cannot be set up")]
    Io(#[from] io::Error),
}

/// A server that is set up, and not started.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    config: PathBuf,
}

impl Server {
    /// Sets one up in `home`, on a port that is free now.
    pub(crate) fn set_up(home: &Path) -> Result<Self, NoServer> {
        if !Path::new(JARS).is_dir() {
            return Err(NoServer::NoJars);
        }
        let mut trial = Command::new("java");
        trial.arg("-version").stdout(Stdio::null()).stderr(Stdio::null());
        trial.status().map_err(NoServer::NoJava)?;
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let config = home.join("zoo.cfg");
        let (data, port) = (home.join("data"), address.port());
        let text = format!(
            "tickTime={TICK}\ndataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n\
             4lw.commands.whitelist=srvr\n",
            data.display()
        );
        fs::write(&config, text)?;
        Ok(Self { address, config })
    }

    /// What is given to Java: it starts fast, stays small, and says what went wrong.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let small = [
            "-Xms16m",
            "-Xmx96m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:-UsePerfData",
        ];
        // Its connections complain of nothing but that they could not be closed.
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

    /// What a candidate is told of it.
    pub(crate) fn flags(&self) -> [String; 3] {
        [
            "--backend=zookeeper".to_owned(),
            format!("--zookeeper-servers={}", self.address),
            format!("--zookeeper-tick-time={TICK}ms"),
        ]
    }

    /// Waits until it serves, and returns whether it does.
    pub(crate) async fn serves(
        &self,
        process: &mut Process,
        now: impl Fn() -> Instant,
    ) -> io::Result<bool> {
        let until = now() + START;
        while now() < until && process.reap(now())?.is_none() {
            if let Ok(Ok(answer)) = timeout(ANSWER, self.ask()).await
                && answer.contains("Mode:")
            {
                return Ok(true);
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        Ok(false)
    }

    async fn ask(&self) -> io::Result<String> {
        let mut stream = TcpStream::connect(self.address).await?;
        stream.write_all(b"srvr").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }
}
