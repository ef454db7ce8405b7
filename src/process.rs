//! This process and its machine: clock, signals, children, exit codes, memory, systemd, private
//! folders, blocking work.
//!
//! Each module touches only what it is named after. Start with [`exit`].

pub mod blocking;
pub mod children;
pub mod clock;
pub mod ended_run;
pub mod exit;
pub mod last_run;
pub mod memory;
pub mod notify;
pub mod private_folder;
pub mod resolver;
pub mod signals;
pub mod state_folder;
pub mod watchdog;
