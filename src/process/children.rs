//! The children of this process: those that a task waits for, and adopted orphans.
//!
//! Touches processes. Start with [`AwaitedChild::spawn`] and [`reap_orphans`]. The kernel
//! reparents orphans to PID 1 or to a subreaper. Ended ones stay zombies until that process reaps
//! them.

use rustix::process::{Pid, WaitOptions, waitpid};
use std::collections::BTreeSet;
use std::io;
use std::ops::{Deref, DerefMut};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

static AWAITED: Mutex<Awaited> = Mutex::new(Awaited { children: BTreeSet::new(), starting: 0 });

/// The children that a task waits for.
struct Awaited {
    children: BTreeSet<i32>,
    /// How many are being started, so that their process IDs are not known yet.
    starting: u32,
}

/// A child that a task waits for. [`reap_orphans`] leaves it alone until this is dropped.
#[derive(Debug)]
pub struct AwaitedChild {
    child: Child,
    pid: i32,
}

impl AwaitedChild {
    /// Starts a command.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        // A program on a hung disk may take long to start, so no lock is held meanwhile.
        awaited().starting += 1;
        let started = command.spawn();
        let mut awaited = awaited();
        awaited.starting -= 1;
        let child = started?;
        let pid = Pid::from_child(&child).as_raw_pid();
        awaited.children.insert(pid);
        Ok(Self { child, pid })
    }

    /// The process ID.
    pub const fn pid(&self) -> i32 {
        self.pid
    }
}

impl Deref for AwaitedChild {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.child
    }
}

impl DerefMut for AwaitedChild {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl Drop for AwaitedChild {
    fn drop(&mut self) {
        awaited().children.remove(&self.pid);
    }
}

/// Reaps every child in `children` that has ended and that no task waits for. While a child starts,
/// it reaps none: call it again after the next SIGCHLD.
pub fn reap_orphans(children: impl FnOnce() -> Vec<i32>) {
    // Under this lock, the children are listed and no other one starts.
    let awaited = awaited();
    if awaited.starting > 0 {
        return;
    }
    for pid in children().into_iter().filter(|pid| !awaited.children.contains(pid)) {
        // One that lives is reaped after its own SIGCHLD.
        waitpid(Pid::from_raw(pid), WaitOptions::NOHANG).ok();
    }
}

fn awaited() -> MutexGuard<'static, Awaited> {
    AWAITED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::thread;
    use std::time::Duration;

    fn is_zombie(pid: i32) -> bool {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('Z'))
    }

    #[test]
    fn awaited_children_are_no_orphans() {
        let mut awaited = AwaitedChild::spawn(Command::new("false").arg("")).unwrap();
        let orphan = Pid::from_child(&Command::new("true").spawn().unwrap()).as_raw_pid();
        let both = [awaited.pid(), orphan];
        for pid in both {
            while !is_zombie(pid) {
                thread::sleep(Duration::from_millis(1));
            }
        }
        reap_orphans(|| both.to_vec());
        assert!(!is_zombie(orphan));
        assert_eq!(awaited.wait().unwrap().code(), Some(1), "its exit code is not lost");
        let pid = awaited.pid();
        drop(awaited);
        assert!(!super::awaited().children.contains(&pid));
    }
}
