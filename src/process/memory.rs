//! Keeps this process's memory to itself.
//!
//! Touches one attribute of the process. Start with [`keep_private`].

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Hides memory, environment, open files, and mounts from other processes of the same user, and
/// writes no core dump: both would give away credentials. prctl(2), `PR_SET_DUMPABLE`.
///
/// A process with `CAP_SYS_PTRACE`, such as root's on the machine, can still read them. A program
/// that this process executes starts without the restriction.
pub fn keep_private() {
    // Linux refuses only unknown values. Where a sandbox refuses the call, nothing else is lost.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
}
