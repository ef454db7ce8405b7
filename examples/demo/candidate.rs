//! One candidate with its application, supervised as the kubelet supervises a Pod.
//!
//! A process that exits is restarted after a delay. Some exit codes of the candidate restart the
//! application too: see [`restarts_application`]. To stop a Pod, the candidate withdraws first,
//! then the application is stopped, and the candidate last. Start with [`Candidate::step`].

use crate::demo::Launcher;
use crate::events::{self, Events};
use crate::input::Source;
use crate::observer::Observation;
use crate::process::Process;
use crate::programs::CandidateConfig;
use crate::view_model::{Leader, Row, Style};
use rustix::process::Signal;
use serde::Deserialize;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// The delay before an exited process is restarted.
const RESTART_DELAY: Duration = Duration::from_millis(2500);

/// How long a process may take to exit: the kubelet's grace period when it restarts containers.
const GRACE_PERIOD: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Candidate {
    index: usize,
    config: CandidateConfig,
    baton: Supervised,
    application: Supervised,
    /// `baton stopping`, from the stop request until the application has exited.
    stopping: Option<Process>,
    is_paused: bool,
    last_exit: Option<String>,
    observation: Option<Observation>,
    application_state: Option<ApplicationState>,
}

/// The state that the application printed last.
#[derive(Debug, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
enum ApplicationState {
    Idle,
    Working { trouble: Option<String> },
    Refused { token: String },
}

impl Candidate {
    /// A candidate whose processes start at the first step.
    pub(crate) fn new(index: usize, config: CandidateConfig, now: Instant) -> Self {
        Self {
            index,
            config,
            baton: Supervised::StartsAt(now),
            application: Supervised::StartsAt(now),
            stopping: None,
            is_paused: false,
            last_exit: None,
            observation: None,
            application_state: None,
        }
    }

    /// Handles processes that exited, and starts those that are due.
    pub(crate) fn step(
        &mut self,
        now: Instant,
        launcher: &Launcher,
        events: &mut Events,
    ) -> io::Result<()> {
        if let Some(status) = self.baton.reap(now)? {
            let exit = format_exit(status);
            events.push(now, self.config.name, format!("exited with {exit}"));
            self.last_exit = Some(exit);
            self.observation = None;
            self.is_paused = false;
            if restarts_application(status) {
                self.application.stop(now)?;
            }
        }
        if self.application.reap(now)?.is_some() {
            self.application_state = None;
        }
        if let Some(stopping) = &mut self.stopping {
            let has_withdrawn = stopping.reap(now)?.is_some();
            if !has_withdrawn || self.application.is_running() {
                return Ok(());
            }
            self.stopping = None;
            self.baton.stop(now)?;
        }
        let (config, index) = (self.config, self.index);
        self.baton.start_when_due(now, || {
            launcher.start(launcher.programs.candidate(config), Source::Candidate(index))
        })?;
        self.application.start_when_due(now, || {
            let command = launcher.programs.application(config, &launcher.ledger_url);
            launcher.start(command, Source::Application(index))
        })
    }

    pub(crate) fn kill(&self) -> io::Result<()> {
        self.baton.signal(Signal::KILL)
    }

    pub(crate) fn pause(&mut self) -> io::Result<()> {
        self.is_paused = true;
        self.observation = None;
        self.baton.signal(Signal::STOP)
    }

    /// Resumes the candidate. Returns whether it was paused.
    pub(crate) fn resume(&mut self) -> io::Result<bool> {
        let was_paused = std::mem::take(&mut self.is_paused);
        if was_paused {
            self.baton.signal(Signal::CONT)?;
        }
        Ok(was_paused)
    }

    /// Begins to stop both processes as the kubelet stops a Pod; [`step`](Self::step) continues.
    pub(crate) fn stop(&mut self, now: Instant, launcher: &Launcher) -> io::Result<()> {
        let source = Source::Candidate(self.index);
        let mut stopping = launcher.start(launcher.programs.stopping(self.config), source)?;
        stopping.kill_at(now + GRACE_PERIOD);
        self.stopping = Some(stopping);
        self.application.stop(now)
    }

    pub(crate) fn set_observation(&mut self, observation: Option<Observation>) {
        // An observation that was in flight when the process exited or was paused is outdated.
        self.observation = observation.filter(|_| self.baton.is_running() && !self.is_paused);
    }

    pub(crate) fn handle_baton_line(&self, line: &str, now: Instant, events: &mut Events) {
        if let Some(text) = events::summarize(line) {
            events.push(now, self.config.name, text);
        }
    }

    pub(crate) fn handle_application_line(
        &mut self,
        line: &str,
        now: Instant,
        events: &mut Events,
    ) {
        match serde_json::from_str(line) {
            Ok(state) => {
                if let ApplicationState::Refused { token } = &state {
                    events.push(now, self.config.name, format!("the ledger refused token {token}"));
                }
                self.application_state = Some(state);
            }
            Err(_) => events.push(now, self.config.name, line),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.config.name
    }

    /// Whether the candidate reports that it leads and is not already being stopped.
    pub(crate) fn is_leader(&self) -> bool {
        self.stopping.is_none()
            && self.observation.as_ref().is_some_and(|observed| observed.leader.is_leader)
    }

    pub(crate) fn leader(&self, now: Instant) -> Option<Leader> {
        let observed = self.observation.as_ref().filter(|observed| observed.leader.is_leader)?;
        let token = observed.leader.token.clone()?;
        Some(Leader { name: self.config.name, token, remaining: observed.remaining(now) })
    }

    pub(crate) fn row(&self) -> Row {
        let (role, role_style) = match &self.observation {
            _ if !self.baton.is_running() => ("exited", Style::Bad),
            _ if self.stopping.is_some() => ("stopping", Style::Warning),
            _ if self.is_paused => ("paused", Style::Warning),
            None => ("no answer", Style::Warning),
            Some(observed) if observed.leader.is_leader => {
                (&*observed.leader.standing, Style::Good)
            }
            Some(observed) => (&*observed.leader.standing, Style::Plain),
        };
        let application = match &self.application_state {
            _ if !self.application.is_running() => "exited",
            None => "starting",
            Some(ApplicationState::Idle) => "idle",
            Some(ApplicationState::Working { trouble: None }) => "working",
            Some(ApplicationState::Working { trouble: Some(trouble) }) => trouble,
            Some(ApplicationState::Refused { .. }) => "refused",
        };
        Row {
            name: self.config.name,
            port: self.config.port,
            role: role.to_owned(),
            role_style,
            application: application.to_owned(),
            last_exit: self.last_exit.clone().unwrap_or_default(),
        }
    }
}

/// A supervised process: running, or waiting for its next start.
#[derive(Debug)]
enum Supervised {
    Running(Process),
    StartsAt(Instant),
}

impl Supervised {
    fn is_running(&self) -> bool {
        matches!(self, Self::Running(_))
    }

    fn start_when_due(
        &mut self,
        now: Instant,
        start: impl FnOnce() -> io::Result<Process>,
    ) -> io::Result<()> {
        if matches!(self, Self::StartsAt(instant) if *instant <= now) {
            *self = Self::Running(start()?);
        }
        Ok(())
    }

    fn reap(&mut self, now: Instant) -> io::Result<Option<ExitStatus>> {
        let Self::Running(process) = self else {
            return Ok(None);
        };
        let status = process.reap(now)?;
        if status.is_some() {
            *self = Self::StartsAt(now + RESTART_DELAY);
        }
        Ok(status)
    }

    /// Sends SIGTERM, and SIGKILL after the grace period.
    fn stop(&mut self, now: Instant) -> io::Result<()> {
        let Self::Running(process) = self else {
            return Ok(());
        };
        process.kill_at(now + GRACE_PERIOD);
        process.signal(Signal::TERM)
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        match self {
            Self::Running(process) => process.signal(signal),
            Self::StartsAt(_) => Ok(()),
        }
    }
}

/// Whether the application must restart with the sidecar, by Baton's exit codes. A killed process
/// has no code here; the kubelet gives it one that restarts the application.
fn restarts_application(status: ExitStatus) -> bool {
    !matches!(status.code(), Some(0 | 2 | 70 | 77))
}

fn format_exit(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => code.to_string(),
        (None, Some(signal)) => format!("{} (signal {signal})", 128 + signal),
        (None, None) => status.to_string(),
    }
}
