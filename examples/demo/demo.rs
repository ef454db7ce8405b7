//! The demo: one ledger, three candidates with their applications, and somebody who looks at them.
//!
//! It owns every child. One loop takes in what is heard and what is pressed, and a few times a second looks
//! after the children and shows the scene.

use crate::candidate::Candidate;
use crate::client::Origin;
use crate::events::Events;
use crate::input::{Blow, Key, Source, Update, quit_on_signals};
use crate::onlooker::{Journal, watch_candidate, watch_ledger};
use crate::plain::Plain;
use crate::process::Process;
use crate::programs::{NotReady, Programs, SEATS};
use crate::scene::Scene;
use crate::screen::Screen;
use serde::Deserialize;
use std::io::{self, IsTerminal as _};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::{JoinError, JoinSet};

/// How often the children are looked after and the scene is shown.
const TICK: Duration = Duration::from_millis(200);

/// How long the ledger may take to say where it listens.
const LEDGER_START: Duration = Duration::from_secs(5);

/// What is to happen without a key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) end_after: Option<Duration>,
    pub(crate) kill_after: Option<Duration>,
}

/// What it takes to start a child.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) programs: Programs,
    pub(crate) ledger_url: String,
    pub(crate) updates: Sender<Update>,
}

/// Why the demo ended other than by being asked to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("the demo cannot begin")]
    NotReady(#[from] NotReady),
    #[error("the ledger did not start: {0}")]
    NoLedger(String),
    #[error("the ledger ended ({0}), which it never does by itself")]
    LedgerEnded(ExitStatus),
    #[error("the ZooKeeper server does not serve: {0}")]
    NotServing(String),
    #[error("the ZooKeeper server ended ({0}), which it never does by itself")]
    ServerEnded(ExitStatus),
    #[error("the demo cannot go on")]
    Io(#[from] io::Error),
    #[error("a task of the demo ended in a fault of ours")]
    Task(#[from] JoinError),
}

/// Runs until it is asked to end, and returns what the ledger's journal said last.
pub(crate) async fn run(plan: Plan, programs: Programs) -> Result<Journal, Failure> {
    let (updates, mut inbox) = mpsc::channel(256);
    let mut tasks = JoinSet::new();
    quit_on_signals(&mut tasks, &updates)?;
    let mut stage = Stage { programs, ledger_url: String::new(), updates: updates.clone() };
    let ledger = stage.start(stage.programs.ledger(), Source::Ledger)?;
    stage.ledger_url = announced(&mut inbox).await?;
    let server = start_server(&stage, &mut inbox).await?;
    watch_all(&mut tasks, &stage);

    let mut demo = Demo::new(plan, stage, ledger, server);
    let mut view = View::open(updates)?;
    let mut ticks = tokio::time::interval(TICK);
    while !demo.is_over {
        tokio::select! {
            Some(update) = inbox.recv() => demo.take(update)?,
            Some(ended) = tasks.join_next() => ended?,
            _ = ticks.tick() => {
                demo.step()?;
                view.show(&demo.scene())?;
            }
        }
    }
    Ok(demo.journal)
}

/// Everything that is on the stage. Its children end with it.
#[derive(Debug)]
struct Demo {
    began: Instant,
    plan: Plan,
    stage: Stage,
    ledger: Process,
    /// What the election is held in, where that is a process.
    server: Option<Process>,
    candidates: Vec<Candidate>,
    journal: Journal,
    events: Events,
    is_over: bool,
}

impl Demo {
    fn new(plan: Plan, stage: Stage, ledger: Process, server: Option<Process>) -> Self {
        let began = now();
        let mut events = Events::new(began);
        if !stage.programs.has_setpriv {
            let warning =
                "no setpriv of util-linux here: SIGKILL to this demo would leave its children";
            events.tell(began, "demo", warning);
        }
        let candidates = SEATS.into_iter().enumerate();
        let candidates =
            candidates.map(|(index, seat)| Candidate::new(index, seat, began)).collect();
        Self {
            began,
            plan,
            stage,
            ledger,
            server,
            candidates,
            journal: Journal::default(),
            events,
            is_over: false,
        }
    }

    fn take(&mut self, update: Update) -> io::Result<()> {
        let now = now();
        match update {
            Update::Line(Source::ZooKeeper, line) => self.events.tell(now, "server", line),
            Update::Line(Source::Ledger, line) => self.events.tell(now, "ledger", line),
            Update::Line(Source::Candidate(index), line) => {
                self.candidates[index].hear_baton(&line, now, &mut self.events);
            }
            Update::Line(Source::Application(index), line) => {
                self.candidates[index].hear_application(&line, now, &mut self.events);
            }
            Update::Reading(index, reading) => self.candidates[index].take_reading(reading),
            Update::Journal(journal) => self.journal = journal,
            Update::Key(key) => self.press(key, now)?,
        }
        Ok(())
    }

    fn press(&mut self, key: Key, now: Instant) -> io::Result<()> {
        match key {
            Key::ToLeader(blow) => self.strike(blow, now)?,
            Key::Resume => {
                for candidate in &mut self.candidates {
                    if candidate.resume()? {
                        self.events.tell(now, candidate.name(), "resumed");
                    }
                }
            }
            Key::Quit => self.is_over = true,
        }
        Ok(())
    }

    fn strike(&mut self, blow: Blow, now: Instant) -> io::Result<()> {
        let Some(leader) = self.candidates.iter_mut().find(|candidate| candidate.leads()) else {
            self.events.tell(now, "demo", "nobody leads just now");
            return Ok(());
        };
        let (what, done) = match blow {
            Blow::Kill => ("killed", leader.kill()),
            Blow::Pause => ("paused", leader.pause()),
            Blow::Stop => ("stopped as kubelet ends a Pod", leader.stop(now, &self.stage)),
        };
        self.events.tell(now, leader.name(), what);
        done
    }

    fn step(&mut self) -> Result<(), Failure> {
        let now = now();
        if let Some(status) = self.ledger.reap(now)? {
            return Err(Failure::LedgerEnded(status));
        }
        if let Some(server) = &mut self.server
            && let Some(status) = server.reap(now)?
        {
            return Err(Failure::ServerEnded(status));
        }
        for candidate in &mut self.candidates {
            candidate.step(now, &self.stage, &mut self.events)?;
        }
        let at = now.duration_since(self.began);
        if self.plan.kill_after.is_some_and(|after| after <= at)
            && self.candidates.iter().any(Candidate::leads)
        {
            self.plan.kill_after = None;
            self.strike(Blow::Kill, now)?;
        }
        self.is_over |= self.plan.end_after.is_some_and(|after| after <= at);
        Ok(())
    }

    fn scene(&self) -> Scene<'_> {
        let now = now();
        Scene {
            at: now.duration_since(self.began),
            leaders: self.candidates.iter().filter_map(|candidate| candidate.leader(now)).collect(),
            rows: self.candidates.iter().map(Candidate::row).collect(),
            journal: &self.journal,
            events: &self.events,
        }
    }
}

impl Stage {
    pub(crate) fn start(&self, command: Command, source: Source) -> io::Result<Process> {
        let updates = self.updates.clone();
        Process::start(command, move |line| {
            // Nobody takes it when the demo is ending.
            updates.blocking_send(Update::Line(source, line)).ok();
        })
    }
}

/// Where the scene is shown.
enum View {
    Screen(Screen),
    Plain(Plain),
}

impl View {
    fn open(updates: Sender<Update>) -> io::Result<Self> {
        if io::stdout().is_terminal() {
            Ok(Self::Screen(Screen::open(updates)?))
        } else {
            Ok(Self::Plain(Plain::open(updates)))
        }
    }

    fn show(&mut self, scene: &Scene<'_>) -> io::Result<()> {
        match self {
            Self::Screen(screen) => screen.show(scene),
            Self::Plain(plain) => plain.show(scene),
        }
    }
}

/// The ledger's address, which is the first thing that it says.
async fn announced(inbox: &mut Receiver<Update>) -> Result<String, Failure> {
    #[derive(Deserialize)]
    struct Announcement {
        listen: String,
    }
    let said = tokio::time::timeout(LEDGER_START, inbox.recv()).await;
    let Ok(Some(Update::Line(Source::Ledger, line))) = said else {
        return Err(Failure::NoLedger("it said nothing".to_owned()));
    };
    match serde_json::from_str(&line) {
        Ok(Announcement { listen }) => Ok(format!("http://{listen}")),
        Err(_) => Err(Failure::NoLedger(line)),
    }
}

/// Starts what the election is held in, if that is a process, and returns once it serves.
async fn start_server(
    stage: &Stage,
    inbox: &mut Receiver<Update>,
) -> Result<Option<Process>, Failure> {
    let Some((server, command)) = stage.programs.server() else {
        return Ok(None);
    };
    let mut process = stage.start(command, Source::ZooKeeper)?;
    if server.serves(&mut process, now).await? {
        return Ok(Some(process));
    }
    let mut said = vec![];
    while let Ok(Update::Line(Source::ZooKeeper, line)) = inbox.try_recv() {
        said.push(line);
    }
    Err(Failure::NotServing(if said.is_empty() {
        "it said nothing".to_owned()
    } else {
        said.join("\n")
    }))
}

fn watch_all(tasks: &mut JoinSet<()>, stage: &Stage) {
    let origin = |url: &str| url.parse::<Origin>().expect("the demo writes its URLs well");
    tasks.spawn(watch_ledger(origin(&stage.ledger_url), stage.updates.clone()));
    for (index, seat) in SEATS.into_iter().enumerate() {
        tasks.spawn(watch_candidate(index, origin(&seat.url()), stage.updates.clone()));
    }
}

/// The sole clock here.
#[expect(
    clippy::disallowed_methods,
    reason = "it paces pictures and restarts; no claim depends on it, so it may stop in suspend"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}
