//! Sets up logging to standard error: text for people, flat JSON for machines.
//!
//! Touches `tracing-subscriber`. Start with [`start`]; [`text`] formats text. Events of other
//! crates, some of which log every refused connection as an error, appear at `trace` only.

mod text;
mod writer;

use crate::config::LogFormat;
use std::io::{self, IsTerminal as _};
use text::TextFormat;
use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
pub use writer::FlushOnDrop;
use writer::LogWriter;

/// Starts logging. With `plain`, the log on a terminal has no colors. Call before anything is
/// logged, and drop the result after the last line.
#[must_use]
pub fn start(format: Option<LogFormat>, level: Level, plain: bool) -> FlushOnDrop {
    let terminal = io::stderr().is_terminal();
    let json = match format {
        None => !terminal,
        Some(LogFormat::Text) => false,
        Some(LogFormat::Json) => true,
    };
    let others = if level == Level::TRACE { LevelFilter::TRACE } else { LevelFilter::OFF };
    let filter = Targets::new().with_default(others).with_target(env!("CARGO_CRATE_NAME"), level);
    let registry = tracing_subscriber::registry().with(filter);
    // Without a thread, lines are written at once.
    let writer = LogWriter::start().ok();
    let flush = LogWriter::flush_on_drop(writer.clone());
    let writer = writer.map_or_else(|| BoxMakeWriter::new(io::stderr), BoxMakeWriter::new);
    let lines = fmt::layer().with_writer(writer).with_target(false);
    // A second start in one process, as in tests, has no effect.
    let started = if json {
        let flat = lines.json().flatten_event(true).with_current_span(false).with_span_list(false);
        registry.with(flat).try_init()
    } else {
        registry
            .with(lines.event_format(TextFormat { colors: terminal && !plain, folds: terminal }))
            .try_init()
    };
    drop(started);
    flush
}
