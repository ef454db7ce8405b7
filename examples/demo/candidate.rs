//! One candidate with its application, and what kubelet would do for them.
//!
//! A process that ended is started again a little later. When a candidate ends with a code that moves the
//! application, that one is ended and started again too. Ending a Pod is the other way round: the candidate
//! is told that it is stopping, the application ends, and only then does the candidate.

use crate::demo::Stage;
use crate::events::{self, Events};
use crate::input::Source;
use crate::onlooker::Reading;
use crate::process::Process;
use crate::programs::DriverContext;
use crate::scene::{Leader, Mood, Row};
use rustix::process::Signal;
use serde::Deserialize;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// How long after its end a process is started again.
const RESTART: Duration = Duration::from_millis(2500);

/// How long a process may take to end; kubelet's own measure where it restarts a Pod's containers.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Candidate {
    index: usize,
    seat: DriverContext,
    baton: Part,
    application: Part,
    /// `baton stopping`, while it runs.
    stopping: Option<Process>,
    paused: bool,
    last_end: Option<String>,
    reading: Option<Reading>,
    duty: Option<Duty>,
}

/// What the application last said of itself.
#[derive(Debug, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
enum Duty {
    Idle,
    Working { trouble: Option<String> },
    Refused { token: String },
}

impl Candidate {
    /// A candidate that is due to start now.
    pub(crate) fn new(index: usize, seat: DriverContext, now: Instant) -> Self {
        Self {
            index,
            seat,
            baton: Part::DueAt(now),
            application: Part::DueAt(now),
            stopping: None,
            paused: false,
            last_end: None,
            reading: None,
            duty: None,
        }
    }

    /// Looks after both processes: notes their ends, and starts what is due.
    pub(crate) fn step(
        &mut self,
        now: Instant,
        stage: &Stage,
        events: &mut Events,
    ) -> io::Result<()> {
        if let Some(status) = self.baton.reap(now)? {
            let end = in_words(status);
            events.tell(now, self.seat.name, format!("ended with {end}"));
            self.last_end = Some(end);
            self.reading = None;
            self.paused = false;
            if moves_the_application(status) {
                self.application.end(now)?;
            }
        }
        if self.application.reap(now)?.is_some() {
            self.duty = None;
        }
        if let Some(stopping) = &mut self.stopping {
            let withdrawn = stopping.reap(now)?.is_some();
            if !withdrawn || self.application.runs() {
                return Ok(());
            }
            self.stopping = None;
            self.baton.end(now)?;
        }
        let (seat, index) = (self.seat, self.index);
        self.baton.start_when_due(now, || {
            stage.start(stage.programs.candidate(seat), Source::Candidate(index))
        })?;
        self.application.start_when_due(now, || {
            let command = stage.programs.application(seat, &stage.ledger_url);
            stage.start(command, Source::Application(index))
        })
    }

    pub(crate) fn kill(&self) -> io::Result<()> {
        self.baton.signal(Signal::KILL)
    }

    pub(crate) fn pause(&mut self) -> io::Result<()> {
        self.paused = true;
        self.reading = None;
        self.baton.signal(Signal::STOP)
    }

    /// Lets it go on, if it was paused; says whether it was.
    pub(crate) fn resume(&mut self) -> io::Result<bool> {
        let was_paused = std::mem::take(&mut self.paused);
        if was_paused {
            self.baton.signal(Signal::CONT)?;
        }
        Ok(was_paused)
    }

    /// Ends both as kubelet ends a Pod; [`step`](Self::step) does the rest.
    pub(crate) fn stop(&mut self, now: Instant, stage: &Stage) -> io::Result<()> {
        let source = Source::Candidate(self.index);
        let mut stopping = stage.start(stage.programs.stopping(self.seat), source)?;
        stopping.kill_at(now + GRACE);
        self.stopping = Some(stopping);
        self.application.end(now)
    }

    pub(crate) fn take_reading(&mut self, reading: Option<Reading>) {
        // One that was on its way when the process was paused or ended speaks of the past.
        self.reading = reading.filter(|_| self.baton.runs() && !self.paused);
    }

    pub(crate) fn hear_baton(&self, line: &str, now: Instant, events: &mut Events) {
        if let Some(words) = events::in_words(line) {
            events.tell(now, self.seat.name, words);
        }
    }

    pub(crate) fn hear_application(&mut self, line: &str, now: Instant, events: &mut Events) {
        match serde_json::from_str(line) {
            Ok(duty) => {
                if let Duty::Refused { token } = &duty {
                    events.tell(now, self.seat.name, format!("the ledger refused token {token}"));
                }
                self.duty = Some(duty);
            }
            Err(_) => events.tell(now, self.seat.name, line),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.seat.name
    }

    /// Whether it says that it leads, and may be stopped for it.
    pub(crate) fn leads(&self) -> bool {
        self.stopping.is_none()
            && self.reading.as_ref().is_some_and(|reading| reading.answer.is_leader)
    }

    pub(crate) fn leader(&self, now: Instant) -> Option<Leader> {
        let reading = self.reading.as_ref().filter(|reading| reading.answer.is_leader)?;
        let token = reading.answer.token.clone()?;
        Some(Leader { name: self.seat.name, token, remaining: reading.remaining(now) })
    }

    pub(crate) fn row(&self) -> Row {
        let (standing, mood) = match &self.reading {
            _ if !self.baton.runs() => ("ended", Mood::Bad),
            _ if self.stopping.is_some() => ("stopping", Mood::Warning),
            _ if self.paused => ("paused", Mood::Warning),
            None => ("no answer", Mood::Warning),
            Some(reading) if reading.answer.is_leader => (&*reading.answer.standing, Mood::Good),
            Some(reading) => (&*reading.answer.standing, Mood::Plain),
        };
        let application = match &self.duty {
            _ if !self.application.runs() => "ended",
            None => "starting",
            Some(Duty::Idle) => "idle",
            Some(Duty::Working { trouble: None }) => "working",
            Some(Duty::Working { trouble: Some(trouble) }) => trouble,
            Some(Duty::Refused { .. }) => "refused",
        };
        Row {
            name: self.seat.name,
            port: self.seat.port,
            standing: standing.to_owned(),
            mood,
            application: application.to_owned(),
            last_end: self.last_end.clone().unwrap_or_default(),
        }
    }
}

/// A process that is to be running, at the latest from some instant on.
#[derive(Debug)]
enum Part {
    Runs(Process),
    DueAt(Instant),
}

impl Part {
    fn runs(&self) -> bool {
        matches!(self, Self::Runs(_))
    }

    fn start_when_due(
        &mut self,
        now: Instant,
        start: impl FnOnce() -> io::Result<Process>,
    ) -> io::Result<()> {
        if matches!(self, Self::DueAt(instant) if *instant <= now) {
            *self = Self::Runs(start()?);
        }
        Ok(())
    }

    fn reap(&mut self, now: Instant) -> io::Result<Option<ExitStatus>> {
        let Self::Runs(process) = self else {
            return Ok(None);
        };
        let status = process.reap(now)?;
        if status.is_some() {
            *self = Self::DueAt(now + RESTART);
        }
        Ok(status)
    }

    /// Asks it to end, and sees to it that it does.
    fn end(&mut self, now: Instant) -> io::Result<()> {
        let Self::Runs(process) = self else {
            return Ok(());
        };
        process.kill_at(now + GRACE);
        process.signal(Signal::TERM)
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        match self {
            Self::Runs(process) => process.signal(signal),
            Self::DueAt(_) => Ok(()),
        }
    }
}

/// The rule of Baton's exit codes. A process that was killed has no code, and kubelet gives it one that
/// moves the application.
fn moves_the_application(status: ExitStatus) -> bool {
    !matches!(status.code(), Some(0 | 2 | 70 | 77))
}

fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => code.to_string(),
        (None, Some(signal)) => format!("{} (signal {signal})", 128 + signal),
        (None, None) => status.to_string(),
    }
}
