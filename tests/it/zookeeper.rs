//! The ZooKeeper backend, and the client that it stands on, against real servers and real ensembles.

mod access;
mod candidates;
mod client;
mod contender;
mod crowd;
mod cut_off;
mod faults;
mod health;
mod local_sessions;
mod lost_replies;
mod names;
mod old_servers;
mod open_paths;
mod peers;
mod servers;
mod sessions;
mod store;
mod strangers;
mod tokens;

use crate::rig::Candidate;
use std::fmt;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long something may take that is only to happen at all.
const PATIENCE: Duration = Duration::from_mins(1);

/// What attempts bring at last. A secure port is open a moment before there is a server behind it, and whoever comes then is
/// sent away.
async fn at_last<T, E: fmt::Debug>(attempt: impl AsyncFn() -> Result<T, E>) -> T {
    const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(20);
    let begun = Instant::now();
    loop {
        match attempt().await {
            Ok(brought) => return brought,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error:?}"),
        }
        sleep(BETWEEN_ATTEMPTS).await;
    }
}

/// What a candidate has logged with this event.
fn messages(candidate: &Candidate, event: &str) -> Vec<String> {
    candidate.events(event).iter().map(|line| line["message"].to_string()).collect()
}
