//! The latest events, from the candidates' logs and from the demo itself.
//!
//! Pure. Start with [`Events`]; [`summarize`] shortens a log line.

use serde::Deserialize;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How many events are kept: more than a terminal shows.
const MAX_EVENTS: usize = 200;

#[derive(Debug, Clone)]
pub(crate) struct Event {
    /// Counts events from 1, so that new ones can be recognized.
    pub(crate) number: usize,
    /// The time since the demo began.
    pub(crate) at: Duration,
    pub(crate) source: &'static str,
    pub(crate) text: String,
}

#[derive(Debug)]
pub(crate) struct Events {
    began: Instant,
    count: usize,
    last: VecDeque<Event>,
}

impl Events {
    pub(crate) fn new(began: Instant) -> Self {
        Self { began, count: 0, last: VecDeque::new() }
    }

    pub(crate) fn push(&mut self, now: Instant, source: &'static str, text: impl Into<String>) {
        self.count += 1;
        let at = now.duration_since(self.began);
        self.last.push_back(Event { number: self.count, at, source, text: text.into() });
        if self.last.len() > MAX_EVENTS {
            self.last.pop_front();
        }
    }

    pub(crate) fn all(&self) -> impl DoubleEndedIterator<Item = &Event> + ExactSizeIterator {
        self.last.iter()
    }
}

/// The fields of a candidate's JSON log that the demo shows.
#[derive(Deserialize)]
struct LogLine {
    level: String,
    message: String,
    event: Option<String>,
    leader: Option<String>,
    token: Option<String>,
    reason: Option<String>,
}

/// A short text for a log line that has an event, is a warning or an error, or is not JSON.
pub(crate) fn summarize(line: &str) -> Option<String> {
    let Ok(line) = serde_json::from_str::<LogLine>(line) else {
        return Some(line.to_owned()); // an error from before logging started
    };
    let Some(event) = line.event else {
        return matches!(line.level.as_str(), "WARN" | "ERROR").then_some(line.message);
    };
    let mut text = event.replace('_', " ");
    if event == "following" {
        let name = line.leader.as_deref().and_then(|leader| leader.rsplit_once('_'));
        text = match name {
            Some((name, _uuid)) => format!("following {name}"),
            None => "following, no leader known".to_owned(),
        };
    }
    let token = line.token.map(|token| format!("token {token}"));
    let details = [token, line.reason].into_iter().flatten();
    Some(details.fold(text, |text, detail| text + ", " + &detail))
}
