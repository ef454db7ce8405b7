//! The events of a rig on one clock: log lines, answers, and actions of the test.

use super::clock::Clock;
use super::{Answer, Moment, Outcome, lock};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

const INFALLIBLE: &str = "writing to a String cannot fail";

pub(crate) struct Journal {
    pub(crate) clock: Clock,
    pub(crate) answers: Mutex<Vec<Answer>>,
    lines: Mutex<Vec<Line>>,
    /// Whether the test is over, so that no candidate is probed any more.
    closed: AtomicBool,
}

/// A line that a process logged, or a note of an action on it.
struct Line {
    at: Moment,
    process: String,
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

    /// Records an action on a process. Returns the moment before it.
    pub(crate) fn note(&self, process: &str, what: impl Into<String>) -> Moment {
        let at = self.clock.now();
        self.note_at(at, process, what);
        at
    }

    /// Records an event of a process at another moment.
    pub(crate) fn note_at(&self, at: Moment, process: &str, what: impl Into<String>) {
        lock(&self.lines).push(Line { at, process: process.to_owned(), text: what.into() });
    }

    /// Records every line of a process's output until it ends.
    pub(crate) fn follow(
        self: &Arc<Self>,
        process: &str,
        output: impl Read + Send + 'static,
    ) -> JoinHandle<()> {
        let (journal, process) = (Arc::clone(self), process.to_owned());
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                journal.note(&process, line);
            }
        })
    }

    /// The whole output of a process.
    pub(crate) fn text(&self, process: &str) -> String {
        let lines = lock(&self.lines);
        let own = lines.iter().filter(|line| line.process == process);
        own.fold(String::new(), |text, line| text + &line.text + "\n")
    }

    /// The log lines of a process with this event.
    pub(crate) fn events(&self, process: &str, event: &str) -> Vec<Value> {
        self.find_all(|writer, text| if writer == process { logged(text, event) } else { None })
    }

    /// When a process first logged this event, if it did.
    pub(crate) fn first_logged(&self, process: &str, event: &str) -> Option<Moment> {
        self.find(|writer, text| if writer == process { logged(text, event) } else { None })
            .map(|(at, _)| at)
    }

    /// The first value that `select` returns for a process and its line, and the moment of that
    /// line.
    pub(crate) fn find<T>(&self, select: impl Fn(&str, &str) -> Option<T>) -> Option<(Moment, T)> {
        self.find_since(Moment::from_ms(0), select)
    }

    /// As [`Self::find`], among the lines from `since` on.
    pub(crate) fn find_since<T>(
        &self,
        since: Moment,
        select: impl Fn(&str, &str) -> Option<T>,
    ) -> Option<(Moment, T)> {
        lock(&self.lines)
            .iter()
            .filter(|line| line.at >= since)
            .find_map(|line| Some((line.at, select(&line.process, &line.text)?)))
    }

    /// Every value that `select` returns for a process and its line.
    pub(crate) fn find_all<T>(&self, select: impl Fn(&str, &str) -> Option<T>) -> Vec<T> {
        lock(&self.lines).iter().filter_map(|line| select(&line.process, &line.text)).collect()
    }

    /// The first matching answer.
    pub(crate) fn first_answer(&self, wanted: impl Fn(&Answer) -> bool) -> Option<Answer> {
        lock(&self.answers).iter().find(|answer| wanted(answer)).cloned()
    }

    /// The end of the last promise of this identity.
    pub(crate) fn last_promise(&self, identity: &str) -> Option<Moment> {
        let answers = lock(&self.answers);
        let own =
            answers.iter().filter(|answer| answer.identity().is_some_and(|own| own == identity));
        own.filter_map(Answer::promised_until).max()
    }

    /// The tokens of all observed terms of an election.
    pub(crate) fn tokens(&self, election: &str) -> BTreeSet<String> {
        let answers = lock(&self.answers);
        let leading = answers.iter().filter(|answer| answer.leads_in(election));
        leading.filter_map(|answer| answer.token().map(str::to_owned)).collect()
    }

    /// Every panic, even if the process survived it.
    pub(crate) fn panics(&self) -> Vec<String> {
        let lines = lock(&self.lines);
        let panics = lines.iter().filter(|line| line.text.contains("panicked at"));
        panics.map(|line| format!("{} panicked: {}", line.process, line.text)).collect()
    }

    /// The failures and the last `longest` events.
    pub(crate) fn timeline(&self, failures: &[String], longest: usize) -> String {
        let mut events: Vec<(Moment, String)> = grouped(&lock(&self.answers));
        events.extend(
            lock(&self.lines)
                .iter()
                .map(|line| (line.at, format!("{} {}", line.process, readable(&line.text)))),
        );
        events.sort_by_key(|(at, _)| *at);

        let mut timeline = String::from("\n");
        for failure in failures {
            writeln!(timeline, "FAILED {failure}").expect(INFALLIBLE);
        }
        let omitted = events.len().saturating_sub(longest);
        if omitted > 0 {
            writeln!(timeline, "({omitted} earlier events are omitted)").expect(INFALLIBLE);
        }
        for (at, event) in &events[omitted..] {
            writeln!(timeline, "{at:?} {event}").expect(INFALLIBLE);
        }
        timeline
    }
}

/// The line as JSON, if it has this event.
fn logged(text: &str, event: &str) -> Option<Value> {
    serde_json::from_str(text).ok().filter(|line: &Value| line["event"] == event)
}

/// The parts of a JSON log line that a person reads.
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

/// The answers of each candidate, with equal ones combined.
fn grouped(answers: &[Answer]) -> Vec<(Moment, String)> {
    let mut runs: BTreeMap<&str, Vec<(&Answer, usize, Moment)>> = BTreeMap::new();
    for answer in answers {
        let own = runs.entry(&answer.candidate).or_default();
        match own.last_mut().filter(|(first, ..)| same(&first.outcome, &answer.outcome)) {
            Some((_, count, until)) => (*count, *until) = (*count + 1, answer.answered),
            None => own.push((answer, 1, answer.answered)),
        }
    }
    let lines = runs.into_values().flatten().map(|(first, count, until)| {
        let Answer { candidate, asked, outcome, .. } = first;
        (*asked, format!("{candidate} answered {count} times until {until:?}: {outcome}"))
    });
    lines.collect()
}

fn same(one: &Outcome, other: &Outcome) -> bool {
    one == other || one.to_string() == other.to_string()
}
