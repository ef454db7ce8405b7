//! All that there is to see at one instant, as plain data: what a picture or a line of text is made from.

use crate::events::Events;
use crate::onlooker::Journal;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Scene<'a> {
    /// Since the demo began.
    pub(crate) at: Duration,
    /// Who says that it leads: one, or none, unless the election is broken.
    pub(crate) leaders: Vec<Leader>,
    pub(crate) rows: Vec<Row>,
    pub(crate) journal: &'a Journal,
    pub(crate) events: &'a Events,
}

#[derive(Debug)]
pub(crate) struct Leader {
    pub(crate) name: &'static str,
    pub(crate) token: String,
    /// What is left of its claim.
    pub(crate) remaining: Duration,
}

/// A candidate and its application.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) port: u16,
    pub(crate) standing: String,
    pub(crate) mood: Mood,
    pub(crate) application: String,
    pub(crate) last_end: String,
}

/// How a piece of text looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    Plain,
    Faint,
    Strong,
    Good,
    Warning,
    Bad,
}
