//! An empty FUSE file system in a user and mount namespace. Like sshfs, it may be remote although
//! it looks local.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Answers the kernel's requests (`linux/fuse.h`): the attributes of the root, that it is empty,
/// and its size.
const SERVER: &str = r#"
import os, struct, subprocess, sys
fuse = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={fuse},rootmode=40755,user_id=0,group_id=0"
subprocess.run(["mount", "-i", "-t", "fuse", "-o", options, "empty", sys.argv[1]], check=True, pass_fds=[fuse])
os.write(1, b"mounted\n")
LOOKUP, FORGET, GETATTR, STATFS, INIT, OPENDIR, BATCH_FORGET = 1, 2, 3, 17, 26, 27, 42
attributes = struct.pack("<QII", 1, 0, 0) + struct.pack("<6Q", 1, 0, 0, 0, 0, 0) + struct.pack(
    "<10I", 0, 0, 0, 0o40755, 2, 0, 0, 0, 4096, 0)
answers = {
    GETATTR: attributes,
    STATFS: struct.pack("<5Q4I24x", 1, 1, 1, 1, 1, 4096, 255, 4096, 0),
    INIT: struct.pack("<4I2HI40x", 7, 31, 0, 0, 1, 1, 4096),
    OPENDIR: struct.pack("<QII", 0, 0, 0),
}
while request := os.read(fuse, 1 << 16):
    operation, unique = struct.unpack_from("<IQ", request, 4)
    if operation in (FORGET, BATCH_FORGET):
        continue
    answer = answers.get(operation, b"")
    error = 0 if answer else -2 if operation == LOOKUP else -38
    os.write(fuse, struct.pack("<IiQ", 16 + len(answer), error, unique) + answer)
"#;

pub(crate) struct Fuse {
    server: Child,
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
        let output = server.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("it writes text");
        assert_eq!(line, "mounted\n", "`unshare -rm` and FUSE must be permitted");
        let path = format!("/proc/{}/root{}", server.id(), at.display()).into();
        Some(Self { server, path })
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        self.server.kill().expect("it is our child");
        self.server.wait().expect("it is our child");
    }
}
