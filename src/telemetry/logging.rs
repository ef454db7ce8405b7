//! How log lines look: text for people, flat JSON for machines, both to standard error.
//!
//! Touches `tracing-subscriber`; called once, before anything is logged. What is logged is decided elsewhere, and by us:
//! what the clients of stores have to say (each refused connection anew, as an error) is wire
//! traffic. How a line of text is put together is in [`text`].

mod text;

use crate::config::LogFormat;
use std::io::{self, IsTerminal as _};
use text::Lines;
use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Begins to log; `plain` keeps colors from a terminal.
pub fn start(format: Option<LogFormat>, level: Level, plain: bool) {
    let terminal = io::stderr().is_terminal();
    let json = match format {
        None => !terminal,
        Some(LogFormat::Text) => false,
        Some(LogFormat::Json) => true,
    };
    let others = if level == Level::TRACE { LevelFilter::TRACE } else { LevelFilter::OFF };
    let filter = Targets::new().with_default(others).with_target(env!("CARGO_CRATE_NAME"), level);
    let registry = tracing_subscriber::registry().with(filter);
    let lines = fmt::layer().with_writer(io::stderr).with_target(false);
    // A second start within one process (a test) keeps the first.
    let started = if json {
        let flat = lines.json().flatten_event(true).with_current_span(false).with_span_list(false);
        registry.with(flat).try_init()
    } else {
        registry
            .with(lines.event_format(Lines { colors: terminal && !plain, folds: terminal }))
            .try_init()
    };
    drop(started);
}
