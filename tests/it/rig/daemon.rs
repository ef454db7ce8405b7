//! A server beside the tests: it is started, paused, killed, and restarted, and ends with the test
//! binary.

use super::starter::{mortal, start};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// How many lines of its log are shown if it ends unexpectedly.
const LAST_LINES: usize = 20;

pub(crate) struct Daemon {
    program: PathBuf,
    flags: Vec<String>,
    log: PathBuf,
    child: Child,
}

impl Daemon {
    pub(crate) fn start(program: PathBuf, flags: Vec<String>, log: &Path) -> Self {
        let child = spawn(&program, &flags, log);
        Self { program, flags, log: log.to_owned(), child }
    }

    /// Kills it if it is running, and starts this program in its place.
    pub(crate) fn replace(&mut self, program: PathBuf) {
        self.program = program;
        self.restart();
    }

    /// Kills it if it is running, and starts it again.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.child = spawn(&self.program, &self.flags, &self.log);
    }

    /// Sends SIGKILL and waits for the end. Does nothing if it has ended already.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it is our child");
        self.child.wait().expect("it is our child");
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&mut self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGSTOP: it keeps its connections but answers nothing.
    pub(crate) fn pause(&mut self) {
        self.signal(Signal::STOP);
    }

    /// Sends SIGCONT.
    pub(crate) fn resume(&mut self) {
        self.signal(Signal::CONT);
    }

    /// Sends a signal unless it has ended. Returns whether it did.
    pub(crate) fn try_signal(&mut self, signal: Signal) -> bool {
        let runs = !self.has_ended();
        if runs {
            kill_process(Pid::from_child(&self.child), signal).expect("it has not been waited for");
        }
        runs
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_some()
    }

    /// Its exit code, or `None` while it runs.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.child.try_wait().expect("it is our child")?.code()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Panics with the end of its log if it has ended.
    #[track_caller]
    pub(crate) fn assert_alive(&mut self) {
        if let Some(status) = self.child.try_wait().expect("it is our child") {
            panic!("{} ended with {status}:\n{}", self.program.display(), last_lines(&self.log));
        }
    }

    fn signal(&mut self, signal: Signal) {
        self.assert_alive();
        kill_process(Pid::from_child(&self.child), signal).expect("it has not been waited for");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(program: &Path, flags: &[String], log: &Path) -> Child {
    let log = File::options().create(true).append(true).open(log).expect("the folder is ours");
    let mut command = mortal(program);
    command.args(flags).stdin(Stdio::null());
    command.stdout(log.try_clone().expect("a file can be cloned")).stderr(log);
    start(command)
}

fn last_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}
