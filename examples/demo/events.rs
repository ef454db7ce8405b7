//! What happened: the last events, from the candidates' own logs and from what the demo did.

use serde::Deserialize;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How many events are kept: more than any terminal shows.
const KEPT: usize = 200;

#[derive(Debug, Clone)]
pub(crate) struct Event {
    /// Counts all events from 1, so that a reader knows what is new to it.
    pub(crate) number: usize,
    /// Since the demo began.
    pub(crate) at: Duration,
    pub(crate) who: &'static str,
    pub(crate) what: String,
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

    pub(crate) fn tell(&mut self, now: Instant, who: &'static str, what: impl Into<String>) {
        self.count += 1;
        let at = now.duration_since(self.began);
        self.last.push_back(Event { number: self.count, at, who, what: what.into() });
        if self.last.len() > KEPT {
            self.last.pop_front();
        }
    }

    pub(crate) fn all(&self) -> impl DoubleEndedIterator<Item = &Event> + ExactSizeIterator {
        self.last.iter()
    }
}

/// A line of a candidate's JSON log, as far as an onlooker cares.
#[derive(Deserialize)]
struct LogLine {
    level: String,
    message: String,
    event: Option<String>,
    leader: Option<String>,
    token: Option<String>,
    reason: Option<String>,
}

/// A log line in a few words, if it is worth any: the transitions, and what needs a person.
pub(crate) fn in_words(line: &str) -> Option<String> {
    let Ok(line) = serde_json::from_str::<LogLine>(line) else {
        return Some(line.to_owned()); // a complaint from before there was a log
    };
    let Some(event) = line.event else {
        return matches!(line.level.as_str(), "WARN" | "ERROR").then_some(line.message);
    };
    let mut words = event.replace('_', " ");
    if event == "following" {
        let name = line.leader.as_deref().and_then(|leader| leader.rsplit_once('_'));
        words = format!("following {}", name.map_or("nobody", |(name, _uuid)| name));
    }
    let token = line.token.map(|token| format!("token {token}"));
    let details = [token, line.reason].into_iter().flatten();
    Some(details.fold(words, |words, detail| words + ", " + &detail))
}
