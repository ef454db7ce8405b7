//! The picture: a scene laid out in rows of a given width. Pure; `screen.rs` puts it on the terminal.
//!
//! Every row is exactly as wide as the terminal, so that drawing one over its predecessor leaves nothing
//! of it. A small terminal shows less: rows are cut at the right, events fall away first, and the keys are
//! always there.

use crate::onlooker::{Journal, Term};
use crate::programs::{ELSEWHERE, LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD};
use crate::scene::Mood::{self, Bad, Faint, Good, Plain, Strong, Warning};
use crate::scene::{Leader, Row, Scene};
use humantime::format_duration;
use std::iter;
use std::time::Duration;

/// A piece of text in one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) text: String,
    pub(crate) mood: Mood,
}

/// One row of the terminal.
pub(crate) type Line = Vec<Span>;

/// How many terms of the journal are shown.
const TERMS: usize = 3;

/// How many cells a claim just renewed fills.
const CELLS: u32 = 24;

/// Lays the scene out.
pub(crate) fn draw(scene: &Scene<'_>, width: usize, height: usize) -> Vec<Line> {
    let mut lines = vec![title(), elsewhere(), vec![], leader(&scene.leaders), vec![]];
    lines.extend(candidates(&scene.rows));
    lines.push(vec![]);
    lines.extend(ledger(scene.journal));
    lines.push(vec![]);
    lines.extend(events(scene, height.saturating_sub(lines.len() + 1)));
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

fn elsewhere() -> Line {
    vec![Faint.paint(" in another terminal: "), Plain.paint(ELSEWHERE)]
}

fn leader(leaders: &[Leader]) -> Line {
    match leaders {
        [] => vec![
            Warning.paint(" nobody leads"),
            Faint.paint("   a claim that nobody renews has to run out first"),
        ],
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
            vec![
                Bad.paint(format!(" {} say that they lead, and only one may", names.join(" and "))),
            ]
        }
    }
}

/// The full part of the bar and the empty one.
fn bar(remaining: Duration) -> (String, String) {
    let full = (0..CELLS).filter(|cell| RENEW_DEADLINE * *cell / CELLS < remaining).count();
    ("█".repeat(full), "░".repeat(CELLS as usize - full))
}

fn candidates(rows: &[Row]) -> impl Iterator<Item = Line> {
    let head = columns(["candidate", "standing", "application", "last end"]);
    let rows = rows.iter().map(|row| {
        let place = format!("{} :{}", row.name, row.port);
        let [place, standing, application, end] =
            columns([&place, &row.standing, &row.application, &row.last_end]);
        vec![
            Strong.paint(place),
            row.mood.paint(standing),
            Plain.paint(application),
            Plain.paint(end),
        ]
    });
    iter::once(head.map(|cell| Faint.paint(cell)).to_vec()).chain(rows)
}

fn columns(cells: [&str; 4]) -> [String; 4] {
    let [a, b, c, d] = cells;
    [format!(" {a:<12}"), format!("{b:<14}"), format!("{c:<14}"), d.to_owned()]
}

fn ledger(journal: &Journal) -> Vec<Line> {
    let Journal { lines, refused, conflicts, terms } = journal;
    let count = format!(" The ledger took {lines} lines and refused {refused}");
    let mut picture = vec![vec![Plain.paint(count)]];
    if *conflicts > 0 {
        picture[0]
            .push(Bad.paint(format!(", and {conflicts} came from a second leader in a term")));
    }
    let skipped = terms.len().saturating_sub(TERMS);
    picture.extend(terms.iter().skip(skipped).map(|term| {
        let Term { token, writer, lines, refused } = term;
        vec![
            Plain.paint(format!(
                " token {token}   {writer}   {lines:>5} lines   {refused:>3} refused"
            )),
        ]
    }));
    picture.resize(1 + TERMS, vec![]);
    picture
}

fn events<'a>(scene: &'a Scene<'_>, room: usize) -> impl Iterator<Item = Line> + 'a {
    let skipped = scene.events.all().len().saturating_sub(room);
    scene.events.all().skip(skipped).map(|event| {
        let at = format!(" {:>7.1} s  ", event.at.as_secs_f64());
        vec![Faint.paint(at), Strong.paint(format!("{:<6}  ", event.who)), Plain.paint(&event.what)]
    })
}

fn keys(width: usize) -> Line {
    let words = if width < 76 {
        ["kill", "pause", "resume", "stop", "quit"]
    } else {
        ["kill the leader", "pause it", "resume", "stop it cleanly", "quit"]
    };
    let mut line = vec![];
    for word in words {
        let (key, _) = word.split_at(1);
        line.extend([Strong.paint(format!(" {key} ")), Faint.paint(format!("{word}  "))]);
    }
    line
}

/// Cuts or fills a line to the width, and leaves no character in it that would move the cursor.
fn fit(line: Line, width: usize) -> Line {
    let mut left = width;
    let mut fitted: Line = vec![];
    for Span { text, mood } in line {
        let text: String = text.chars().filter(|c| !c.is_control()).take(left).collect();
        left -= text.chars().count();
        fitted.push(Span { text, mood });
    }
    fitted.push(Plain.paint(" ".repeat(left)));
    fitted
}

impl Mood {
    fn paint(self, text: impl Into<String>) -> Span {
        Span { text: text.into(), mood: self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Events;
    use std::time::Instant;

    #[test]
    fn every_terminal_is_filled_exactly_and_shows_the_keys() {
        for (width, height) in [(80, 24), (200, 60), (40, 12), (5, 3), (1, 1)] {
            let lines = drawn(width, height);
            assert_eq!(lines.len(), height);
            for line in &lines {
                assert_eq!(line.chars().count(), width, "{line:?}");
            }
            assert!(" k ".starts_with(lines[height - 1].get(..3).unwrap_or(" ")));
        }
    }

    #[test]
    fn the_leader_is_shown_with_what_is_left_of_its_claim_and_the_last_events() {
        let lines = drawn(80, 24);
        assert_eq!(lines[3].trim_end(), " b leads   token 17   ████████████░░░░░░░░░░░░ 1.5 s");
        assert!(lines[22].contains("event 49"));
    }

    #[expect(clippy::disallowed_methods, reason = "events are counted from some instant")]
    fn drawn(width: usize, height: usize) -> Vec<String> {
        let began = Instant::now();
        let mut events = Events::new(began);
        for number in 0..50 {
            events.tell(began, "a", format!("event {number}\t\x1b[2J").repeat(20));
        }
        let leader = Leader { name: "b", token: "17".into(), remaining: RENEW_DEADLINE / 2 };
        let scene = Scene {
            at: Duration::ZERO,
            leaders: vec![leader],
            rows: vec![],
            journal: &Journal::default(),
            events: &events,
        };
        let lines = draw(&scene, width, height);
        lines.iter().map(|line| line.iter().map(|span| &*span.text).collect()).collect()
    }
}
