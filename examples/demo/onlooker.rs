//! What can be seen from outside: the candidates' answers and the ledger's journal, asked for over HTTP.
//!
//! An onlooker must not be taken for an application. It asks `/leader?promise=none` and `/metrics`, which
//! promise nothing, so nothing that the demo shows keeps a leader from resigning.

use crate::client::{NoAnswer, Origin};
use crate::demo::now;
use crate::input::Update;
use axum::http::Request;
use serde::Deserialize;
use std::fmt;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Sender;

/// How long to wait between two looks.
const PERIOD: Duration = Duration::from_millis(250);

/// How long an answer may take. Nobody acts on it, so a busy machine is no reason to show nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a candidate answered.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    pub(crate) answer: Answer,
    claim_until: Instant,
}

/// The body of `/leader`, as far as it is shown.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Answer {
    pub(crate) standing: String,
    pub(crate) is_leader: bool,
    pub(crate) token: Option<String>,
}

/// The answer of `/journal`.
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

impl Reading {
    /// What is left of the claim.
    pub(crate) fn remaining(&self, now: Instant) -> Duration {
        self.claim_until.saturating_duration_since(now)
    }
}

/// Looks at a candidate until nobody wants to hear of it.
pub(crate) async fn watch_candidate(index: usize, origin: Origin, updates: Sender<Update>) {
    loop {
        let reading = look(&origin).await.ok();
        if updates.send(Update::Reading(index, reading)).await.is_err() {
            return;
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// Looks at the ledger until nobody wants to hear of it.
pub(crate) async fn watch_ledger(origin: Origin, updates: Sender<Update>) {
    loop {
        // A look that fails shows nothing new; that the ledger has ended shows elsewhere.
        if let Ok(journal) = read(&origin).await
            && updates.send(Update::Journal(journal)).await.is_err()
        {
            return;
        }
        tokio::time::sleep(PERIOD).await;
    }
}

async fn look(origin: &Origin) -> Result<Reading, NoAnswer> {
    let answer = serde_json::from_str(&body_of(origin, "/leader?promise=none").await?)?;
    let asked = now();
    let metrics = body_of(origin, "/metrics").await?;
    let remaining = metrics
        .lines()
        .find(|line| line.starts_with("baton_claim_remaining_seconds{"))
        .and_then(|line| line.rsplit_once(' ')?.1.parse().ok())
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or("/metrics does not say what is left of the claim")?;
    Ok(Reading { answer, claim_until: asked + remaining })
}

async fn read(origin: &Origin) -> Result<Journal, NoAnswer> {
    Ok(serde_json::from_str(&body_of(origin, "/journal").await?)?)
}

async fn body_of(origin: &Origin, path: &str) -> Result<String, NoAnswer> {
    Ok(origin.send(Request::get(path), String::new(), PATIENCE).await?.into_body())
}
