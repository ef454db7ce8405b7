//! The classical election algorithms, each a small machine, on one simulated network.
//!
//! Pure: no clock, thread, or I/O, so the crate also builds for WebAssembly; only the program
//! `lab-table` touches the world. Start with [`machine`], the form of every algorithm, and
//! [`world`], which runs one under faults. [`checker`] defines "leader" once for all of them.
//!
//! ```text
//!  draw ──► Scenario ──► World ─┬─ node × n: clock, machine
//!                               ├─ network: delay, loss, cuts
//!                               └─ resource: writes of leaders ──► Observer (checker, counts)
//! ```
#![forbid(unsafe_code)]

pub mod baton;
pub mod bully;
pub mod checker;
pub mod draw;
pub mod exhibits;
pub mod fle;
pub mod kafka;
pub mod lease;
pub mod machine;
pub mod measure;
pub mod raft;
pub mod recording;
pub mod ring;
pub mod scenario;
pub mod sentinel;
pub mod stonith;
pub mod table;
pub mod world;
