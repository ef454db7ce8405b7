//! A server under test in a process of its own, and what the kernel counts about it.
//!
//! Dropping a [`Server`] kills it by its id and waits for it; and where the bench itself is killed the kernel does the
//! same, which `setpriv` of util-linux asks for: at the end of the thread that started it, which has to live longer.

use crate::rig::{client_go_candidate, curator_candidate};
use crate::{Result, baseline};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

pub(crate) const BATON: &str = env!("CARGO_BIN_EXE_baton");

/// The election of all candidates.
pub(crate) const ELECTION: &str = "bench";

pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    /// Who it is; a server that is no candidate has none.
    pub(crate) identity: Option<String>,
    log: BufReader<Box<dyn Read + Send>>,
}

impl Server {
    /// A candidate over the files in `directory`, with these flags besides.
    pub(crate) fn over_files(directory: &Path, flags: &[&str]) -> Result<Self> {
        Self::baton(
            guarded(BATON)
                .args(["run", "--backend", "file", "--directory"])
                .arg(directory)
                .args(flags),
        )
    }

    /// A candidate over the Lease that `kubeconfig` leads to.
    pub(crate) fn over_lease(kubeconfig: &Path) -> Result<Self> {
        Self::baton(
            guarded(BATON).args(["run", "--backend", "lease", "--kubeconfig"]).arg(kubeconfig),
        )
    }

    /// client-go's candidate over the same Lease.
    pub(crate) fn client_go(kubeconfig: &Path, identity: &str) -> Result<Self> {
        let mut command = guarded(client_go_candidate());
        command.arg("--kubeconfig").arg(kubeconfig).args([
            "--lease",
            ELECTION,
            "--identity",
            identity,
        ]);
        command.args(["--listen", "127.0.0.1:0", "--release-on-cancel"]).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn()?;
        let lines = child.stdout.take().expect("it is piped");
        Self::started(child, lines)
    }

    /// A candidate over the znodes below `path`.
    pub(crate) fn over_zookeeper(servers: &str, path: &str) -> Result<Self> {
        let flags = ["--zookeeper-servers", servers, "--zookeeper-path", path];
        Self::baton(guarded(BATON).args(["run", "--backend", "zookeeper"]).args(flags))
    }

    /// Curator's candidate over the same znodes.
    pub(crate) fn curator(
        servers: &str,
        path: &str,
        identity: &str,
        session_timeout: Duration,
    ) -> Result<Self> {
        let (java, arguments) = curator_candidate();
        let mut command = guarded(java);
        command.args(arguments).args([
            format!("servers={servers}"),
            format!("path={path}"),
            format!("id={identity}"),
            format!("session-timeout-ms={}", session_timeout.as_millis()),
            "boottime-offset-ns=0".to_owned(), // nobody reads its times here
            "listen=0".to_owned(),
        ]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let lines = child.stdout.take().expect("it is piped");
        Self::started(child, lines)
    }

    fn baton(command: &mut Command) -> Result<Self> {
        command.args([
            "--listen",
            "127.0.0.1:0",
            "--probe-listen",
            "127.0.0.1:0",
            "--log-format",
            "json",
        ]);
        Self::start(command.args(["--election", ELECTION]))
    }

    /// A bare axum server whose body has this length.
    pub(crate) fn baseline(length: usize) -> Result<Self> {
        Self::start(guarded(env::current_exe()?).args([baseline::ARGUMENT, &length.to_string()]))
    }

    fn start(command: &mut Command) -> Result<Self> {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let lines = child.stderr.take().expect("it is piped");
        Self::started(child, lines)
    }

    /// Returns once it has said where it listens, in its first line.
    fn started(child: Child, lines: impl Read + Send + 'static) -> Result<Self> {
        let mut log = BufReader::new(Box::new(lines) as Box<dyn Read + Send>);
        let mut line = String::new();
        log.read_line(&mut line)?;
        let first: Value = serde_json::from_str(&line).unwrap_or_default();
        let field = |name: &str| first[name].as_str().map(str::to_owned);
        match field("listen") {
            Some(address) => Ok(Self { child, address, identity: field("identity"), log }),
            None => Err(format!("a server did not start: {line}").into()),
        }
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        // The id is still its own: nobody but us waits for this child.
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        Ok(self.child.wait()?)
    }

    /// How it ended, if it has, and its last words.
    pub(crate) fn end(&mut self) -> Result<Option<String>> {
        let Some(status) = self.child.try_wait()? else {
            return Ok(None);
        };
        let mut log = String::new();
        self.log.read_to_string(&mut log)?;
        Ok(Some(format!("{status}; {}", log.lines().last().unwrap_or("it said nothing"))))
    }

    /// The processor time that it has used.
    pub(crate) fn processor_time(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name, in parentheses, may contain anything. From the state on, utime and stime are the 12th and 13th.
        let (_, fields) = stat.rsplit_once(") ").ok_or("the form of proc(5)")?;
        let ticks: Vec<u64> = fields
            .split(' ')
            .skip(11)
            .take(2)
            .map(str::parse)
            .collect::<std::result::Result<_, _>>()?;
        // Hundredths of a second, on every Linux.
        Ok(Duration::from_millis(10 * ticks.iter().sum::<u64>()))
    }

    /// The memory that it occupies, in bytes.
    pub(crate) fn resident(&self) -> Result<u32> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.strip_suffix("kB"));
        let kibibytes: u32 = line.ok_or("the form of proc(5)")?.trim().parse()?;
        Ok(kibibytes * 1024)
    }
}

/// A command whose process is killed as soon as this thread ends, and knows of no setting of ours.
fn guarded(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.env_clear().envs(env::var_os("PATH").map(|path| ("PATH", path)));
    command.args(["--pdeathsig", "KILL"]).arg(program).stdin(Stdio::null());
    command
}

impl Drop for Server {
    fn drop(&mut self) {
        // Neither fails for a child that we alone wait for.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
