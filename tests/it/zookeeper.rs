//! The ZooKeeper store and its client against real servers and ensembles.

mod access;
mod candidates;
mod client;
mod contender;
mod crowd;
mod cut_off;
mod doctor;
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

/// A generous bound on anything that has to happen eventually.
const PATIENCE: Duration = Duration::from_mins(1);

/// Retries until an attempt succeeds: a secure port opens shortly before its server accepts
/// clients.
async fn retry_until_ok<T, E: fmt::Debug>(attempt: impl AsyncFn() -> Result<T, E>) -> T {
    const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(20);
    let started = Instant::now();
    loop {
        match attempt().await {
            Ok(value) => return value,
            Err(error) => assert!(started.elapsed() < PATIENCE, "{error:?}"),
        }
        sleep(BETWEEN_ATTEMPTS).await;
    }
}

/// The messages that a candidate has logged with this event.
fn messages(candidate: &Candidate, event: &str) -> Vec<String> {
    candidate.events(event).iter().map(|line| line["message"].to_string()).collect()
}
