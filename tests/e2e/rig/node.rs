//! A node of the cluster, which is a container of an engine: what can be done to it from outside.

use super::command::run;

/// The programs in it are reached by the engine, whatever becomes of its network.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(super) engine: String,
    pub(crate) name: String,
}

impl Node {
    /// Cuts it off from everybody else. What runs on it runs on, and reaches what is in its own Pod.
    pub(crate) fn cut_off(&self) {
        self.firewall("--insert");
    }

    /// Undoes that.
    pub(crate) fn join_again(&self) {
        self.firewall("--delete");
    }

    fn firewall(&self, change: &str) {
        for (chain, direction) in [
            ("INPUT", "--in-interface"),
            ("OUTPUT", "--out-interface"),
            ("FORWARD", "--in-interface"),
            ("FORWARD", "--out-interface"),
        ] {
            self.exec(&["iptables", change, chain, direction, "eth0", "--jump", "DROP"]);
        }
    }

    /// Takes its power away: everything on it is gone at once.
    pub(crate) fn switch_off(&self) {
        self.engine(&["kill", &self.name]);
    }

    /// Gives it back.
    pub(crate) fn switch_on(&self) {
        self.engine(&["start", &self.name]);
    }

    /// Sends a signal, `stop` `cont` `kill` or `term`, to a program of a Pod on it.
    pub(crate) fn signal(&self, signal: &str, pod: &str, program: &str) {
        self.exec(&["witness", "signal", signal, pod, program]);
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
