//! A node of the cluster, and its faults. kind runs each node as a container.

use super::command::run;
use super::record::{Memory, Usage};
use std::thread;

/// A node. The container engine reaches its programs even without a network.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(super) engine: String,
    pub(crate) name: String,
}

/// A fault that ends on drop, even if the case fails, since the next case needs the node.
#[must_use = "the outage ends when this is dropped"]
pub(crate) struct Outage {
    program: String,
    arguments: Vec<String>,
}

impl Node {
    pub(super) fn is_control_plane(&self) -> bool {
        self.name.ends_with("control-plane")
    }

    /// Cuts the node's network. Its programs continue, and reach their own Pod.
    pub(crate) fn cut_off(&self) -> Outage {
        let rules = |change| {
            ["INPUT --in", "OUTPUT --out", "FORWARD --in", "FORWARD --out"]
                .map(|way| format!("iptables {change} {way}-interface eth0 --jump DROP"))
                .join(" && ")
        };
        self.outage(&rules("--insert"), &rules("--delete"))
    }

    /// Kills everything on the node at once, as a power loss does.
    pub(crate) fn switch_off(&self) -> Outage {
        self.engine(&["kill", &self.name]);
        Outage::ended_by(&self.engine, &["start", &self.name])
    }

    /// Pauses the node, as a live migration pauses a virtual machine.
    pub(crate) fn freeze(&self) -> Outage {
        self.engine(&["pause", &self.name]);
        Outage::ended_by(&self.engine, &["unpause", &self.name])
    }

    /// Starts an outage with one shell command on the node, and ends it with another.
    pub(crate) fn outage(&self, start: &str, end: &str) -> Outage {
        // Created first, so that a partial failure of `start` is undone too.
        let outage = Outage::ended_by(&self.engine, &["exec", &self.name, "sh", "-c", end]);
        self.exec(&["sh", "-c", start]);
        outage
    }

    /// Sends `stop`, `cont`, `kill`, or `term` to a program of a Pod on this node.
    pub(crate) fn signal(&self, signal: &str, pod: &str, program: &str) {
        self.exec(&["witness", "signal", signal, pod, program]);
    }

    /// The resources that the container of a Pod's program has used.
    pub(crate) fn usage(&self, pod: &str, program: &str) -> Usage {
        serde_json::from_str(&self.exec(&["witness", "usage", pod, program]))
            .expect("the witness prints JSON")
    }

    /// The memory of each process of a Pod's program.
    pub(crate) fn memory(&self, pod: &str, program: &str) -> Vec<Memory> {
        serde_json::from_str(&self.exec(&["witness", "memory", pod, program]))
            .expect("the witness prints JSON")
    }

    /// Runs a program on the node.
    pub(crate) fn exec(&self, command: &[&str]) -> String {
        self.engine(&[&["exec", &self.name], command].concat())
    }

    fn engine(&self, arguments: &[&str]) -> String {
        let result = run(&self.engine, arguments, "");
        result.unwrap_or_else(|error| panic!("{} {}: {error}", self.engine, arguments.join(" ")))
    }
}

impl Outage {
    /// An outage that this command ends.
    pub(super) fn ended_by(program: &str, arguments: &[&str]) -> Self {
        Self {
            program: program.to_owned(),
            arguments: arguments.iter().copied().map(str::to_owned).collect(),
        }
    }
}

impl Drop for Outage {
    fn drop(&mut self) {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let ended = run(&self.program, &arguments, "");
        assert!(
            ended.is_ok() || thread::panicking(),
            "{} {}: {ended:?}",
            self.program,
            arguments.join(" ")
        );
    }
}
