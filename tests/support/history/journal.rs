//! What happened in a rig, in the order of one clock: log lines, answers, and what the test did.

use super::clock::Clock;
use super::{Answer, Heard, Moment, lock};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

const INFALLIBLE: &str = "a String takes everything";

pub(crate) struct Journal {
    pub(crate) clock: Clock,
    pub(crate) answers: Mutex<Vec<Answer>>,
    lines: Mutex<Vec<Line>>,
    /// The test is over: nobody is asked any more.
    closed: AtomicBool,
}

/// A line that a process logged, or a note of what was done to it.
struct Line {
    at: Moment,
    who: String,
    text: String,
}

impl Journal {
    pub(crate) fn begin() -> Self {
        Self {
            clock: Clock::start(),
            answers: Mutex::default(),
            lines: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Writes down what happens to `who`, and returns the moment before it happens.
    pub(crate) fn note(&self, who: &str, what: impl Into<String>) -> Moment {
        let at = self.clock.now();
        self.note_at(at, who, what);
        at
    }

    /// Writes down what happened to `who` at another moment.
    pub(crate) fn note_at(&self, at: Moment, who: &str, what: impl Into<String>) {
        lock(&self.lines).push(Line { at, who: who.to_owned(), text: what.into() });
    }

    /// Notes every line of a process's output until it ends.
    pub(crate) fn follow(
        self: &Arc<Self>,
        who: &str,
        output: impl Read + Send + 'static,
    ) -> JoinHandle<()> {
        let (journal, who) = (Arc::clone(self), who.to_owned());
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                journal.note(&who, line);
            }
        })
    }

    /// Everything that `who` wrote.
    pub(crate) fn text(&self, who: &str) -> String {
        let lines = lock(&self.lines);
        let own = lines.iter().filter(|line| line.who == who);
        own.fold(String::new(), |text, line| text + &line.text + "\n")
    }

    /// The lines that `who` logged with this event.
    pub(crate) fn events(&self, who: &str, event: &str) -> Vec<Value> {
        let lines = lock(&self.lines);
        lines
            .iter()
            .filter(|line| line.who == who)
            .filter_map(|line| logged(&line.text, event))
            .collect()
    }

    /// When `who` first logged a line with this event, if it did.
    pub(crate) fn told(&self, who: &str, event: &str) -> Option<Moment> {
        self.find(|writer, text| if writer == who { logged(text, event) } else { None })
            .map(|(at, _)| at)
    }

    /// What `look` finds in the first line in which it finds something, and when that was written.
    pub(crate) fn find<T>(&self, look: impl Fn(&str, &str) -> Option<T>) -> Option<(Moment, T)> {
        lock(&self.lines).iter().find_map(|line| Some((line.at, look(&line.who, &line.text)?)))
    }

    /// The first answer of this kind.
    pub(crate) fn first_answer(&self, wanted: impl Fn(&Answer) -> bool) -> Option<Answer> {
        lock(&self.answers).iter().find(|answer| wanted(answer)).cloned()
    }

    /// Until when the last promise that was heard of this identity is good.
    pub(crate) fn last_promise(&self, identity: &str) -> Option<Moment> {
        let answers = lock(&self.answers);
        let own =
            answers.iter().filter(|answer| answer.identity().is_some_and(|own| own == identity));
        own.filter_map(Answer::promised_until).max()
    }

    /// The tokens of all terms of an election that were heard of.
    pub(crate) fn tokens(&self, election: &str) -> BTreeSet<String> {
        let answers = lock(&self.answers);
        let leading = answers.iter().filter(|answer| answer.leads_in(election));
        leading.filter_map(|answer| answer.token().map(str::to_owned)).collect()
    }

    /// A panic is a fault, however the process went on.
    pub(crate) fn panics(&self) -> Vec<String> {
        let lines = lock(&self.lines);
        let panics = lines.iter().filter(|line| line.text.contains("panicked at"));
        panics.map(|line| format!("{} panicked: {}", line.who, line.text)).collect()
    }

    /// The faults, and what led to them: of more than `longest` events the last ones.
    pub(crate) fn story(&self, faults: &[String], longest: usize) -> String {
        let mut events: Vec<(Moment, String)> = heard(&lock(&self.answers));
        events.extend(
            lock(&self.lines)
                .iter()
                .map(|line| (line.at, format!("{} {}", line.who, readable(&line.text)))),
        );
        events.sort_by_key(|(at, _)| *at);

        let mut story = String::from("\n");
        for fault in faults {
            writeln!(story, "FAULT {fault}").expect(INFALLIBLE);
        }
        let untold = events.len().saturating_sub(longest);
        if untold > 0 {
            writeln!(story, "({untold} earlier events are left out)").expect(INFALLIBLE);
        }
        for (at, event) in &events[untold..] {
            writeln!(story, "{at:?} {event}").expect(INFALLIBLE);
        }
        story
    }
}

/// The line, if it was logged as JSON with this event.
fn logged(text: &str, event: &str) -> Option<Value> {
    serde_json::from_str(text).ok().filter(|line: &Value| line["event"] == event)
}

/// Of a line that was logged as JSON, what a person looks for.
fn readable(text: &str) -> String {
    let line: Value = serde_json::from_str(text).unwrap_or_default();
    let field = |name: &str| line[name].as_str();
    match (field("level"), field("message")) {
        (Some(level), Some(message)) => {
            format!("{level} {}: {message}", field("event").unwrap_or("-"))
        }
        _ => text.to_owned(),
    }
}

/// The answers of each candidate, equal ones in one line.
fn heard(answers: &[Answer]) -> Vec<(Moment, String)> {
    let mut runs: BTreeMap<&str, Vec<(&Answer, usize, Moment)>> = BTreeMap::new();
    for answer in answers {
        let own = runs.entry(&answer.candidate).or_default();
        match own.last_mut().filter(|(first, ..)| same(&first.heard, &answer.heard)) {
            Some((_, count, until)) => (*count, *until) = (*count + 1, answer.answered),
            None => own.push((answer, 1, answer.answered)),
        }
    }
    let lines = runs.into_values().flatten().map(|(first, count, until)| {
        let Answer { candidate, asked, heard, .. } = first;
        (*asked, format!("{candidate} said {count} times until {until:?}: {heard}"))
    });
    lines.collect()
}

fn same(one: &Heard, other: &Heard) -> bool {
    one == other || one.to_string() == other.to_string()
}
