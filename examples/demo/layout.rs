//! Lays out a [`ViewModel`] as lines of text. Pure: `screen.rs` draws the lines.
//!
//! Every line is exactly as wide as the terminal, so that it overwrites the previous one
//! completely. On a small terminal, lines are cut at the right, events are dropped first, and the
//! keys are always shown. Start with [`render`].

use crate::observer::{Journal, Term};
use crate::programs::{CURL_COMMAND, LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD};
use crate::view_model::Style::{self, Bad, Faint, Good, Plain, Strong, Warning};
use crate::view_model::{Leader, Row, ViewModel};
use humantime::format_duration;
use std::iter;
use std::time::Duration;

/// A piece of text in one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) text: String,
    pub(crate) style: Style,
}

/// One row of the terminal.
pub(crate) type Line = Vec<Span>;

/// How many terms of the journal are shown.
const MAX_TERMS: usize = 3;

/// The width of the bar for a full claim.
const BAR_WIDTH: u32 = 24;

/// Renders `view` as `height` lines of `width` characters.
pub(crate) fn render(view: &ViewModel<'_>, width: usize, height: usize) -> Vec<Line> {
    let mut lines = vec![title(), hint(), vec![], leader(&view.leaders), vec![]];
    lines.extend(candidates(&view.rows));
    lines.push(vec![]);
    lines.extend(ledger(view.journal));
    lines.push(vec![]);
    lines.extend(events(view, height.saturating_sub(lines.len() + 1)));
    lines.resize(height.saturating_sub(1), vec![]);
    lines.push(keys(width));
    lines.into_iter().map(|line| fit(line, width)).collect()
}

fn title() -> Line {
    let [lease, deadline, retry] =
        [LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD].map(format_duration);
    let timing = format!("   lease {lease}, renew deadline {deadline}, retry {retry}");
    vec![Strong.paint(" Three candidates, one election"), Faint.paint(timing)]
}

fn hint() -> Line {
    vec![Faint.paint(" in another terminal: "), Plain.paint(CURL_COMMAND)]
}

fn leader(leaders: &[Leader]) -> Line {
    match leaders {
        [] => vec![Warning.paint(" no leader"), Faint.paint("   the last claim must expire first")],
        [leader] => {
            let (full, empty) = bar(leader.remaining);
            vec![
                Good.paint(format!(" {} leads ", leader.name)),
                Plain.paint(format!("  token {}   ", leader.token)),
                Good.paint(full),
                Faint.paint(empty),
                Plain.paint(format!(" {:.1} s", leader.remaining.as_secs_f64())),
            ]
        }
        several => {
            let names: Vec<_> = several.iter().map(|leader| leader.name).collect();
            vec![Bad.paint(format!(" more than one leader: {}", names.join(", ")))]
        }
    }
}

/// The full and the empty part of the bar.
fn bar(remaining: Duration) -> (String, String) {
    let full = (0..BAR_WIDTH).filter(|cell| RENEW_DEADLINE * *cell / BAR_WIDTH < remaining).count();
    ("█".repeat(full), "░".repeat(BAR_WIDTH as usize - full))
}

fn candidates(rows: &[Row]) -> impl Iterator<Item = Line> {
    let header = columns(["candidate", "role", "application", "last exit"]);
    let rows = rows.iter().map(|row| {
        let name = format!("{} :{}", row.name, row.port);
        let [name, role, application, last_exit] =
            columns([&name, &row.role, &row.application, &row.last_exit]);
        vec![
            Strong.paint(name),
            row.role_style.paint(role),
            Plain.paint(application),
            Plain.paint(last_exit),
        ]
    });
    iter::once(header.map(|cell| Faint.paint(cell)).to_vec()).chain(rows)
}

fn columns(cells: [&str; 4]) -> [String; 4] {
    let [a, b, c, d] = cells;
    [format!(" {a:<12}"), format!("{b:<14}"), format!("{c:<14}"), d.to_owned()]
}

fn ledger(journal: &Journal) -> Vec<Line> {
    let Journal { lines, refused, conflicts, terms } = journal;
    let count = format!(" ledger: {lines} lines accepted, {refused} refused");
    let mut rows = vec![vec![Plain.paint(count)]];
    if *conflicts > 0 {
        rows[0].push(Bad.paint(format!(", {conflicts} from a second leader in a term")));
    }
    let skipped = terms.len().saturating_sub(MAX_TERMS);
    rows.extend(terms.iter().skip(skipped).map(|term| {
        let Term { token, writer, lines, refused } = term;
        vec![
            Plain.paint(format!(
                " token {token}   {writer}   {lines:>5} lines   {refused:>3} refused"
            )),
        ]
    }));
    rows.resize(1 + MAX_TERMS, vec![]);
    rows
}

fn events<'a>(view: &'a ViewModel<'_>, max: usize) -> impl Iterator<Item = Line> + 'a {
    let skipped = view.events.all().len().saturating_sub(max);
    view.events.all().skip(skipped).map(|event| {
        let at = format!(" {:>7.1} s  ", event.at.as_secs_f64());
        vec![
            Faint.paint(at),
            Strong.paint(format!("{:<6}  ", event.source)),
            Plain.paint(&event.text),
        ]
    })
}

fn keys(width: usize) -> Line {
    let labels = if width < 76 {
        ["kill", "pause", "resume", "stop", "quit"]
    } else {
        ["kill the leader", "pause it", "resume", "stop it cleanly", "quit"]
    };
    let mut line = vec![];
    for label in labels {
        let (key, _) = label.split_at(1);
        line.extend([Strong.paint(format!(" {key} ")), Faint.paint(format!("{label}  "))]);
    }
    line
}

/// Cuts or pads a line to `width` and removes control characters, which could move the cursor.
fn fit(line: Line, width: usize) -> Line {
    let mut remaining = width;
    let mut fitted: Line = vec![];
    for Span { text, style } in line {
        let text: String = text.chars().filter(|c| !c.is_control()).take(remaining).collect();
        remaining -= text.chars().count();
        fitted.push(Span { text, style });
    }
    fitted.push(Plain.paint(" ".repeat(remaining)));
    fitted
}

impl Style {
    fn paint(self, text: impl Into<String>) -> Span {
        Span { text: text.into(), style: self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Events;
    use std::time::Instant;

    #[test]
    fn lines_fill_every_terminal_and_show_the_keys() {
        for (width, height) in [(80, 24), (200, 60), (40, 12), (5, 3), (1, 1)] {
            let lines = rendered(width, height);
            assert_eq!(lines.len(), height);
            for line in &lines {
                assert_eq!(line.chars().count(), width, "{line:?}");
            }
            assert!(" k ".starts_with(lines[height - 1].get(..3).unwrap_or(" ")));
        }
    }

    #[test]
    fn leader_is_shown_with_its_claim_and_the_last_events() {
        let lines = rendered(80, 24);
        assert_eq!(lines[3].trim_end(), " b leads   token 17   ████████████░░░░░░░░░░░░ 1.5 s");
        assert!(lines[22].contains("event 49"));
    }

    #[expect(clippy::disallowed_methods, reason = "the test needs an instant to start from")]
    fn rendered(width: usize, height: usize) -> Vec<String> {
        let began = Instant::now();
        let mut events = Events::new(began);
        for number in 0..50 {
            events.push(began, "a", format!("event {number}\t\x1b[2J").repeat(20));
        }
        let leader = Leader { name: "b", token: "17".into(), remaining: RENEW_DEADLINE / 2 };
        let view = ViewModel {
            at: Duration::ZERO,
            leaders: vec![leader],
            rows: vec![],
            journal: &Journal::default(),
            events: &events,
        };
        let lines = render(&view, width, height);
        lines.iter().map(|line| line.iter().map(|span| &*span.text).collect()).collect()
    }
}
