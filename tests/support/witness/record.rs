//! The witness's output: one JSON line per answer or log line, and a container's usage.
//!
//! The reader of these lines includes this file, too.

use super::Reply;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// An observation. Times are since boot (`CLOCK_BOOTTIME`), which nodes on one machine share.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Record {
    /// A request to a Pod's sidecar.
    Answer {
        /// The node's name for the Pod's network, which outlives the Pod's containers.
        network: String,
        asked: Duration,
        answered: Duration,
        reply: Result<Reply, String>,
    },
    /// A line in a container's log.
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

/// A container's usage since its start, as its cgroup counts it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Usage {
    pub(crate) memory_bytes: u64,
    pub(crate) peak_memory_bytes: u64,
    pub(crate) cpu_microseconds: u64,
}
