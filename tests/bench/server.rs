//! A server under test in its own process, with the kernel's figures about it.
//!
//! Dropping a [`Server`] kills the process and waits for it. `setpriv` of util-linux has the kernel
//! kill it when the thread that started it ends, so it does not outlive a killed benchmark either.

use crate::rig::{client_go_candidate, curator_candidate, etcd_election_candidate};
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
    /// The candidate's identity. The baseline has none.
    pub(crate) identity: Option<String>,
    log: BufReader<Box<dyn Read + Send>>,
}

impl Server {
    /// A candidate over the files in `directory`, with additional flags.
    pub(crate) fn over_files(directory: &Path, flags: &[&str]) -> Result<Self> {
        Self::baton(
            guarded(BATON)
                .args(["run", "--backend", "file", "--directory"])
                .arg(directory)
                .args(flags),
        )
    }

    /// A candidate over the Lease in the cluster and namespace of `kubeconfig`, with additional
    /// flags.
    pub(crate) fn over_lease(kubeconfig: &Path, flags: &[&str]) -> Result<Self> {
        let mut command = guarded(BATON);
        command.args(["run", "--backend", "lease", "--kubeconfig"]).arg(kubeconfig).args(flags);
        Self::baton(&mut command)
    }

    /// A candidate over the same Lease that runs a shell script while it leads; `$0` is `argument`.
    pub(crate) fn running(kubeconfig: &Path, script: &str, argument: &Path) -> Result<Self> {
        let mut command = guarded(BATON);
        command.args(["exec", "--backend", "lease", "--kubeconfig"]).arg(kubeconfig);
        common(&mut command).args(["--", "sh", "-c", script]).arg(argument);
        Self::start(&mut command)
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
        let lines = child.stdout.take().expect("the stream is piped");
        Self::started(child, lines)
    }

    /// A candidate over the znodes below `path`, with additional flags.
    pub(crate) fn over_zookeeper(servers: &str, path: &str, flags: &[&str]) -> Result<Self> {
        let mut command = guarded(BATON);
        command.args(["run", "--backend", "zookeeper", "--zookeeper-servers", servers]);
        Self::baton(command.args(["--zookeeper-path", path]).args(flags))
    }

    /// A candidate over the keys below `prefix`, with additional flags.
    pub(crate) fn over_etcd(endpoints: &str, prefix: &str, flags: &[&str]) -> Result<Self> {
        let mut command = guarded(BATON);
        command.args(["run", "--backend", "etcd", "--etcd-endpoints", endpoints]);
        Self::baton(command.args(["--etcd-prefix", prefix]).args(flags))
    }

    /// A candidate of etcd's Go client below the same prefix.
    pub(crate) fn etcd_election(
        endpoints: &str,
        prefix: &str,
        identity: &str,
        ttl: Duration,
    ) -> Result<Self> {
        let mut command = guarded(etcd_election_candidate());
        command.args([
            format!("--endpoints={endpoints}"),
            format!("--prefix={prefix}"),
            format!("--identity={identity}"),
            format!("--ttl={}", ttl.as_secs()),
            "--listen=127.0.0.1:0".to_owned(),
        ]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let lines = child.stdout.take().expect("the stream is piped");
        Self::started(child, lines)
    }

    /// Curator's candidate over the same znodes.
    pub(crate) fn curator(
        servers: &str,
        path: &str,
        identity: &str,
        session_timeout: Duration,
    ) -> Result<Self> {
        let (java, arguments) = curator_candidate("Candidate");
        let mut command = guarded(java);
        command.args(arguments).args([
            format!("servers={servers}"),
            format!("path={path}"),
            format!("id={identity}"),
            format!("session-timeout-ms={}", session_timeout.as_millis()),
            "boottime-offset-ns=0".to_owned(), // The benchmark ignores the candidate's times.
            "listen=0".to_owned(),
        ]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let lines = child.stdout.take().expect("the stream is piped");
        Self::started(child, lines)
    }

    fn baton(command: &mut Command) -> Result<Self> {
        Self::start(common(command))
    }

    /// A bare axum server whose body has this length.
    pub(crate) fn baseline(length: usize) -> Result<Self> {
        Self::start(guarded(env::current_exe()?).args([baseline::ARGUMENT, &length.to_string()]))
    }

    fn start(command: &mut Command) -> Result<Self> {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let lines = child.stderr.take().expect("the stream is piped");
        Self::started(child, lines)
    }

    /// Waits for the first line of output, which contains the listener's address.
    fn started(child: Child, lines: impl Read + Send + 'static) -> Result<Self> {
        let mut log = BufReader::new(Box::new(lines) as Box<dyn Read + Send>);
        let mut line = String::new();
        log.read_line(&mut line)?;
        let first: Value = serde_json::from_str(&line).unwrap_or_default();
        let field = |name: &str| first[name].as_str().map(str::to_owned);
        match field("listen") {
            Some(address) => Ok(Self { child, address, identity: field("identity"), log }),
            None => Err(format!("a server did not start; its first line: {line}").into()),
        }
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        // The ID still belongs to the child, because nothing else waits for it.
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        Ok(self.child.wait()?)
    }

    /// The exit status and the last line of the log, if the process has exited.
    pub(crate) fn exit(&mut self) -> Result<Option<String>> {
        let Some(status) = self.child.try_wait()? else {
            return Ok(None);
        };
        let mut log = String::new();
        self.log.read_to_string(&mut log)?;
        Ok(Some(format!("{status}; {}", log.lines().last().unwrap_or("no output"))))
    }

    /// The processor time that the process has used.
    pub(crate) fn processor_time(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name in parentheses may contain anything. Counted from the state, utime and stime are
        // the 12th and 13th fields.
        let (_, fields) = stat.rsplit_once(") ").ok_or("unexpected format of /proc/PID/stat")?;
        let ticks: Vec<u64> = fields
            .split(' ')
            .skip(11)
            .take(2)
            .map(str::parse)
            .collect::<std::result::Result<_, _>>()?;
        // A tick is a hundredth of a second on every Linux.
        Ok(Duration::from_millis(10 * ticks.iter().sum::<u64>()))
    }

    /// How often the threads of the process went to sleep.
    pub(crate) fn wake_ups(&self) -> Result<u32> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id()))?;
        threads
            .map(|thread| {
                let status = fs::read_to_string(thread?.path().join("status"))?;
                let mut lines = status.lines();
                let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
                Ok(count.ok_or("unexpected format of /proc/PID/status")?.trim().parse::<u32>()?)
            })
            .sum()
    }

    /// The resident memory of the process in bytes.
    pub(crate) fn resident(&self) -> Result<u32> {
        self.memory("VmRSS:")
    }

    /// The part of [`Self::resident`] that is not a page of a file, and that the kernel cannot drop.
    pub(crate) fn anonymous(&self) -> Result<u32> {
        self.memory("RssAnon:")
    }

    fn memory(&self, field: &str) -> Result<u32> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_suffix("kB"));
        let kibibytes: u32 = line.ok_or("unexpected format of /proc/PID/status")?.trim().parse()?;
        Ok(kibibytes * 1024)
    }
}

/// Adds the flags of every candidate of Baton.
fn common(command: &mut Command) -> &mut Command {
    command.args(["--listen", "127.0.0.1:0", "--probe-listen", "127.0.0.1:0"]);
    command.args(["--log-format", "json", "--election", ELECTION])
}

/// A command whose process is killed when this thread ends, in an empty environment but for PATH.
fn guarded(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.env_clear().envs(env::var_os("PATH").map(|path| ("PATH", path)));
    command.args(["--pdeathsig", "KILL"]).arg(program).stdin(Stdio::null());
    command
}

impl Drop for Server {
    fn drop(&mut self) {
        // Neither fails for a child that nothing else waits for.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
