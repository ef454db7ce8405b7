//! What the witness tells: one JSON line for each thing that it heard, and what a container uses. Who reads the lines takes this file in too.

use super::Reply;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Times are since boot, by `CLOCK_BOOTTIME`: nodes that share a machine share it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Record {
    /// A question to whoever listens in a Pod's network.
    Answer {
        /// The Pod's network by the name that the node gave it, which outlives the Pod's containers.
        network: String,
        asked: Duration,
        answered: Duration,
        reply: Result<Reply, String>,
    },
    /// A line that a container wrote.
    Line {
        namespace: String,
        pod: String,
        container: String,
        /// How often this container had been started before.
        run: u32,
        at: Duration,
        text: String,
    },
}

/// What a container has used since its start, as its cgroup counts it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Usage {
    pub(crate) memory_bytes: u64,
    pub(crate) peak_memory_bytes: u64,
    pub(crate) cpu_microseconds: u64,
}
