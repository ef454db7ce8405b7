//! A running sidecar: its process, and the addresses it listens on.

use super::history::Reply;
use super::process::Process;
use super::question::{agent, ask};
use super::start::program;
use serde_json::Value;
use std::ops::Deref;
use std::process::{Command, Output};
use ureq::Agent;

pub(crate) struct Candidate {
    pub(crate) election: String,
    pub(crate) identity: String,
    /// The address for its application.
    pub(crate) listen: String,
    /// The address for kubelet and Prometheus.
    pub(crate) probe_listen: String,
    /// Whether its application never polls, so the prober requests no promise.
    pub(crate) unpolled: bool,
    pub(crate) process: Process,
}

impl Candidate {
    /// The status of `/healthz` or `/readyz`; 0 if there is no answer.
    pub(crate) fn probe(&self, path: &str) -> u16 {
        let answer = agent().get(format!("http://{}{path}", self.probe_listen)).call();
        answer.map_or(0, |answer| answer.status().as_u16())
    }

    /// Whether it is alive and reports that it is healthy.
    pub(crate) fn is_healthy(&self) -> bool {
        self.is_alive() && self.probe("/healthz") == 200
    }

    /// The value of a metric, given by its exposed name with labels.
    pub(crate) fn metric(&self, series: &str) -> Option<f64> {
        let text = self.metrics();
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map(|value| value.parse().expect("a number"))
    }

    /// Everything that it exports to Prometheus.
    pub(crate) fn metrics(&self) -> String {
        let mut answer = agent()
            .get(format!("http://{}/metrics", self.probe_listen))
            .call()
            .expect("it answers");
        answer.body_mut().read_to_string().expect("metrics are text")
    }

    /// Asks once, as its application would.
    pub(crate) fn ask(&self) -> Reply {
        self.get("/leader")
    }

    /// Sends a GET request.
    pub(crate) fn get(&self, path: &str) -> Reply {
        ask(&agent(), &format!("http://{}{path}", self.listen)).expect("it answers")
    }

    /// Sends a request that changes something. Returns the status and the body, null if it is
    /// empty. Waits as long as the sidecar does.
    pub(crate) fn post(&self, path: &str) -> (u16, Value) {
        let config = Agent::config_builder().proxy(None).http_status_as_error(false);
        let request = Agent::new_with_config(config.build())
            .post(format!("http://{}{path}", self.listen))
            .header("Baton-Request", "1");
        let mut answer = request.send_empty().expect("it answers");
        let body = answer.body_mut().read_to_string().expect("bodies are text");
        let body = if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_str(&body).expect("bodies are JSON")
        };
        (answer.status().as_u16(), body)
    }

    /// Runs a subcommand that connects to this sidecar, with its flags, and waits for its end.
    pub(crate) fn baton(&self, subcommand: &str) -> Output {
        let mut command = Command::new(program());
        command.env_clear().env("BATON_LISTEN", &self.listen).args(subcommand.split(' '));
        command.output().expect("the program is built")
    }
}

/// A candidate is a process: a test kills, pauses, and awaits it as one.
impl Deref for Candidate {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}
