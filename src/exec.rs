//! Runs a command only while this candidate leads.
//!
//! Touches processes, signals, and the terminal; asks the election only through
//! [`Reader::lend`](crate::driver::leadership::Reader::lend). Start with [`runner`]. The guard, a
//! process of its own, ends the command before the claim does, also if the elector hangs or dies.
//!
//! ```text
//!  elector: baton exec ─────► guard ─────► trampoline ══ becomes ══► command ─► its processes
//!  election, HTTP, logs  │    one thread   own process group,
//!  subreaper             │    subreaper    nice, parent-death signal
//!                        │
//!        socket pair: deadline, stop, kill ─► ◄─ started, ending, ended, lateness
//! ```
//!
//! Every process of the command is reaped before the record is released. [`CommandPlan`] decides
//! when it is signaled.
//!
//! [`CommandPlan`]: baton_election::command::CommandPlan

pub mod cgroup;
pub mod channel;
pub mod guard;
pub mod messages;
pub mod process_tree;
pub mod quota;
pub mod runner;
pub mod terminal;
pub mod trampoline;
