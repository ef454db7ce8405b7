//! The input of a run: nodes, network, and faults.
//!
//! Pure data. Start with [`Scenario`]. [`crate::draw`] draws scenarios from seeds.

use baton_sim::clock::{Moment, Rate};
use std::time::Duration;

/// Everything that determines a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scenario {
    /// Seeds all random choices during the run, such as delays.
    pub seed: u64,
    /// When each candidate starts, and how fast its clock runs.
    pub candidates: Vec<Start>,
    /// How fast the clocks of servers run.
    pub server_rate: Rate,
    /// The shortest and longest delay of a message.
    pub delay: (Duration, Duration),
    /// How many messages in a thousand are lost.
    pub loss_permille: u16,
    /// How often a leader decides to write to the resource, in true time.
    pub write_every: Duration,
    /// Faults and when each begins.
    pub faults: Vec<(Moment, Fault)>,
    /// When messages are no longer lost.
    pub calm_from: Moment,
}

/// The start of one candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// When its process first starts.
    pub at: Moment,
    /// How fast its clock runs.
    pub rate: Rate,
}

/// The node that a fault hits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// This candidate.
    Node(usize),
    /// A candidate that leads when the fault begins; without one, this candidate.
    LeaderOr(usize),
}

/// A set of nodes, one bit each.
pub type Nodes = u16;

/// A fault and how long it lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The process ends, loses everything but its durable state, and starts again after `lasts`.
    Crash {
        /// The process.
        target: Target,
        /// The time until it starts again; `None` if it never does.
        lasts: Option<Duration>,
    },
    /// The process stands still. Its clock runs on, and its messages wait.
    Pause {
        /// The process.
        target: Target,
        /// How long it stands still.
        lasts: Duration,
    },
    /// No message passes between `side` and the other nodes.
    Partition {
        /// One of the two sides.
        side: Nodes,
        /// How long.
        lasts: Duration,
    },
    /// The candidate is alone, also without the servers.
    Isolate {
        /// The candidate.
        target: Target,
        /// How long.
        lasts: Duration,
    },
    /// Messages from the target to `peers` are lost; the other direction works.
    Mute {
        /// The candidate.
        target: Target,
        /// The receivers that it cannot reach.
        peers: Nodes,
        /// How long.
        lasts: Duration,
    },
    /// Messages from `peers` to the target are lost; the other direction works.
    Deafen {
        /// The candidate.
        target: Target,
        /// The senders that it cannot hear.
        peers: Nodes,
        /// How long.
        lasts: Duration,
    },
}
