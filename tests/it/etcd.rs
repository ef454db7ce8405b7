//! The etcd store, tested against real members.
//!
//! It adds to the scenarios of `process` those that need the members themselves. The rig checks
//! every history as it does there.

mod access;
mod calls;
mod contender;
mod faults;
mod keys;
mod members;
mod outages;
mod partitions;
mod restores;
mod tls;
mod versions;

use std::time::Duration;

/// A generous bound on anything that has to happen eventually.
const PATIENCE: Duration = Duration::from_mins(1);
