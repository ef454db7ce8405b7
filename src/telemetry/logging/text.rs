//! Formats events as text: time, level, message, and the fields that the message does not repeat.
//!
//! Touches `tracing-subscriber`, whose clock stamps each event. Start with [`TextFormat`]. Lines on
//! a terminal have fewer than 250 columns. Control characters are replaced and continuation lines
//! indented, so untrusted text cannot pass for an event.

use baton_election::identity::Identity;
use baton_election::text::one_line;
use std::fmt::{self, Write as _};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The longest line on a terminal.
const MAX_COLUMNS: usize = 249;
/// The indentation of an event's continuation lines.
const INDENT: &str = "    ";

/// The text format of events.
pub(super) struct TextFormat {
    /// Whether levels are colored.
    pub(super) colors: bool,
    /// Whether long lines are broken.
    pub(super) folds: bool,
}

impl<S, N> FormatEvent<S, N> for TextFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = EventFields::default();
        event.record(&mut fields);
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let level = *event.metadata().level();
        let head = time.chars().count() + " LEVEL ".len();
        let (begin, end) = if self.colors { (color(level), "\x1b[0m") } else { ("", "") };
        writeln!(writer, "{time} {begin}{level:>5}{end} {}", self.body(&fields.into_text(), head))
    }
}

impl TextFormat {
    /// The body of an event. The head of its first line takes `head` columns.
    fn body(&self, text: &str, head: usize) -> String {
        let mut lines = Vec::new();
        for line in text.split('\n') {
            let clean = one_line(line);
            if self.folds {
                fold(&clean, head, &mut lines);
            } else {
                lines.push(clean);
            }
        }
        lines.join(&format!("\n{INDENT}"))
    }
}

/// Breaks `line` between words and adds it to `lines`, the first of which has `head` columns less
/// room.
fn fold(line: &str, head: usize, lines: &mut Vec<String>) {
    let mut rest = line;
    loop {
        let room = MAX_COLUMNS - if lines.is_empty() { head } else { INDENT.len() };
        let Some((end, _)) = rest.char_indices().nth(room) else { break };
        let blank = if rest[end..].starts_with(' ') { Some(end) } else { rest[..end].rfind(' ') };
        let (at, skip) = blank.filter(|at| *at > 0).map_or((end, 0), |at| (at, 1));
        lines.push(rest[..at].to_owned());
        rest = &rest[at + skip..];
    }
    lines.push(rest.to_owned());
}

const fn color(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\x1b[31m",
        Level::WARN => "\x1b[33m",
        Level::INFO => "\x1b[32m",
        Level::DEBUG => "\x1b[34m",
        Level::TRACE => "\x1b[35m",
    }
}

/// An event's message and fields.
#[derive(Default)]
struct EventFields {
    message: String,
    fields: Vec<(&'static str, Value)>,
}

/// A field's value.
enum Value {
    Text(String),
    Other(String),
}

impl EventFields {
    /// The message, and the fields that it does not repeat.
    fn into_text(self) -> String {
        let Self { message, fields } = self;
        let mut line = message.clone();
        for (name, value) in fields {
            let shown = match (name, value) {
                ("identity" | "place" | "listen", Value::Text(text)) if message.contains(&text) => {
                    continue;
                }
                // The UUID is in the first event and in JSON.
                ("identity" | "leader", Value::Text(text)) => {
                    let identity = Identity::parse_lossy(&text);
                    format!("{:?}", identity.as_ref().map_or(&*text, Identity::name))
                }
                (_, Value::Text(text)) => format!("{text:?}"),
                (_, Value::Other(other)) => other,
            };
            let gap = if line.is_empty() { "" } else { " " };
            write!(line, "{gap}{name}={shown}").expect("writing to a String cannot fail");
        }
        line
    }
}

impl Visit for EventFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
        } else {
            self.fields.push((field.name(), Value::Text(value.to_owned())));
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            self.fields.push((field.name(), Value::Other(format!("{value:?}"))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(text: &str) -> Vec<String> {
        let body = TextFormat { colors: false, folds: true }.body(text, 34);
        body.split('\n').map(str::to_owned).collect()
    }

    #[test]
    fn every_line_has_fewer_than_250_columns() {
        for text in [
            "word ".repeat(200),
            "ä".repeat(1000),
            format!("{} {}", "x".repeat(215), "y".repeat(400)),
        ] {
            let lines = folded(&text);
            assert!(34 + lines[0].chars().count() <= MAX_COLUMNS, "{lines:?}");
            assert!(lines[1..].iter().all(|line| line.chars().count() <= MAX_COLUMNS), "{lines:?}");
            let letters = |text: &str| text.chars().filter(|c| *c != ' ').count();
            assert_eq!(letters(&lines.concat()), letters(&text), "nothing is lost");
        }
        assert_eq!(folded("short"), ["short"]);
    }

    #[test]
    fn forged_event_is_sanitized_and_indented() {
        let forged = "refused\n2026-11-23T04:10:26Z  INFO leading\r\u{1b}[2K";
        let lines = TextFormat { colors: false, folds: false }.body(forged, 34);
        assert_eq!(lines, "refused\n    2026-11-23T04:10:26Z  INFO leading??[2K");
    }

    #[test]
    fn fields_show_names_and_do_not_repeat_the_message() {
        let text = |value: &str| Value::Text(value.to_owned());
        let fields = vec![
            ("event", text("starting")),
            ("identity", text("a_5be1")),
            ("leader", text("b_x_77aa")),
            ("place", text("/tmp/orders")),
            ("code", Value::Other("75".to_owned())),
        ];
        let fields = EventFields { message: "held in /tmp/orders".to_owned(), fields };
        assert_eq!(
            fields.into_text(),
            r#"held in /tmp/orders event="starting" identity="a" leader="b_x" code=75"#
        );
    }
}
