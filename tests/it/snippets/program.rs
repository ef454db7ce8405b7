//! A loop cut out of README.md, and a process that runs it.
//!
//! Touches a folder of its own and the interpreters on PATH. One that is missing is a failure with a name, for a
//! loop that was not run was not shown to be right. A process never outlives its [`Running`].

use crate::rig::wait_for;
use rustix::process::{Pid, Signal, kill_process_group};
use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const README: &str = include_str!("../../../README.md");
const SECTION: &str = "Ask before you act";

/// How long a compiler may take that has to build its standard library first.
const COMPILING: Duration = Duration::from_mins(2);

/// The shell's loop runs its step as a program: this one.
const WORK: &str = "#!/bin/sh\necho \"work $1\"\n";

pub(crate) struct Language {
    /// What the fenced block is tagged with.
    tag: &'static str,
    /// What has to be installed.
    tools: &'static [&'static str],
    file: &'static str,
    compile: &'static [&'static str],
    run: &'static [&'static str],
    /// A loopback address for its sidecar alone, where the port is free again for the next sidecar.
    pub(crate) address: &'static str,
    /// Whether the loop knows how long an answer holds; otherwise it counts on two seconds.
    pub(crate) reads_validity: bool,
}

pub(crate) const PYTHON: Language = Language {
    tag: "python",
    tools: &["python3"],
    file: "loop.py",
    compile: &[],
    run: &["python3", "loop.py"],
    address: "127.4.0.1:0",
    reads_validity: true,
};

pub(crate) const GO: Language = Language {
    tag: "go",
    tools: &["go"],
    file: "loop.go",
    compile: &["go", "build", "-o", "go-loop", "loop.go"],
    run: &["go-loop"],
    address: "127.4.0.2:0",
    reads_validity: true,
};

pub(crate) const JAVA: Language = Language {
    tag: "java",
    tools: &["java"],
    file: "Loop.java",
    compile: &[],
    // Without performance data, of which a killed machine leaves a file behind.
    run: &["java", "-XX:-UsePerfData", "Loop.java"],
    address: "127.4.0.3:0",
    reads_validity: true,
};

pub(crate) const NODE: Language = Language {
    tag: "js",
    tools: &["node"],
    file: "loop.mjs",
    compile: &[],
    run: &["node", "loop.mjs"],
    address: "127.4.0.4:0",
    reads_validity: true,
};

pub(crate) const SHELL: Language = Language {
    tag: "sh",
    tools: &["sh", "curl", "timeout"],
    file: "loop.sh",
    compile: &[],
    run: &["sh", "loop.sh"],
    address: "127.4.0.5:0",
    reads_validity: false,
};

pub(crate) struct Program {
    pub(crate) language: &'static Language,
    folder: TempDir,
}

impl Program {
    /// Cuts the loop out of README.md, and compiles it where that has to be done.
    pub(crate) fn prepare(language: &'static Language) -> Self {
        for tool in language.tools {
            assert!(
                is_installed(tool),
                "README's {} loop cannot be run: {tool} is not installed",
                language.tag
            );
        }
        let folder = TempDir::with_prefix("baton-loop-").expect("temporary folders can be made");
        fs::write(folder.path().join(language.file), block(language.tag))
            .expect("the folder is new");
        let work = folder.path().join("work");
        fs::write(&work, WORK).expect("the folder is new");
        fs::set_permissions(&work, PermissionsExt::from_mode(0o755)).expect("the file is ours");
        let program = Self { language, folder };
        if !language.compile.is_empty() {
            let compiler = program.spawn(language.compile, "");
            let succeeded = wait_for(COMPILING, "the loop is compiled", || compiler.ended());
            assert!(succeeded, "README's {} loop does not compile", language.tag);
        }
        program
    }

    /// Starts the loop beside the sidecar that listens at `listen`.
    pub(crate) fn start(&self, listen: &str) -> Running {
        self.spawn(self.language.run, &format!("http://{listen}/leader"))
    }

    fn spawn(&self, words: &[&str], url: &str) -> Running {
        let own = self.folder.path();
        let path = env::join_paths(
            [own.to_owned()]
                .into_iter()
                .chain(env::split_paths(&env::var_os("PATH").unwrap_or_default())),
        );
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .current_dir(own)
            .env("PATH", path.expect("PATH is a list"))
            .env("BATON_URL", url);
        // Nothing of a compiler that is killed stays behind elsewhere.
        command.env("GOTMPDIR", own);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        Running::follow(command.spawn().expect("it is installed"))
    }
}

fn is_installed(tool: &str) -> bool {
    env::split_paths(&env::var_os("PATH").unwrap_or_default())
        .any(|folder| folder.join(tool).is_file())
}

/// The only block of the section that is fenced with this tag.
fn block(tag: &str) -> &'static str {
    let (_, section) =
        README.split_once(&format!("\n## {SECTION}\n")).expect("README has the section");
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let fence = format!("\n```{tag}\n");
    let mut blocks = section.split(&fence).skip(1);
    let block = blocks
        .next()
        .unwrap_or_else(|| panic!("the section {SECTION:?} has no block tagged {tag}"));
    assert!(blocks.next().is_none(), "the section {SECTION:?} has two blocks tagged {tag}");
    block.split_once("\n```").expect("a block is closed").0
}

/// A process group and what it wrote. It ends with this value.
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

    /// What it did: `work TOKEN` for each step.
    pub(crate) fn steps(&self) -> Vec<String> {
        let lines = self.lines.lock().expect("reading lines does not panic");
        lines.iter().filter(|line| line.is_step()).map(|line| line.text.clone()).collect()
    }

    /// When it did its last step, or a little later.
    pub(crate) fn last_step_at(&self) -> Instant {
        let lines = self.lines.lock().expect("reading lines does not panic");
        lines.iter().rev().find(|line| line.is_step()).expect("it has worked").read_at
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.ended().is_none()
    }

    /// Whether it succeeded, once it has ended.
    fn ended(&self) -> Option<bool> {
        let mut child = self.child.lock().expect("waiting does not panic");
        child.try_wait().expect("it is our child").map(|status| status.success())
    }
}

impl Drop for Running {
    #[expect(clippy::print_stderr, reason = "libtest shows it with the failure that is on its way")]
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
            eprintln!("what was written:\n{written}");
        }
    }
}

impl Line {
    fn is_step(&self) -> bool {
        self.text.starts_with("work ")
    }
}

/// A thread for each pipe: it ends with the processes that hold the other end.
fn read(pipe: impl Read + Send + 'static, lines: &Arc<Mutex<Vec<Line>>>) -> JoinHandle<()> {
    let lines = Arc::clone(lines);
    thread::spawn(move || {
        for text in BufReader::new(pipe).lines().map_while(Result::ok) {
            let line = Line { read_at: Instant::now(), text };
            lines.lock().expect("reading lines does not panic").push(line);
        }
    })
}
