//! An attached strace that delays system calls of a process, or makes them fail, while it lives.

use super::eventually;
use super::starter::{mortal, start};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::Child;
use std::time::Duration;

/// How long strace may take to attach on a busy machine.
const STARTUP: Duration = Duration::from_secs(10);

/// Whether this test may trace a sidecar, which hides its memory from other processes of its user.
/// Says so if it may not.
#[expect(clippy::print_stderr, reason = "a skipped test must say that it was skipped")]
pub(crate) fn may_trace_a_sidecar() -> bool {
    let is_root = fs::metadata("/proc/self").expect("Linux has it").uid() == 0;
    if !is_root {
        eprintln!("skipped: only root can trace a sidecar");
    }
    is_root
}

/// Faults that are injected until this is dropped.
pub(crate) struct Delay(Child);

impl Delay {
    /// Delays the main thread's return from this call.
    pub(crate) fn of_main_thread(pid: u32, call: &str, by: Duration) -> Self {
        Self::begin(pid, call, &format!("delay_exit={}", by.as_micros()), &[])
    }

    /// Delays every thread before any of these calls.
    pub(crate) fn of_all_threads(pid: u32, calls: &str, by: Duration) -> Self {
        Self::begin(pid, calls, &format!("delay_enter={}", by.as_micros()), &["--follow-forks"])
    }

    /// Makes each of these calls fail with this error in every thread.
    pub(crate) fn failure_of_all_threads(pid: u32, calls: &str, error: &str) -> Self {
        Self::begin(pid, calls, &format!("error={error}"), &["--follow-forks"])
    }

    fn begin(pid: u32, calls: &str, fault: &str, extra_flags: &[&str]) -> Self {
        let mut strace = mortal("strace");
        strace.args(["--quiet=all", "--output=/dev/null"]).args(extra_flags);
        strace.args([
            format!("--trace={calls}"),
            format!("--inject={calls}:{fault}"),
            format!("--attach={pid}"),
        ]);
        let begun = Self(start(strace));
        eventually(STARTUP, "strace is attached to every thread it must delay", || {
            let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("it is alive").flatten();
            let mut statuses = threads
                .filter(|thread| {
                    !extra_flags.is_empty() || thread.file_name().to_str() == Some(&pid.to_string())
                })
                .filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok());
            statuses.all(|status| !status.contains("TracerPid:\t0\n"))
        });
        begun
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        self.0.kill().expect("it is our child");
        self.0.wait().expect("it is our child");
    }
}
