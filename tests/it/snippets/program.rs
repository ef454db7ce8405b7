//! A loop of the guide, and a process that runs it.
//!
//! Touches a folder of its own and the interpreters on PATH. A missing interpreter fails the test,
//! because a loop that never ran was not tested. A process never outlives its [`Running`].

use rustix::process::{Pid, Signal, kill_process_group};
use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;
use tempfile::TempDir;

const GUIDE: &str = include_str!("../../../docs/guides/applications.md");

/// The program that the shell's loop runs as its step.
const WORK: &str = "#!/bin/sh\necho \"work $1\"\n";

pub(crate) struct Language {
    /// The tag of the fenced block.
    tag: &'static str,
    /// The programs that must be installed.
    tools: &'static [&'static str],
    file: &'static str,
    run: &'static [&'static str],
    /// A loopback address for this language's sidecars only, so that the next one finds its port free.
    pub(crate) address: &'static str,
    /// Whether the loop reads `valid_for_ms`; otherwise it relies on two seconds.
    pub(crate) reads_validity: bool,
}

pub(crate) const PYTHON: Language = Language {
    tag: "py",
    tools: &["python3"],
    file: "loop.py",
    run: &["python3", "loop.py"],
    address: "127.4.0.1:0",
    reads_validity: true,
};

pub(crate) const SHELL: Language = Language {
    tag: "sh",
    tools: &["sh", "curl", "timeout"],
    file: "loop.sh",
    run: &["sh", "loop.sh"],
    address: "127.4.0.5:0",
    reads_validity: false,
};

pub(crate) struct Program {
    pub(crate) language: &'static Language,
    folder: TempDir,
}

impl Program {
    /// Extracts the loop from the guide.
    pub(crate) fn prepare(language: &'static Language) -> Self {
        for tool in language.tools {
            assert!(
                is_installed(tool),
                "cannot run the guide's {} loop: {tool} is not installed",
                language.tag
            );
        }
        let folder = TempDir::with_prefix("baton-loop-").expect("temporary folders can be made");
        fs::write(folder.path().join(language.file), block(language.tag))
            .expect("the folder is new");
        let work = folder.path().join("work");
        fs::write(&work, WORK).expect("the folder is new");
        fs::set_permissions(&work, PermissionsExt::from_mode(0o755)).expect("the file is ours");
        Self { language, folder }
    }

    /// Starts the loop beside the sidecar that listens at `listen`.
    pub(crate) fn start(&self, listen: &str) -> Running {
        let own = self.folder.path();
        let path = env::join_paths(
            [own.to_owned()]
                .into_iter()
                .chain(env::split_paths(&env::var_os("PATH").unwrap_or_default())),
        );
        let words = self.language.run;
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .current_dir(own)
            .env("PATH", path.expect("PATH is a list"))
            .env("BATON_URL", format!("http://{listen}"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        Running::follow(command.spawn().expect("it is installed"))
    }
}

fn is_installed(tool: &str) -> bool {
    env::split_paths(&env::var_os("PATH").unwrap_or_default())
        .any(|folder| folder.join(tool).is_file())
}

/// The only fenced block of the guide with this tag.
fn block(tag: &str) -> &'static str {
    let fence = format!("\n```{tag}\n");
    let mut blocks = GUIDE.split(&fence).skip(1);
    let block = blocks.next().unwrap_or_else(|| panic!("the guide has no block tagged {tag}"));
    assert!(blocks.next().is_none(), "the guide has two blocks tagged {tag}");
    block.split_once("\n```").expect("a block is closed").0
}

/// A process group and its output. Dropping it kills the group.
pub(crate) struct Running {
    child: Mutex<Child>,
    group: Pid,
    lines: Arc<Mutex<Vec<Line>>>,
    readers: Vec<JoinHandle<()>>,
}

struct Line {
    read_at: Instant,
    text: String,
}

impl Running {
    fn follow(mut child: Child) -> Self {
        let lines = Arc::default();
        let readers = vec![
            read(child.stdout.take().expect("it is piped"), &lines),
            read(child.stderr.take().expect("it is piped"), &lines),
        ];
        Self { group: Pid::from_child(&child), child: Mutex::new(child), lines, readers }
    }

    /// The steps so far, each `work TOKEN`.
    pub(crate) fn steps(&self) -> Vec<String> {
        let lines = self.lines.lock().expect("reading lines does not panic");
        lines.iter().filter(|line| line.is_step()).map(|line| line.text.clone()).collect()
    }

    /// When the last step was read: at its end or a little later.
    pub(crate) fn last_step_at(&self) -> Instant {
        let lines = self.lines.lock().expect("reading lines does not panic");
        lines.iter().rev().find(|line| line.is_step()).expect("it has worked").read_at
    }

    pub(crate) fn is_alive(&self) -> bool {
        let mut child = self.child.lock().expect("waiting does not panic");
        child.try_wait().expect("it is our child").is_none()
    }
}

impl Drop for Running {
    #[expect(clippy::print_stderr, reason = "libtest prints it with the failure")]
    fn drop(&mut self) {
        if self.is_alive() {
            kill_process_group(self.group, Signal::KILL).expect("it has not been waited for");
            self.child.lock().expect("waiting does not panic").wait().expect("it is our child");
        }
        for reader in self.readers.drain(..) {
            reader.join().expect("reading lines does not panic");
        }
        if thread::panicking() {
            let lines = self.lines.lock().expect("reading lines does not panic");
            let written =
                lines.iter().fold(String::new(), |written, line| written + &line.text + "\n");
            eprintln!("the loop wrote:\n{written}");
        }
    }
}

impl Line {
    fn is_step(&self) -> bool {
        self.text.starts_with("work ")
    }
}

/// Starts a thread that reads `pipe` until no process holds its other end.
fn read(pipe: impl Read + Send + 'static, lines: &Arc<Mutex<Vec<Line>>>) -> JoinHandle<()> {
    let lines = Arc::clone(lines);
    thread::spawn(move || {
        for text in BufReader::new(pipe).lines().map_while(Result::ok) {
            let line = Line { read_at: Instant::now(), text };
            lines.lock().expect("reading lines does not panic").push(line);
        }
    })
}
