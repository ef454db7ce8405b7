//! Starting a sidecar: its flags, and the log line that says where it listens.

use super::candidate::Candidate;
use super::history::wait_for;
use super::process::Process;
use super::starter::mortal;
use super::{Access, CpuQuota, ELECTION, Files, Names, Pod, Rig, Store, Stranger};
use std::collections::BTreeMap;
use std::env;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// How long a start may take on a busy machine.
const STARTUP: Duration = Duration::from_secs(10);

/// Where commands find their programs.
const SYSTEM_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/// Executes a program beside a bystander, below a PID 1 of its own. Its cgroups are read-only.
const IN_SHARED_NAMESPACE: &str =
    "mount -t tmpfs -o ro tmpfs /sys/fs/cgroup; sleep 1000 & \"$0\" \"$@\" & wait $!";

/// The sidecar's program: the one that was built with the tests, or another build of it.
pub(super) fn program() -> String {
    env::var("BATON_PROGRAM").unwrap_or_else(|_| env!("CARGO_BIN_EXE_baton").to_owned())
}

/// A sidecar about to be started.
pub(crate) struct Start<'a, S: Store = Files> {
    rig: &'a Rig<S>,
    name: String,
    unpolled: bool,
    environment: Environment<'a>,
    flags: BTreeMap<&'static str, String>,
    /// The command that it runs while it leads.
    command: Vec<String>,
}

/// The environment of a sidecar.
#[derive(Clone, Copy)]
enum Environment<'a> {
    Machine,
    Names(&'a Names),
    Pod(&'a Pod),
    PidNamespace,
    SharedPidNamespace,
    Quota(&'a CpuQuota),
    User(&'a Stranger),
}

impl<'a, S: Store> Start<'a, S> {
    pub(crate) fn new(rig: &'a Rig<S>, name: &str) -> Self {
        let timing = rig.timing;
        let flags = rig.store.flags();
        let start = Self {
            rig,
            name: name.to_owned(),
            unpolled: false,
            environment: Environment::Machine,
            flags,
            command: Vec::new(),
        };
        start
            .flag("--election", ELECTION)
            .flag("--lease-duration", format!("{:?}", timing.lease_duration))
            .flag("--renew-deadline", format!("{:?}", timing.renew_deadline))
            .flag("--retry-period", format!("{:?}", timing.retry_period))
            .flag("--answer-validity", format!("{:?}", timing.answer_validity))
            .flag("--listen", "127.0.0.1:0")
            .flag("--probe-listen", "127.0.0.1:0")
            .flag("--log-format", "json")
            .flag("--identity-prefix", name)
    }

    /// Sets a flag, replacing an earlier value.
    pub(crate) fn flag(mut self, flag: &'static str, value: impl Into<String>) -> Self {
        self.flags.insert(flag, value.into());
        self
    }

    pub(crate) fn election(self, name: &str) -> Self {
        self.flag("--election", name)
    }

    /// Uses another route to the API server, or another of its users.
    pub(crate) fn by(self, access: &Access) -> Self {
        self.flag("--kubeconfig", access.kubeconfig_path())
    }

    /// Runs in a Pod, with the Pod's name and only what Kubernetes provides there.
    pub(crate) fn within(mut self, pod: &'a Pod) -> Self {
        for flag in ["--backend", "--kubeconfig", "--identity-prefix"] {
            self.flags.remove(flag);
        }
        self.environment = Environment::Pod(pod);
        self
    }

    /// Runs where these host names, and no others, can be resolved.
    pub(crate) fn knowing(mut self, names: &'a Names) -> Self {
        self.environment = Environment::Names(names);
        self
    }

    /// Runs as another user of this machine.
    pub(crate) fn run_by(mut self, user: &'a Stranger) -> Self {
        self.environment = Environment::User(user);
        self
    }

    pub(crate) fn directory(self, directory: &Path) -> Self {
        self.flag("--directory", path(directory))
    }

    pub(crate) fn state_directory(self, directory: &Path) -> Self {
        self.flag("--state-directory", path(directory))
    }

    /// Runs a shell script while it leads.
    pub(crate) fn running(mut self, script: &str) -> Self {
        self.command = ["sh", "-c", script].map(str::to_owned).to_vec();
        self
    }

    /// Runs as PID 1 of a PID namespace, as in a container.
    pub(crate) fn first_of_a_namespace(mut self) -> Self {
        self.environment = Environment::PidNamespace;
        self
    }

    /// Runs in a PID namespace whose PID 1 is another process, beside a bystander, as with
    /// `shareProcessNamespace`.
    pub(crate) fn in_a_shared_namespace(mut self) -> Self {
        self.environment = Environment::SharedPidNamespace;
        self
    }

    /// Runs under a CPU quota, together with its command.
    pub(crate) fn under(mut self, quota: &'a CpuQuota) -> Self {
        self.environment = Environment::Quota(quota);
        self
    }

    /// Its application never polls, so the prober requests no promise.
    pub(crate) fn unpolled(mut self) -> Self {
        self.unpolled = true;
        self
    }

    /// Starts it, and returns once it has logged where it listens.
    #[track_caller]
    pub(crate) fn start(self) -> Arc<Candidate> {
        let process = self.spawn();
        let first_line = wait_for(STARTUP, "the sidecar logs that it starts", || {
            let end = process.ended();
            let first_line = process.events("starting").pop();
            if first_line.is_none() && end.is_some() {
                let end = process.unexpected_end().expect("no test has read the exit code");
                panic!("{end}; output:\n{}", process.output());
            }
            first_line
        });
        let field = |name: &str| {
            first_line[name].as_str().expect("the first line has the field").to_owned()
        };
        self.rig.add(Candidate {
            election: field("election"),
            identity: field("identity"),
            listen: field("listen"),
            probe_listen: field("probe_listen"),
            unpolled: self.unpolled,
            process,
        })
    }

    /// Starts one that ends before it takes part. Returns its exit code and its output.
    #[track_caller]
    pub(crate) fn ends(self) -> (i32, String) {
        let process = self.spawn();
        (process.exit_code(), process.output())
    }

    fn spawn(&self) -> Process {
        let program = &*program();
        let mut command = match self.environment {
            Environment::Machine => {
                let mut command = mortal(program);
                command.env_clear();
                command
            }
            Environment::Names(names) => names.command(program),
            Environment::Pod(pod) => pod.command(&self.name, program),
            Environment::PidNamespace => in_pid_namespace(&[program]),
            Environment::SharedPidNamespace => {
                in_pid_namespace(&["sh", "-c", IN_SHARED_NAMESPACE, program])
            }
            Environment::Quota(quota) => quota.command(program),
            Environment::User(user) => user.command(Stranger::baton()),
        };
        command.arg(if self.command.is_empty() { "run" } else { "exec" });
        command.args(self.flags.iter().flat_map(|(flag, value)| [*flag, value]));
        if !self.command.is_empty() {
            command.env("PATH", SYSTEM_PATH).arg("--").args(&self.command);
        }
        Process::spawn(&self.name, command, &self.rig.journal)
    }
}

/// A command that executes `program` as PID 1 of a PID namespace.
fn in_pid_namespace(program: &[&str]) -> Command {
    let mut command = mortal("unshare");
    command.env_clear().env("PATH", SYSTEM_PATH);
    // The user namespace makes it work without root.
    command.args(["--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.args(program);
    command
}

fn path(path: &Path) -> String {
    path.to_str().expect("the paths of the rig are UTF-8").to_owned()
}
