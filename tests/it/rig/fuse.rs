//! A FUSE file system in a user and mount namespace, empty at first. Like sshfs, it may be remote
//! although it looks local, and it may hang.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Keeps one directory in memory, and answers the kernel's requests (`linux/fuse.h`).
const SERVER: &str = include_str!("fuse/server.py");

pub(crate) struct Fuse {
    server: Child,
    output: BufReader<ChildStdout>,
    /// The mount, as every process reaches it; only the namespace sees it at its own path.
    pub(crate) path: PathBuf,
}

impl Fuse {
    /// Mounts over the folder `at`, visible in the namespace only; `None` if /dev/fuse cannot be
    /// opened.
    #[expect(clippy::print_stderr, reason = "a skipped test must say that it was skipped")]
    pub(crate) fn mount(at: &Path) -> Option<Self> {
        if let Err(error) = std::fs::File::options().read(true).write(true).open("/dev/fuse") {
            eprintln!("skipped: /dev/fuse: {error}");
            return None;
        }
        let mut command = Command::new("unshare");
        // Entering a namespace clears the parent-death signal, so `setpriv` sets it inside.
        command.args(["-rm", "setpriv", "--pdeathsig", "KILL", "python3", "-c", SERVER]).arg(at);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut server = command.spawn().expect("util-linux is installed");
        let mut line = String::new();
        let mut output = BufReader::new(server.stdout.take().expect("it is piped"));
        output.read_line(&mut line).expect("it writes text");
        assert_eq!(line, "mounted\n", "`unshare -rm` and FUSE must be permitted");
        let path = format!("/proc/{}/root{}", server.id(), at.display()).into();
        Some(Self { server, output, path })
    }

    /// Makes every later call to the file system hang.
    pub(crate) fn hang(&mut self) {
        kill_process(Pid::from_child(&self.server), Signal::USR1).expect("it is our child");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it writes text");
        assert_eq!(line, "hung\n");
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        self.server.kill().expect("it is our child");
        self.server.wait().expect("it is our child");
    }
}
