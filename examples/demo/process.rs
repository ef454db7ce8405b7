//! One child process, which ends when its owner does.
//!
//! Dropping a [`Process`] kills it by its id and waits for it, whatever state it is in. That the demo
//! itself may be killed is covered by the kernel: see [`guarded`].

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
    /// Starts it, with each line of its output going to `hear`. It has a process group of its own, so that
    /// Ctrl-C reaches the demo alone.
    pub(crate) fn start(
        mut command: Command,
        hear: impl Fn(String) + Clone + Send + 'static,
    ) -> io::Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        if let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) {
            read_lines(stdout, hear.clone());
            read_lines(stderr, hear);
        }
        Ok(Self { child, kill_at: None })
    }

    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        // The id is still ours: nobody but us waits for this child, and only `reap` and `drop` do.
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Lets it live until then, and not longer.
    pub(crate) fn kill_at(&mut self, instant: Instant) {
        self.kill_at = Some(instant);
    }

    /// How it ended, if it has.
    pub(crate) fn reap(&mut self, now: Instant) -> io::Result<Option<ExitStatus>> {
        if self.kill_at.is_some_and(|instant| instant <= now) {
            self.child.kill()?;
        }
        self.child.try_wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Neither fails for a child that we alone wait for.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A command whose process the kernel kills as soon as the thread that starts it ends: even SIGKILL to the
/// demo leaves no child behind. Without unsafe code only another program can ask for that, and util-linux
/// has one, `setpriv`. Where it is missing the command runs without that guard.
pub(crate) fn guarded(program: &OsStr, has_setpriv: bool) -> Command {
    if !has_setpriv {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command
}

/// Whether there is a `setpriv` that can do it; that of busybox cannot.
pub(crate) fn has_setpriv() -> bool {
    let mut trial = guarded(OsStr::new("true"), true);
    trial.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// A thread for each pipe: it ends with the process that holds the other end.
fn read_lines(pipe: impl Read + Send + 'static, hear: impl Fn(String) + Send + 'static) {
    thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            hear(String::from_utf8_lossy(&line).into_owned());
        }
    });
}
