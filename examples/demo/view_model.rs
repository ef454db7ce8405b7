//! Everything that the demo shows at one instant, as plain data.
//!
//! Pure. Start with [`ViewModel`].

use crate::events::Events;
use crate::observer::Journal;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct ViewModel<'a> {
    /// The time since the demo began.
    pub(crate) at: Duration,
    /// The candidates that report that they lead: at most one, unless the election is broken.
    pub(crate) leaders: Vec<Leader>,
    pub(crate) rows: Vec<Row>,
    pub(crate) journal: &'a Journal,
    pub(crate) events: &'a Events,
}

#[derive(Debug)]
pub(crate) struct Leader {
    pub(crate) name: &'static str,
    pub(crate) token: String,
    /// How long its claim still lasts.
    pub(crate) remaining: Duration,
}

/// A candidate and its application.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) port: u16,
    pub(crate) role: String,
    pub(crate) role_style: Style,
    pub(crate) application: String,
    pub(crate) last_exit: String,
}

/// The appearance of a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Faint,
    Strong,
    Good,
    Warning,
    Bad,
}
