//! Faults of one process, of any program.
//!
//! Each needs nothing but the PID and signals. Start with [`on_process`].

use super::super::fault::Fault;
use super::{Proof, proven};
use crate::rig::{Candidate, CpuQuota, Freezer, processor_time};
use rustix::process::Signal;
use std::fs;
use std::sync::Arc;

/// A process that faults affect.
pub(in super::super) trait Victim {
    fn pid(&self) -> u32;

    /// Sends a signal unless the process has ended. Returns whether it did.
    fn try_signal(&self, signal: Signal) -> bool;

    fn is_alive(&self) -> bool;
}

impl Victim for Candidate {
    fn pid(&self) -> u32 {
        self.process.pid()
    }

    fn try_signal(&self, signal: Signal) -> bool {
        self.process.try_signal(signal).is_some()
    }

    fn is_alive(&self) -> bool {
        self.process.is_alive()
    }
}

/// Ends a fault of a process.
pub(in super::super) type Undo = Box<dyn FnOnce() -> Proof>;

type Begun = Result<Undo, String>;

/// Begins a fault; `None` if the fault needs more than a process.
pub(in super::super) fn on_process<V: Victim + 'static>(
    victim: &Arc<V>,
    fault: Fault,
) -> Option<Begun> {
    let victim = Arc::clone(victim);
    match fault {
        Fault::Kill | Fault::Restart => Some(signal(victim, Signal::KILL)),
        Fault::Terminate => Some(signal(victim, Signal::TERM)),
        Fault::Interrupt => Some(signal(victim, Signal::INT)),
        Fault::HangUp => Some(signal(victim, Signal::HUP)),
        Fault::TerminateTwice => Some(terminate_twice(victim)),
        Fault::Pause => Some(pause(victim)),
        Fault::Freeze => Some(freeze(&*victim)),
        Fault::Starve => Some(starve(victim)),
        Fault::Resign
        | Fault::Stopping
        | Fault::Descriptors
        | Fault::DiskErrors
        | Fault::Partition
        | Fault::HoldRequests
        | Fault::HoldReplies
        | Fault::LoseReplies
        | Fault::Delay
        | Fault::Truncate
        | Fault::Refuse
        | Fault::Cut
        | Fault::Reset
        | Fault::Blackhole
        | Fault::StorePaused
        | Fault::StoreKilled
        | Fault::SlowDisk
        | Fault::FullDisk
        | Fault::Rights
        | Fault::Label
        | Fault::Usurp
        | Fault::Delete => None,
    }
}

/// Sends one signal. It has acted if the process ends.
fn signal<V: Victim + 'static>(victim: Arc<V>, signal: Signal) -> Begun {
    sent(&*victim, signal)?;
    Ok(Box::new(move || proven(!victim.is_alive(), "the process had not ended when the fault did")))
}

/// It has acted if the process was still stopping at the second signal.
fn terminate_twice<V: Victim + 'static>(victim: Arc<V>) -> Begun {
    sent(&*victim, Signal::TERM)?;
    Ok(Box::new(move || {
        proven(victim.try_signal(Signal::TERM), "it stopped before the second signal")
    }))
}

fn pause<V: Victim + 'static>(victim: Arc<V>) -> Begun {
    sent(&*victim, Signal::STOP)?;
    Ok(Box::new(move || {
        let was_stopped = is_stopped(victim.pid());
        victim.try_signal(Signal::CONT);
        proven(was_stopped, "the process was not stopped")
    }))
}

/// It has acted if the process has used no processor time.
fn freeze(victim: &impl Victim) -> Begun {
    let pid = victim.pid();
    let freezer = Freezer::freeze(pid).ok_or("this user can make no cgroup")?;
    let before = processor_time(pid);
    Ok(Box::new(move || {
        let was_frozen = processor_time(pid) == before;
        drop(freezer);
        proven(was_frozen, "the process ran")
    }))
}

fn starve<V: Victim + 'static>(victim: Arc<V>) -> Begun {
    let quota = CpuQuota::hundredth().ok_or("this user can make no cgroup")?;
    if !quota.admit(victim.pid()) {
        return Err("the process had ended".to_owned());
    }
    Ok(Box::new(move || {
        let waited = quota.throttled() > 0;
        quota.release(victim.pid());
        proven(waited, "the process never waited for its quota")
    }))
}

fn sent(victim: &impl Victim, signal: Signal) -> Proof {
    if victim.try_signal(signal) { Ok(()) } else { Err("the process had ended".to_owned()) }
}

/// Whether a signal has stopped the process, also one under strace.
fn is_stopped(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with(['T', 't']))
}
