//! A running process that can open no descriptor: its limit is below what it has open.

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::fs;

/// The limit: enough for the standard streams.
const FEW: u64 = 3;

/// The process has the lower limit until this is dropped.
pub(crate) struct FewDescriptors {
    pid: Pid,
    before: Rlimit,
}

impl FewDescriptors {
    /// `None` if the process has ended.
    pub(crate) fn impose(pid: u32) -> Option<Self> {
        let before = limit_of(pid)?;
        let pid = Pid::from_raw(pid.cast_signed())?;
        let few = Rlimit { current: Some(FEW), maximum: before.maximum };
        prlimit(Some(pid), Resource::Nofile, few).ok()?;
        Some(Self { pid, before })
    }

    /// Whether the process still has the lower limit, and more open than it allows.
    pub(crate) fn is_exhausted(&self) -> bool {
        let pid = self.pid.as_raw_nonzero().get().unsigned_abs();
        let open = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        limit_of(pid).is_some_and(|limit| limit.current == Some(FEW)) && open as u64 >= FEW
    }
}

/// The limit of a process: `Max open files  1024  524288  files`.
fn limit_of(pid: u32) -> Option<Rlimit> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let mut numbers = line.split_whitespace().map(|number| number.parse().ok());
    Some(Rlimit { current: numbers.next()?, maximum: numbers.next()? })
}

impl Drop for FewDescriptors {
    fn drop(&mut self) {
        // The process may have ended.
        prlimit(Some(self.pid), Resource::Nofile, self.before).ok();
    }
}
