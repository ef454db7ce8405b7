//! Starting a sidecar: its flags, and the first line that says where it listens.

use super::candidate::Candidate;
use super::judge::wait_for;
use super::process::Process;
use super::starter::mortal;
use super::{Access, ELECTION, Files, Names, Pod, Rig, Store, Stranger};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long a start may take on a busy machine.
const STARTUP: Duration = Duration::from_secs(10);

/// A sidecar about to be started.
pub(crate) struct Start<'a, S: Store = Files> {
    rig: &'a Rig<S>,
    name: String,
    unasked: bool,
    around: Around<'a>,
    flags: BTreeMap<&'static str, String>,
}

/// What a sidecar finds around it.
#[derive(Clone, Copy)]
enum Around<'a> {
    Machine,
    Names(&'a Names),
    Pod(&'a Pod),
    User(&'a Stranger),
}

impl<'a, S: Store> Start<'a, S> {
    pub(crate) fn new(rig: &'a Rig<S>, name: &str) -> Self {
        let timing = rig.timing;
        let flags = rig.store.flags();
        let start =
            Self { rig, name: name.to_owned(), unasked: false, around: Around::Machine, flags };
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

    /// Sets a flag, over what is set already.
    pub(crate) fn flag(mut self, flag: &'static str, value: impl Into<String>) -> Self {
        self.flags.insert(flag, value.into());
        self
    }

    pub(crate) fn election(self, name: &str) -> Self {
        self.flag("--election", name)
    }

    /// By another way to the API server, or as another of its users.
    pub(crate) fn by(self, access: &Access) -> Self {
        self.flag("--kubeconfig", access.kubeconfig_path())
    }

    /// In a Pod, with nothing but what Kubernetes tells it there, and its name.
    pub(crate) fn within(mut self, pod: &'a Pod) -> Self {
        for flag in ["--backend", "--kubeconfig", "--identity-prefix"] {
            self.flags.remove(flag);
        }
        self.around = Around::Pod(pod);
        self
    }

    /// Where these names of hosts are known, and no others.
    pub(crate) fn knowing(mut self, names: &'a Names) -> Self {
        self.around = Around::Names(names);
        self
    }

    /// As another user of this machine.
    pub(crate) fn run_by(mut self, user: &'a Stranger) -> Self {
        self.around = Around::User(user);
        self
    }

    pub(crate) fn directory(self, directory: &Path) -> Self {
        self.flag("--directory", path(directory))
    }

    pub(crate) fn state_directory(self, directory: &Path) -> Self {
        self.flag("--state-directory", path(directory))
    }

    /// Its application never asks: the prober looks on only.
    pub(crate) fn unasked(mut self) -> Self {
        self.unasked = true;
        self
    }

    /// Starts it, and returns once it has said where it listens.
    #[track_caller]
    pub(crate) fn start(self) -> Arc<Candidate> {
        let process = self.spawn();
        let first_line = wait_for(STARTUP, "the sidecar says that it starts", || {
            let end = process.ended();
            let first_line = process.events("starting").pop();
            if first_line.is_none() && end.is_some() {
                let end = process.unexpected_end().expect("no test has asked for it");
                panic!("{end}, and at its start:\n{}", process.output());
            }
            first_line
        });
        let field =
            |name: &str| first_line[name].as_str().expect("the first line has it").to_owned();
        self.rig.admit(Candidate {
            election: field("election"),
            identity: field("identity"),
            listen: field("listen"),
            probe_listen: field("probe_listen"),
            unasked: self.unasked,
            process,
        })
    }

    /// Starts one that ends by itself, before it takes part: its exit code, and what it wrote.
    #[track_caller]
    pub(crate) fn ends(self) -> (i32, String) {
        let process = self.spawn();
        (process.exit_code(), process.output())
    }

    fn spawn(&self) -> Process {
        let program = env!("CARGO_BIN_EXE_baton");
        let mut command = match self.around {
            Around::Machine => {
                let mut command = mortal(program);
                command.env_clear();
                command
            }
            Around::Names(names) => names.command(program),
            Around::Pod(pod) => pod.command(&self.name, program),
            Around::User(user) => user.command(Stranger::baton()),
        };
        command.arg("run").args(self.flags.iter().flat_map(|(flag, value)| [*flag, value]));
        Process::spawn(&self.name, command, &self.rig.journal)
    }
}

fn path(path: &Path) -> String {
    path.to_str().expect("the paths of the rig are UTF-8").to_owned()
}
