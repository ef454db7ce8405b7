//! A task of the sidecar panics: the process ends, and the log does not blame the store.

use crate::rig::{Delay, eventually, may_trace_a_sidecar, wait_for};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

/// Newer kernels provide randomness without a system call (vDSO) for up to a minute.
const PANICS: Duration = Duration::from_secs(75);

/// Makes writes fail: each draws a random name, on a thread of its own.
fn without_randomness(pid: u32) -> Delay {
    Delay::failure_of_all_threads(pid, "getrandom", "EIO")
}

/// A candidate outside the rig, which tolerates no panic.
struct Candidate {
    process: Child,
    log: BufReader<ChildStderr>,
    output: String,
}

impl Candidate {
    /// Returns once it has drawn its identity and logged its start.
    fn start(directory: &Path) -> Self {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", env!("CARGO_BIN_EXE_baton")]).env_clear();
        command.args([
            "--election=orders",
            "--backend=file",
            "--listen=127.0.0.1:0",
            "--probe-listen=none",
        ]);
        command.args(["--lease-duration=1500ms", "--renew-deadline=1s", "--retry-period=200ms"]);
        command.arg("--log-format=json").arg(format!("--directory={}", directory.display()));
        let mut process = command.stderr(Stdio::piped()).spawn().expect("the program is built");
        let mut log = BufReader::new(process.stderr.take().expect("it is piped"));
        let mut output = String::new();
        log.read_line(&mut output).expect("it writes text");
        assert!(output.contains(r#""event":"starting""#), "{output}");
        Self { process, log, output }
    }

    /// Waits for its end. Returns its exit code and its output.
    fn end(mut self) -> (Option<i32>, String) {
        let status =
            wait_for(PANICS, "it ends", || self.process.try_wait().expect("it is our child"));
        self.log.read_to_string(&mut self.output).expect("it writes text");
        (status.code(), self.output)
    }
}

/// Whether any candidate holds the election.
fn is_held(directory: &Path) -> bool {
    let record = fs::read_to_string(directory.join("orders/record")).unwrap_or_default();
    !record.is_empty() && !record.contains(r#""holderIdentity":"""#)
}

#[test]
fn panic_ends_a_leader_with_75_and_a_follower_with_70() {
    if !may_trace_a_sidecar() {
        return;
    }
    let directory = tempfile::tempdir().expect("temporary folders can be made");
    let directory = directory.path();
    let leader = Candidate::start(directory);
    eventually(Duration::from_secs(10), "it leads", || is_held(directory));
    let follower = Candidate::start(directory);
    // A follower writes nothing until the leader is gone.
    let follower_fails = without_randomness(follower.process.id());
    let leader_fails = without_randomness(leader.process.id());

    for (candidate, code) in [(leader, 75), (follower, 70)] {
        let (ended, output) = candidate.end();
        assert_eq!(ended, Some(code), "{output}");
        assert!(
            output.contains("panicked at") && output.contains(r#""event":"fault""#),
            "{output}"
        );
    }
    drop((leader_fails, follower_fails));
}
