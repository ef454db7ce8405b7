//! A node of the cluster, which is a container of an engine: what can be done to it from outside.

use super::command::run;
use super::record::Usage;
use std::thread;

/// The programs in it are reached by the engine, whatever becomes of its network.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(super) engine: String,
    pub(crate) name: String,
}

/// What was taken away from a node. It is given back when this is dropped, also where a case has failed meanwhile: the
/// next one needs it.
#[must_use = "it is over as soon as this is dropped"]
pub(crate) struct Outage {
    program: String,
    arguments: Vec<String>,
}

impl Node {
    pub(super) fn is_control_plane(&self) -> bool {
        self.name.ends_with("control-plane")
    }

    /// Cuts it off from everybody else. What runs on it runs on, and reaches what is in its own Pod.
    pub(crate) fn cut_off(&self) -> Outage {
        let rules = |change| {
            ["INPUT --in", "OUTPUT --out", "FORWARD --in", "FORWARD --out"]
                .map(|way| format!("iptables {change} {way}-interface eth0 --jump DROP"))
                .join(" && ")
        };
        self.outage(&rules("--insert"), &rules("--delete"))
    }

    /// Takes its power away: everything on it is gone at once.
    pub(crate) fn switch_off(&self) -> Outage {
        self.engine(&["kill", &self.name]);
        Outage::until(&self.engine, &["start", &self.name])
    }

    /// Has it stand still with all that is on it, as a virtual machine does that is moved.
    pub(crate) fn freeze(&self) -> Outage {
        self.engine(&["pause", &self.name]);
        Outage::until(&self.engine, &["unpause", &self.name])
    }

    /// Begins an outage by a line of shell on the node, and ends it by another.
    pub(crate) fn outage(&self, begin: &str, end: &str) -> Outage {
        // Before it has begun: what fails half-way is taken back too.
        let outage = Outage::until(&self.engine, &["exec", &self.name, "sh", "-c", end]);
        self.exec(&["sh", "-c", begin]);
        outage
    }

    /// Sends a signal, `stop` `cont` `kill` or `term`, to a program of a Pod on it.
    pub(crate) fn signal(&self, signal: &str, pod: &str, program: &str) {
        self.exec(&["witness", "signal", signal, pod, program]);
    }

    /// What the container of a program of a Pod on it has used.
    pub(crate) fn usage(&self, pod: &str, program: &str) -> Usage {
        serde_json::from_str(&self.exec(&["witness", "usage", pod, program]))
            .expect("the witness tells it so")
    }

    /// Runs a program on it, to its end.
    pub(crate) fn exec(&self, command: &[&str]) -> String {
        self.engine(&[&["exec", &self.name], command].concat())
    }

    fn engine(&self, arguments: &[&str]) -> String {
        let told = run(&self.engine, arguments, "");
        told.unwrap_or_else(|error| panic!("{} {}: {error}", self.engine, arguments.join(" ")))
    }
}

impl Outage {
    /// One that this command ends.
    pub(super) fn until(program: &str, arguments: &[&str]) -> Self {
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
