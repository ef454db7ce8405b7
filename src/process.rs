//! This process and its machine: the clock, signals, exit codes, private folders, work that blocks.
//!
//! Each module touches what its name says. Start with [`exit`] for why the process ends.

pub mod blocking;
pub mod clock;
pub mod exit;
pub mod last_run;
pub mod private_folder;
pub mod resolver;
pub mod signals;
pub mod watchdog;
