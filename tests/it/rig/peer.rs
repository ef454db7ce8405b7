//! A candidate of another program beside ours: see tests/servers/peers. It logs its
//! events as lines of JSON, each with the time since boot.

mod tests;

use super::apiserver::Access;
use super::assets;
use super::daemon::Daemon;
use super::history::wait_for;
use super::question::{agent, ask};
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long its start may take on a busy machine.
const STARTUP: Duration = Duration::from_secs(10);

pub(crate) struct Peer {
    pub(crate) process: Daemon,
    log: PathBuf,
}

/// The settings of a peer's election in ZooKeeper.
pub(crate) struct InZooKeeper<'a> {
    /// The connect string, with the chroot.
    pub(crate) servers: &'a str,
    pub(crate) path: &'a str,
    pub(crate) session_timeout: Duration,
    /// The folder for the peer's log.
    pub(crate) folder: &'a Path,
}

impl Peer {
    /// Starts client-go's candidate for `lease` in the namespace of `access`; `flags` are the
    /// program's own. It logs `listening` once it answers.
    pub(crate) fn client_go(access: &Access, lease: &str, identity: &str, flags: &[&str]) -> Self {
        let mut arguments = vec![
            format!("--kubeconfig={}", access.kubeconfig_path()),
            format!("--lease={lease}"),
            format!("--identity={identity}"),
            "--listen=127.0.0.1:0".to_owned(),
        ];
        arguments.extend(flags.iter().map(|&flag| flag.to_owned()));
        let log = access.kubeconfig().with_extension(format!("{identity}.log"));
        Self::start(assets::client_go_candidate(), arguments, log)
    }

    /// Starts `etcdctl lock` for a lock of the etcd at `address`. It runs the shell script while it
    /// holds the lock, and logs no events.
    pub(crate) fn etcdctl(
        address: SocketAddr,
        lock: &str,
        ttl: Duration,
        script: &str,
        log: PathBuf,
    ) -> Self {
        let arguments = [
            format!("--endpoints=http://{address}"),
            "lock".to_owned(),
            format!("--ttl={}", ttl.as_secs()),
            "--".to_owned(),
            lock.to_owned(),
        ];
        let command = ["sh", "-c", script].map(str::to_owned);
        let arguments = arguments.into_iter().chain(command).collect();
        Self::start(assets::etcdctl(), arguments, log)
    }

    /// Starts `etcdctl elect` at the etcd at `address`. It prints its key once it leads, and logs no
    /// events. Its session is always 60 s long.
    pub(crate) fn etcdctl_elect(
        address: SocketAddr,
        prefix: &str,
        identity: &str,
        log: PathBuf,
    ) -> Self {
        let endpoints = format!("--endpoints=http://{address}");
        let arguments = [&endpoints, "elect", prefix, identity].map(str::to_owned);
        Self::start(assets::etcdctl(), arguments.to_vec(), log)
    }

    /// Starts a `concurrency.Election` of etcd's Go client, at these URLs of members. It logs
    /// `campaigning` once it has a session.
    pub(crate) fn etcd_election(
        endpoints: &str,
        prefix: &str,
        identity: &str,
        ttl: Duration,
        log: PathBuf,
    ) -> Self {
        let arguments = [
            format!("--endpoints={endpoints}"),
            format!("--prefix={prefix}"),
            format!("--identity={identity}"),
            format!("--ttl={}", ttl.as_secs()),
        ];
        Self::start(assets::etcd_election_candidate(), arguments.into(), log)
    }

    /// Starts a `LeaderLatch` of Curator.
    pub(crate) fn curator(election: &InZooKeeper<'_>, identity: &str) -> Self {
        Self::curator_recipe("Candidate", election, identity)
    }

    /// Starts a `LeaderSelector` of Curator.
    pub(crate) fn curator_selector(election: &InZooKeeper<'_>, identity: &str) -> Self {
        Self::curator_recipe("Selector", election, identity)
    }

    fn curator_recipe(class: &str, election: &InZooKeeper<'_>, identity: &str) -> Self {
        let (java, mut arguments) = assets::curator_candidate(class);
        arguments.extend([
            format!("servers={}", election.servers),
            format!("path={}", election.path),
            format!("id={identity}"),
            format!("session-timeout-ms={}", election.session_timeout.as_millis()),
            format!("boottime-offset-ns={}", boottime_offset().as_nanos()),
        ]);
        Self::start(java, arguments, election.log(identity))
    }

    /// Starts an `Election` of kazoo.
    pub(crate) fn kazoo(election: &InZooKeeper<'_>, identity: &str) -> Self {
        let (python, mut arguments) = assets::kazoo_candidate();
        let session_timeout = election.session_timeout.as_secs_f64().to_string();
        arguments.extend(
            [election.servers, election.path, identity, &session_timeout].map(str::to_owned),
        );
        Self::start(python, arguments, election.log(identity))
    }

    fn start(program: PathBuf, arguments: Vec<String>, log: PathBuf) -> Self {
        Self { process: Daemon::start(program, arguments, &log), log }
    }

    /// Waits until it has logged this event.
    pub(crate) fn once(mut self, event: &str) -> Self {
        wait_for(STARTUP, &format!("the candidate logs {event}"), || {
            self.process.assert_alive();
            self.first_logged(event)
        });
        self
    }

    /// Its events so far, in order: `started_leading` and `work_cancelled`; for client-go also
    /// `listening`, `stopped_leading`, and `new_leader`, and for etcd's client `campaigning`.
    pub(crate) fn events(&self) -> Vec<Value> {
        // The library writes to the same log.
        self.log().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// When it first logged this event, as the time since boot.
    pub(crate) fn first_logged(&self, name: &str) -> Option<Duration> {
        let event = self.events().into_iter().find(|event| event["event"] == name)?;
        Some(Duration::from_nanos(event["boottime_ns"].as_u64().expect("each event has a time")))
    }

    /// The whole log, its library's lines included.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("the process has created it")
    }

    /// Its answer to an application; `None` if it does not listen.
    pub(crate) fn answer(&self) -> Option<Value> {
        let listening = self.events().into_iter().find(|event| event["event"] == "listening")?;
        let address = listening["listen"].as_str().expect("the event has an address");
        let reply = ask(&agent(), &format!("http://{address}/")).ok()?;
        Some(serde_json::from_str(&reply.body).expect("it answers in JSON"))
    }
}

impl InZooKeeper<'_> {
    fn log(&self, identity: &str) -> PathBuf {
        self.folder.join(format!("{identity}.log"))
    }
}

/// The offset from a monotonic time, which Java reads, to a time since boot. It grows only while
/// the machine sleeps.
fn boottime_offset() -> Duration {
    let read = |clock| Duration::try_from(clock_gettime(clock)).expect("neither is negative");
    read(ClockId::Boottime).saturating_sub(read(ClockId::Monotonic))
}
