//! Polls the candidates and the ledger's journal over HTTP.
//!
//! It uses `/leader?promise=none` and `/metrics`, which promise nothing, so watching a candidate
//! never delays its release. Start with [`observe_candidate`].

use crate::client::{Origin, RequestError};
use crate::demo::now;
use crate::input::Update;
use axum::http::Request;
use serde::Deserialize;
use std::fmt;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Sender;

/// The time between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// How long a response may take. It is only displayed, so a slow one is better than none.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// A candidate's state at one poll.
#[derive(Debug, Clone)]
pub(crate) struct Observation {
    pub(crate) leader: LeaderResponse,
    claim_deadline: Instant,
}

/// The fields of `/leader` that the demo shows.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct LeaderResponse {
    pub(crate) standing: String,
    pub(crate) is_leader: bool,
    pub(crate) token: Option<String>,
}

/// The response to `/journal`.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Journal {
    pub(crate) lines: u64,
    pub(crate) refused: u64,
    pub(crate) conflicts: u64,
    pub(crate) terms: Vec<Term>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Term {
    pub(crate) token: String,
    pub(crate) writer: String,
    pub(crate) lines: u64,
    pub(crate) refused: u64,
}

impl fmt::Display for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lines, refused, conflicts, terms } = self;
        let terms = terms.len();
        write!(f, "lines {lines}, terms {terms}, refused {refused}, conflicts {conflicts}")
    }
}

impl Observation {
    /// How long the claim still lasts at `now`.
    pub(crate) fn remaining(&self, now: Instant) -> Duration {
        self.claim_deadline.saturating_duration_since(now)
    }
}

/// Polls a candidate until the receiver of `updates` is gone.
pub(crate) async fn observe_candidate(index: usize, origin: Origin, updates: Sender<Update>) {
    loop {
        let observation = observe(&origin).await.ok();
        if updates.send(Update::Observation(index, observation)).await.is_err() {
            return;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Polls the ledger until the receiver of `updates` is gone.
pub(crate) async fn observe_ledger(origin: Origin, updates: Sender<Update>) {
    loop {
        // After a failed poll, the last journal stays. The demo itself notices if the ledger exits.
        if let Ok(journal) = read_journal(&origin).await
            && updates.send(Update::Journal(journal)).await.is_err()
        {
            return;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn observe(origin: &Origin) -> Result<Observation, RequestError> {
    let leader = serde_json::from_str(&get(origin, "/leader?promise=none").await?)?;
    let sent_at = now();
    let metrics = get(origin, "/metrics").await?;
    let remaining = metrics
        .lines()
        .find(|line| line.starts_with("baton_claim_remaining_seconds{"))
        .and_then(|line| line.rsplit_once(' ')?.1.parse().ok())
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or("the metrics lack baton_claim_remaining_seconds")?;
    // The response took time, so this deadline is at most that much too early.
    Ok(Observation { leader, claim_deadline: sent_at + remaining })
}

async fn read_journal(origin: &Origin) -> Result<Journal, RequestError> {
    Ok(serde_json::from_str(&get(origin, "/journal").await?)?)
}

async fn get(origin: &Origin, path: &str) -> Result<String, RequestError> {
    Ok(origin.send(Request::get(path), String::new(), REQUEST_TIMEOUT).await?.into_body())
}
