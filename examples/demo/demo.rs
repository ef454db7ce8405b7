//! The demo's loop. It handles output, observations, and keys as they arrive, and supervises its
//! children and redraws a few times a second.
//!
//! It owns all child processes and the demo's clock. Start with [`run`].

use crate::candidate::Candidate;
use crate::client::Origin;
use crate::events::Events;
use crate::input::{Action, Key, Source, Update, quit_on_signals};
use crate::observer::{Journal, observe_candidate, observe_ledger};
use crate::plain::Plain;
use crate::process::Process;
use crate::programs::{CANDIDATES, Programs, SetupError};
use crate::screen::Screen;
use crate::view_model::ViewModel;
use serde::Deserialize;
use std::io::{self, IsTerminal as _};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::{JoinError, JoinSet};

/// The time between two rounds of supervision and drawing.
const TICK: Duration = Duration::from_millis(200);

/// How long the ledger may take to print its address.
const LEDGER_START_TIMEOUT: Duration = Duration::from_secs(5);

/// When the demo ends by itself, and when it kills the leader by itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) end_after: Option<Duration>,
    pub(crate) kill_after: Option<Duration>,
}

/// Starts children and collects their output.
#[derive(Debug)]
pub(crate) struct Launcher {
    pub(crate) programs: Programs,
    pub(crate) ledger_url: String,
    pub(crate) updates: Sender<Update>,
}

/// Why the demo failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("cannot start the demo")]
    Setup(#[from] SetupError),
    #[error("the ledger did not start: {0}")]
    LedgerStart(String),
    #[error("the ledger exited unexpectedly ({0})")]
    LedgerExited(ExitStatus),
    #[error("the store's server did not start: {0}")]
    ServerStart(String),
    #[error("the store's server exited unexpectedly ({0})")]
    ServerExited(ExitStatus),
    #[error("input or output failed")]
    Io(#[from] io::Error),
    #[error("a task of the demo panicked")]
    Task(#[from] JoinError),
}

/// Runs until a key, a signal, or the plan ends the demo. Returns the last state of the ledger's
/// journal.
pub(crate) async fn run(plan: Plan, programs: Programs) -> Result<Journal, Failure> {
    let (updates, mut inbox) = mpsc::channel(256);
    let mut tasks = JoinSet::new();
    quit_on_signals(&mut tasks, &updates)?;
    let mut launcher = Launcher { programs, ledger_url: String::new(), updates: updates.clone() };
    let ledger = launcher.start(launcher.programs.ledger(), Source::Ledger)?;
    launcher.ledger_url = ledger_url(&mut inbox).await?;
    let server = start_server(&launcher, &mut inbox).await?;
    observe_all(&mut tasks, &launcher);

    let mut demo = Demo::new(plan, launcher, ledger, server);
    let mut output = Output::open(updates)?;
    let mut ticks = tokio::time::interval(TICK);
    while !demo.is_over {
        tokio::select! {
            Some(update) = inbox.recv() => demo.handle_update(update)?,
            Some(result) = tasks.join_next() => result?,
            _ = ticks.tick() => {
                demo.step()?;
                output.show(&demo.view())?;
            }
        }
    }
    Ok(demo.journal)
}

/// The state of the demo. Dropping it ends all children.
#[derive(Debug)]
struct Demo {
    began: Instant,
    plan: Plan,
    launcher: Launcher,
    ledger: Process,
    /// The store's server, if the election uses one.
    server: Option<Process>,
    candidates: Vec<Candidate>,
    journal: Journal,
    events: Events,
    is_over: bool,
}

impl Demo {
    fn new(plan: Plan, launcher: Launcher, ledger: Process, server: Option<Process>) -> Self {
        let began = now();
        let mut events = Events::new(began);
        if !launcher.programs.has_setpriv {
            let warning =
                "setpriv (util-linux) not found: SIGKILL to the demo leaves its children running";
            events.push(began, "demo", warning);
        }
        let configs = CANDIDATES.into_iter().enumerate();
        let candidates =
            configs.map(|(index, config)| Candidate::new(index, config, began)).collect();
        Self {
            began,
            plan,
            launcher,
            ledger,
            server,
            candidates,
            journal: Journal::default(),
            events,
            is_over: false,
        }
    }

    fn handle_update(&mut self, update: Update) -> io::Result<()> {
        let now = now();
        match update {
            Update::Line(Source::Server, line) => self.events.push(now, "server", line),
            Update::Line(Source::Ledger, line) => self.events.push(now, "ledger", line),
            Update::Line(Source::Candidate(index), line) => {
                self.candidates[index].handle_baton_line(&line, now, &mut self.events);
            }
            Update::Line(Source::Application(index), line) => {
                self.candidates[index].handle_application_line(&line, now, &mut self.events);
            }
            Update::Observation(index, observation) => {
                self.candidates[index].set_observation(observation);
            }
            Update::Journal(journal) => self.journal = journal,
            Update::Key(key) => self.handle_key(key, now)?,
        }
        Ok(())
    }

    fn handle_key(&mut self, key: Key, now: Instant) -> io::Result<()> {
        match key {
            Key::Leader(action) => self.act_on_leader(action, now)?,
            Key::Resume => {
                for candidate in &mut self.candidates {
                    if candidate.resume()? {
                        self.events.push(now, candidate.name(), "resumed");
                    }
                }
            }
            Key::Quit => self.is_over = true,
        }
        Ok(())
    }

    fn act_on_leader(&mut self, action: Action, now: Instant) -> io::Result<()> {
        let Some(leader) = self.candidates.iter_mut().find(|candidate| candidate.is_leader())
        else {
            self.events.push(now, "demo", "no candidate leads at the moment");
            return Ok(());
        };
        let (text, result) = match action {
            Action::Kill => ("killed", leader.kill()),
            Action::Pause => ("paused", leader.pause()),
            Action::Stop => {
                ("stopped as the kubelet stops a Pod", leader.stop(now, &self.launcher))
            }
        };
        self.events.push(now, leader.name(), text);
        result
    }

    fn step(&mut self) -> Result<(), Failure> {
        let now = now();
        if let Some(status) = self.ledger.reap(now)? {
            return Err(Failure::LedgerExited(status));
        }
        if let Some(server) = &mut self.server
            && let Some(status) = server.reap(now)?
        {
            return Err(Failure::ServerExited(status));
        }
        for candidate in &mut self.candidates {
            candidate.step(now, &self.launcher, &mut self.events)?;
        }
        let at = now.duration_since(self.began);
        if self.plan.kill_after.is_some_and(|after| after <= at)
            && self.candidates.iter().any(Candidate::is_leader)
        {
            self.plan.kill_after = None;
            self.act_on_leader(Action::Kill, now)?;
        }
        self.is_over |= self.plan.end_after.is_some_and(|after| after <= at);
        Ok(())
    }

    fn view(&self) -> ViewModel<'_> {
        let now = now();
        ViewModel {
            at: now.duration_since(self.began),
            leaders: self.candidates.iter().filter_map(|candidate| candidate.leader(now)).collect(),
            rows: self.candidates.iter().map(Candidate::row).collect(),
            journal: &self.journal,
            events: &self.events,
        }
    }
}

impl Launcher {
    pub(crate) fn start(&self, command: Command, source: Source) -> io::Result<Process> {
        let updates = self.updates.clone();
        Process::start(command, move |line| {
            // The receiver is gone when the demo is ending.
            updates.blocking_send(Update::Line(source, line)).ok();
        })
    }
}

/// Where the demo shows its state.
enum Output {
    Screen(Screen),
    Plain(Plain),
}

impl Output {
    fn open(updates: Sender<Update>) -> io::Result<Self> {
        if io::stdout().is_terminal() {
            Ok(Self::Screen(Screen::open(updates)?))
        } else {
            Ok(Self::Plain(Plain::open(updates)))
        }
    }

    fn show(&mut self, view: &ViewModel<'_>) -> io::Result<()> {
        match self {
            Self::Screen(screen) => screen.show(view),
            Self::Plain(plain) => plain.show(view),
        }
    }
}

/// The ledger's URL, from its first line of output.
async fn ledger_url(inbox: &mut Receiver<Update>) -> Result<String, Failure> {
    #[derive(Deserialize)]
    struct Announcement {
        listen: String,
    }
    let first = tokio::time::timeout(LEDGER_START_TIMEOUT, inbox.recv()).await;
    let Ok(Some(Update::Line(Source::Ledger, line))) = first else {
        return Err(Failure::LedgerStart("no output".to_owned()));
    };
    match serde_json::from_str(&line) {
        Ok(Announcement { listen }) => Ok(format!("http://{listen}")),
        Err(_) => Err(Failure::LedgerStart(line)),
    }
}

/// Starts the store's server, if the election uses one, and waits until it serves.
async fn start_server(
    launcher: &Launcher,
    inbox: &mut Receiver<Update>,
) -> Result<Option<Process>, Failure> {
    let Some((server, command)) = launcher.programs.server() else {
        return Ok(None);
    };
    let mut process = launcher.start(command, Source::Server)?;
    if server.wait_until_serving(&mut process, now).await? {
        return Ok(Some(process));
    }
    let mut output = vec![];
    while let Ok(Update::Line(Source::Server, line)) = inbox.try_recv() {
        output.push(line);
    }
    let output = if output.is_empty() { "no output".to_owned() } else { output.join("\n") };
    Err(Failure::ServerStart(output))
}

fn observe_all(tasks: &mut JoinSet<()>, launcher: &Launcher) {
    let origin = |url: &str| url.parse::<Origin>().expect("the demo's URLs are valid");
    tasks.spawn(observe_ledger(origin(&launcher.ledger_url), launcher.updates.clone()));
    for (index, config) in CANDIDATES.into_iter().enumerate() {
        tasks.spawn(observe_candidate(index, origin(&config.url()), launcher.updates.clone()));
    }
}

/// The demo's only clock.
#[expect(
    clippy::disallowed_methods,
    reason = "it paces drawing and restarts; no claim depends on it, so it may stop in suspend"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}
