//! A candidate that elects with client-go, beside ours: see tests/peers/client-go.

mod tests;

use super::apiserver::Access;
use super::assets;
use super::daemon::Daemon;
use super::judge::wait_for;
use super::question::{agent, ask};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// How long its start may take on a busy machine.
const STARTUP: Duration = Duration::from_secs(10);

pub(crate) struct ClientGo {
    pub(crate) process: Daemon,
    /// Where an application asks it.
    address: String,
    log: PathBuf,
}

impl ClientGo {
    /// Starts one for `lease` in the namespace of `access`; `flags` are those of the program, durations above all.
    pub(crate) fn start(access: &Access, lease: &str, identity: &str, flags: &[&str]) -> Self {
        let log = access.kubeconfig().with_extension(format!("{identity}.log"));
        let kubeconfig = access.kubeconfig().display();
        let mut all = vec![
            format!("--kubeconfig={kubeconfig}"),
            format!("--lease={lease}"),
            format!("--identity={identity}"),
            "--listen=127.0.0.1:0".to_owned(),
        ];
        all.extend(flags.iter().map(|&flag| flag.to_owned()));
        let mut process = Daemon::start(assets::client_go_candidate(), all, &log);
        let listening = wait_for(STARTUP, "the client-go candidate listens", || {
            process.assert_alive();
            events(&log).into_iter().find(|told| told["event"] == "listening")
        });
        let address = listening["listen"].as_str().expect("it listens before all else").to_owned();
        Self { process, address, log }
    }

    /// What it told so far, in order: `started_leading`, `work_cancelled`, `stopped_leading`, `new_leader`.
    pub(crate) fn events(&self) -> Vec<Value> {
        events(&self.log)
    }

    /// What it answers to an application; `None` where nobody does.
    pub(crate) fn answer(&self) -> Option<Value> {
        let reply = ask(&agent(), &format!("http://{}/", self.address)).ok()?;
        Some(serde_json::from_str(&reply.body).expect("it answers in JSON"))
    }

    /// How many renewals it has logged, as it does with `-v=5`.
    pub(crate) fn renewals(&self) -> u32 {
        let log = fs::read_to_string(&self.log).expect("the process has opened it");
        let count = log.lines().filter(|line| line.contains("Successfully renewed lease")).count();
        u32::try_from(count).expect("a log has an end")
    }

    /// When it first told this, as the time since boot.
    pub(crate) fn told(&self, event: &str) -> Option<Duration> {
        let told = self.events().into_iter().find(|told| told["event"] == event)?;
        Some(Duration::from_nanos(told["boottime_ns"].as_u64().expect("each has a time")))
    }
}

fn events(log: &PathBuf) -> Vec<Value> {
    let text = fs::read_to_string(log).expect("the process has opened it");
    // klog writes there too.
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}
