//! Finds and signals every descendant of this process.
//!
//! Touches `/proc` and processes. Start with [`signal_descendants`]. Signals go through pidfds whose
//! start time is checked, so a process that reuses a number gets none. A descendant that detaches
//! from its parent falls to this process, which is a subreaper, and is still found.

use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};
use rustix::process::{WaitOptions, WaitStatus, wait};
use std::collections::BTreeMap;
use std::fs;
use std::io;

/// A process in `/proc`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    state: State,
    parent: i32,
    started: u64,
}

/// The state of a process, as far as it matters here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// It is stopped by a signal.
    Stopped,
    /// It waits for the kernel and handles no signal.
    Uninterruptible,
    Other,
}

/// Sends `signals` in their order to every descendant. Those that look like zombies get them too:
/// their main thread has ended, but another may run.
pub fn signal_descendants(signals: &[Signal]) {
    for (pid, entry) in descendants(&entries(), getpid().as_raw_pid()) {
        send(pid, entry, signals);
    }
}

/// Continues the stopped children of `parent`, if it waits for one of them in the kernel.
///
/// vfork(2) suspends a process until its child executes a program. If a signal stops the child
/// before that, as Ctrl-Z does, the parent cannot stop, so nothing tells its own parent.
pub fn continue_stopped_vfork(parent: Pid) {
    let parent = parent.as_raw_pid();
    if !waits_in_kernel(parent) {
        return;
    }
    let is_stopped_child = |entry: &Entry| entry.parent == parent && entry.state == State::Stopped;
    for (pid, entry) in entries().into_iter().filter(|(_, entry)| is_stopped_child(entry)) {
        send(pid, entry, &[Signal::CONT]);
    }
}

/// Whether a thread of this process waits for the kernel.
fn waits_in_kernel(pid: i32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    let waits = |stat: Vec<u8>| parse(&stat).is_some_and(|it| it.state == State::Uninterruptible);
    threads.flatten().any(|thread| fs::read(thread.path().join("stat")).is_ok_and(waits))
}

/// Sends `signals` to the process of `entry`, and to none that has reused its number.
fn send(pid: i32, entry: Entry, signals: &[Signal]) {
    let Some(pid) = Pid::from_raw(pid) else { return };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    // The handle is of the process that has the number now.
    if read_entry(pid.as_raw_pid()).is_some_and(|now| now.started == entry.started) {
        for signal in signals {
            // It may have ended meanwhile.
            pidfd_send_signal(&handle, *signal).ok();
        }
    }
}

/// Reaps every child that has ended, and passes it to `reaped`. Returns whether a child is left.
pub fn reap(mut reaped: impl FnMut(Pid, WaitStatus)) -> bool {
    loop {
        match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            Ok(Some((pid, status))) => reaped(pid, status),
            Ok(None) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// The processes that have this one as their parent.
pub fn children() -> Vec<i32> {
    let own = getpid().as_raw_pid();
    entries().into_iter().filter(|(_, entry)| entry.parent == own).map(|(pid, _)| pid).collect()
}

/// The descendants of `root`, without itself.
fn descendants(entries: &BTreeMap<i32, Entry>, root: i32) -> Vec<(i32, Entry)> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for (pid, entry) in entries {
        children.entry(entry.parent).or_default().push(*pid);
    }
    let mut found = Vec::new();
    let mut next = vec![root];
    while let Some(parent) = next.pop() {
        let below = children.remove(&parent).unwrap_or_default();
        found.extend(below.iter().map(|pid| (*pid, entries[pid])));
        next.extend(below);
    }
    found
}

fn entries() -> BTreeMap<i32, Entry> {
    let Ok(folder) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let pids = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, read_entry(pid)?))).collect()
}

fn read_entry(pid: i32) -> Option<Entry> {
    parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Parses a line of `/proc/PID/stat`: proc(5). The command in parentheses may contain anything.
fn parse(stat: &[u8]) -> Option<Entry> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = match fields.next()? {
        "T" => State::Stopped,
        "D" => State::Uninterruptible,
        _ => State::Other,
    };
    let parent = fields.next()?.parse().ok()?;
    let started = fields.nth(17)?.parse().ok()?;
    Some(Entry { state, parent, started })
}

/// Makes this process the parent of every descendant whose parent ends.
pub fn become_subreaper() -> io::Result<()> {
    rustix::process::set_child_subreaper(Some(getpid()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_with_parentheses_is_parsed() {
        let line = b"7 (a) S 1 2 (x) T 3 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 8 9\n";
        let expected = Entry { state: State::Stopped, parent: 3, started: 4242 };
        assert_eq!(parse(line), Some(expected));
        assert_eq!(parse(b"7 (a"), None);
        assert_eq!(parse(b"7 (a) S"), None);
    }

    #[test]
    fn descendants_exclude_strangers_and_the_root() {
        let entry = |parent| Entry { state: State::Other, parent, started: 0 };
        let entries = BTreeMap::from([
            (1, entry(0)),
            (2, entry(1)),
            (3, entry(2)),
            (4, entry(3)),
            (5, entry(1)),
        ]);
        let found: Vec<_> = descendants(&entries, 2).into_iter().map(|(pid, _)| pid).collect();
        assert_eq!(found, [3, 4]);
    }
}
