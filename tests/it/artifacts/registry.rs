//! A real OCI registry on loopback, optionally behind a proxy that fails a write, and the tools
//! that read it.
//!
//! Touches processes and a temporary folder. Start with [`Registry::start`].

use super::package::run;
use crate::rig::{Daemon, Scratch, wait_for};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// How long a server may take to start on a busy machine.
const STARTUP: Duration = Duration::from_secs(30);
/// How long a push may take.
const PUSH: Duration = Duration::from_mins(3);

/// The registry chooses a free port, and names it in its log.
const CONFIG: &str = "version: 0.1
storage:
  filesystem: {rootdirectory: DATA}
  delete: {enabled: true}
http: {addr: '127.0.0.1:0', relativeurls: true}
";

/// The URL of the sources, in the provenance.
pub(super) const SOURCE: &str = "https://source.test/baton";

/// The repositories of a release.
pub(super) const REPOSITORIES: [&str; 4] =
    ["baton", "baton-demo", "charts/baton", "charts/baton-sidecar"];

/// A fault of the proxy in a write of a manifest or a tag. Writes have numbers from 1.
pub(super) enum Fault {
    None,
    /// The registry does not apply it, and says so.
    Refused(usize),
    /// The registry applies it, and the client sees an error.
    AnswerLost(usize),
    /// The registry applies it, and the client waits until it is interrupted.
    Interrupted(usize),
    /// The registry is away from this write on.
    Away(usize),
}

pub(super) struct Registry {
    address: String,
    _server: Daemon,
    folder: Scratch, // the last field: dropped after the server that writes to it
}

impl Registry {
    /// Starts an empty registry, with a key for signatures beside it.
    pub(super) fn start() -> Self {
        let folder = Scratch::new();
        let (config, log) = (folder.path().join("config.yaml"), folder.path().join("log"));
        let data = folder.path().join("data").display().to_string();
        fs::write(&config, CONFIG.replace("DATA", &data)).unwrap();
        let flags = vec!["serve".to_owned(), config.display().to_string()];
        let program = Path::new(ROOT).join(".cache/registry/registry");
        assert!(program.exists(), "run tests/servers/registry/build.sh");
        let server = Daemon::start(program, flags, &log);
        let address = wait_for(STARTUP, "the registry listens", || {
            let log = fs::read_to_string(&log).unwrap_or_default();
            let address = log.split("listening on ").nth(1)?;
            Some(address.split(['"', ' ', '\n']).next()?.to_owned())
        });
        make_keys(folder.path());
        Self { address, _server: server, folder }
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn public_key(&self) -> PathBuf {
        self.folder().join("cosign.pub")
    }

    /// The name of a repository below `path`, with the port of the registry itself.
    pub(super) fn name(&self, path: &str, repository: &str) -> String {
        format!("{}/{path}/{repository}", self.address)
    }

    /// The versions in a repository, without the tags that signatures have in registries that list
    /// no referrers.
    pub(super) fn versions(&self, path: &str, repository: &str) -> Vec<String> {
        let output = tool("crane").arg("ls").arg(self.name(path, repository)).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() || errors.contains("NAME_UNKNOWN"), "{errors}");
        let tags = String::from_utf8(output.stdout).unwrap();
        tags.lines().filter(|tag| !tag.starts_with("sha256-")).map(str::to_owned).collect()
    }

    /// Runs `release/push.sh` to a path of this registry. Returns whether it succeeded, and its
    /// output.
    pub(super) fn push(&self, path: &str) -> (bool, String) {
        self.push_to(&format!("{}/{path}", self.address))
    }

    /// The same through a proxy that fails the write with this number, from 1. Returns the paths of
    /// all writes, too.
    pub(super) fn push_failing(&self, path: &str, fault: &Fault) -> (bool, String, Vec<String>) {
        let log = self.folder().join(format!("{path}.writes"));
        let proxy = Path::new(ROOT).join("tests/servers/registry/fault.py");
        let (word, number) = match fault {
            Fault::None => ("refuse", 0),
            Fault::Refused(number) => ("refuse", *number),
            Fault::AnswerLost(number) => ("lose", *number),
            Fault::Interrupted(number) => ("hang", *number),
            Fault::Away(number) => ("leave", *number),
        };
        let flags = vec![self.address.clone(), word.to_owned(), number.to_string()];
        let _proxy = Daemon::start(proxy, flags, &log);
        let lines = || -> Vec<String> {
            let text = fs::read_to_string(&log).unwrap_or_default();
            text.lines().map(str::to_owned).collect()
        };
        let port = wait_for(STARTUP, "the proxy listens", || lines().into_iter().next());
        let push = self.start_push(&format!("127.0.0.1:{port}/{path}"));
        if let Fault::Interrupted(number) = fault {
            wait_for(PUSH, "the push hangs", || (lines().len() > *number).then_some(()));
            let group = Pid::from_child(&push);
            kill_process_group(group, Signal::TERM).unwrap();
        }
        let (succeeded, output) = ended(push);
        (succeeded, output, lines().split_off(1))
    }

    fn push_to(&self, registry: &str) -> (bool, String) {
        ended(self.start_push(registry))
    }

    /// Starts `release/push.sh` as the leader of its process group, which a terminal interrupts.
    fn start_push(&self, registry: &str) -> Child {
        let release = self.folder().join("release");
        if !release.exists() {
            let mut images = Command::new(Path::new(ROOT).join("tests/servers/registry/images.py"));
            let mut describe = Command::new("git");
            describe.args(["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]);
            let revision = run(describe.current_dir(ROOT));
            images.args([env!("CARGO_PKG_VERSION"), revision.trim()]).arg(&release);
            run(images.env("SOURCE_DATE_EPOCH", "1700000000"));
        }
        let mut push = Command::new(Path::new(ROOT).join("release/push.sh"));
        push.arg(&release).arg(registry);
        push.env("KEY", self.folder().join("cosign.key")).env("COSIGN_PASSWORD", "");
        push.env("SOURCE", SOURCE).process_group(0);
        push.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Changes one bit of a stored blob, as a broken disk or an attacker may.
    pub(super) fn change(&self, digest: &str) {
        let hex = digest.strip_prefix("sha256:").unwrap();
        let blobs = self.folder().join("data/docker/registry/v2/blobs/sha256");
        let blob = blobs.join(&hex[..2]).join(hex).join("data");
        let mut content = fs::read(&blob).unwrap();
        *content.last_mut().unwrap() ^= 1;
        fs::write(&blob, content).unwrap();
    }
}

/// Waits for the end of a push. Returns whether it succeeded, and its output.
fn ended(push: Child) -> (bool, String) {
    let output = push.wait_with_output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.success(), text)
}

/// Writes cosign.key, without a password, and cosign.pub into this folder.
pub(super) fn make_keys(folder: &Path) {
    run(tool("cosign").arg("generate-key-pair").current_dir(folder));
}

/// crane or cosign, as `release/tools.sh` builds them.
pub(super) fn tool(name: &str) -> Command {
    let program = Path::new(ROOT).join(".cache/tools/release").join(name);
    assert!(program.exists(), "run release/tools.sh {name}");
    let mut command = Command::new(program);
    command.env("COSIGN_PASSWORD", "");
    command
}

/// `helm3` or `helm4`, without this user's settings.
pub(super) fn helm(registry: &Registry, version: &str) -> Command {
    let mut command = Command::new(Path::new(ROOT).join(".cache/charts").join(version));
    command.env_clear().env("HOME", registry.folder()).current_dir(registry.folder());
    command
}

/// A shell in this folder, which finds Helm, crane, and cosign.
pub(super) fn shell(folder: &Path, script: &str) -> Command {
    let programs = folder.join("bin");
    fs::create_dir_all(&programs).unwrap();
    for (name, program) in [
        ("helm", "charts/helm4"),
        ("crane", "tools/release/crane"),
        ("cosign", "tools/release/cosign"),
    ] {
        let _exists = symlink(Path::new(ROOT).join(".cache").join(program), programs.join(name));
    }
    let mut command = Command::new("bash");
    command.args(["-eux", "-o", "pipefail", "-c", script]).current_dir(folder).env_clear();
    command.env("HOME", folder).env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
    command
}

/// The commands of a section of a page.
pub(super) fn commands(page: &str, title: &str) -> String {
    let page = crate::docs::read(page);
    let section = page.split(&format!("\n## {title}\n")).nth(1).expect("the section exists");
    let section = section.split("\n## ").next().unwrap();
    let blocks = section.split("```sh\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap()).collect()
}
