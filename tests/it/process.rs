//! The built sidecar as a process: killed, paused, starved, out of disk, restarted.
//!
//! A scenario that does not depend on the store runs over every store. Upper bounds allow
//! [`crate::rig::NOISE`] beyond the documented bounds. The rig checks exclusion, tokens, and
//! silence without any allowance when it is dropped.

mod crowd;
mod dying;
mod ended_run;
mod exec;
mod fitness;
mod leaving;
mod memory;
mod notifying;
mod observing;
mod pausing;
mod polling;
mod preferring;
mod privacy;
mod records;
mod remote;
mod resigning;
mod status_file;
mod stuck;
mod surroundings;
mod visibility;
mod withdrawal;
