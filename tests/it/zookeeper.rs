//! The ZooKeeper backend, and the client that it stands on, against real servers and real ensembles.

mod access;
mod candidates;
mod client;
mod contender;
mod crowd;
mod cut_off;
mod faults;
mod local_sessions;
mod lost_replies;
mod old_servers;
mod peers;
mod servers;
mod sessions;
mod store;
mod strangers;
mod tokens;

use crate::rig::Candidate;
use std::time::Duration;

/// How long something may take that is only to happen at all.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a candidate has logged with this event.
fn messages(candidate: &Candidate, event: &str) -> Vec<String> {
    candidate.events(event).iter().map(|line| line["message"].to_string()).collect()
}
