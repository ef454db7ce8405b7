//! The witness's output: one JSON line per answer, log line, or request to a Service, a container's
//! usage, and the memory of processes.
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

/// A request to a Service. Times are since boot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Visit {
    pub(crate) asked: Duration,
    pub(crate) answered: Duration,
    /// The client's port.
    pub(crate) port: u16,
    /// Whether the candidate that answered leads, or why no candidate answered.
    pub(crate) is_leader: Result<bool, String>,
}

/// The memory of one process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Memory {
    /// The first argument of its command line, such as `exec` or `guard`.
    pub(crate) role: String,
    /// The resident set size (RSS): pages shared with other processes count fully.
    pub(crate) resident_kib: u64,
    /// The proportional set size (PSS): pages shared by n processes count as one nth.
    pub(crate) proportional_kib: u64,
    /// The part of the resident set that is no file, such as stack and heap.
    pub(crate) anonymous_kib: u64,
}

/// A container's usage since its start, as its cgroup counts it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Usage {
    pub(crate) memory_bytes: u64,
    pub(crate) peak_memory_bytes: u64,
    pub(crate) cpu_microseconds: u64,
}
