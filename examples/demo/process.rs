//! A child process that never outlives the demo.
//!
//! Start with [`Process::start`]. Dropping a [`Process`] kills it and waits for it. If the demo
//! itself is killed, the kernel kills its children: see [`guarded`].

use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::io::{self, BufRead as _, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Instant;

#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    kill_at: Option<Instant>,
}

impl Process {
    /// Starts `command` and passes each line of its output to `on_line`. The process gets its own
    /// process group, so that Ctrl-C reaches only the demo.
    pub(crate) fn start(
        mut command: Command,
        on_line: impl Fn(String) + Clone + Send + 'static,
    ) -> io::Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        if let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) {
            read_lines(stdout, on_line.clone());
            read_lines(stderr, on_line);
        }
        Ok(Self { child, kill_at: None })
    }

    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        // The id cannot have been reused: only `reap` and `drop` wait for this child.
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Schedules SIGKILL, which [`reap`](Self::reap) sends.
    pub(crate) fn kill_at(&mut self, instant: Instant) {
        self.kill_at = Some(instant);
    }

    /// The exit status, once the process has exited.
    pub(crate) fn reap(&mut self, now: Instant) -> io::Result<Option<ExitStatus>> {
        if self.kill_at.is_some_and(|instant| instant <= now) {
            self.child.kill()?;
        }
        self.child.try_wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Neither call fails: nothing else waits for this child.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A command whose process the kernel kills when the thread that started it ends, so that even
/// SIGKILL to the demo leaves no child behind. Safe Rust cannot request this; util-linux's
/// `setpriv` does. Without it the command runs unguarded.
pub(crate) fn guarded(program: &OsStr, has_setpriv: bool) -> Command {
    if !has_setpriv {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command
}

/// Whether there is a `setpriv` that supports `--pdeathsig`; that of busybox does not.
pub(crate) fn has_setpriv() -> bool {
    let mut probe = guarded(OsStr::new("true"), true);
    probe.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Starts a thread that reads a pipe until the process closes it.
fn read_lines(pipe: impl Read + Send + 'static, on_line: impl Fn(String) + Send + 'static) {
    thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            on_line(String::from_utf8_lossy(&line).into_owned());
        }
    });
}
