//! The built sidecar as a process: killed, paused, starved, filled up, restarted; with the prober of the rig
//! beside every test.
//!
//! Each test is a short story. Where the store makes no difference it is told over files and over Leases; what only
//! files can suffer stands beside it, and what only an API server can in `lease`. Upper bounds allow
//! [`crate::rig::NOISE`] beyond what README promises; exclusion, tokens and silence are judged without allowance when
//! the rig is dropped.

mod crowd;
mod dying;
mod leaving;
mod memory;
mod pausing;
mod polling;
mod privacy;
mod records;
mod remote;
mod stuck;
mod surroundings;
mod withdrawal;
