//! The task that runs the command of `baton exec`.
//!
//! Touches [`exec`](crate::exec). Start with [`CommandTask::start`].

use crate::config::Config;
use crate::exec::runner::{CommandEnd, Phase, Runner};
use crate::exec::{process_tree, quota};
use crate::http::AppState;
use crate::process::children;
use crate::process::state_folder::StateLock;
use crate::telemetry::command_reporter::CommandReporter;
use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The task, or none under `baton run`.
#[derive(Debug)]
pub(super) struct CommandTask {
    commands: JoinSet<CommandEnd>,
    phase: watch::Sender<Phase>,
    stop_timeout: Duration,
    ended: CommandEnd,
}

impl CommandTask {
    fn none() -> Self {
        let (phase, _) = watch::channel(Phase::Running);
        let (stop_timeout, ended) = (Duration::ZERO, CommandEnd::NeverRan);
        Self { commands: JoinSet::new(), phase, stop_timeout, ended }
    }

    /// Starts the task, if there is a command. The command runs whenever the candidate leads, and
    /// can ask it at `address`. Its guard holds `lock` too.
    pub(super) fn start(
        config: &Config,
        state: &AppState,
        address: SocketAddr,
        lock: Option<StateLock>,
    ) -> io::Result<Self> {
        let Some(exec) = &config.exec else { return Ok(Self::none()) };
        // The processes of a killed guard fall to this process.
        process_tree::become_subreaper()?;
        let (election, identity) = (state.election.clone(), state.identity.clone());
        let variables = vec![
            ("BATON_ELECTION", election.as_str().to_owned()),
            ("BATON_IDENTITY", identity.as_str().to_owned()),
            ("BATON_URL", format!("http://{address}")),
        ];
        let reporter = CommandReporter::new(election, identity, state.metrics.clone());
        if let Some(processors) = quota::processors().filter(|processors| *processors < 1.0) {
            reporter.low_cpu_quota(processors);
        }
        // Without a handler, a parent that ignores SIGCHLD would hide the exit codes of children.
        let child_ended = signal(SignalKind::child())?;
        let mut task = Self { stop_timeout: exec.stop_timeout, ..Self::none() };
        let runner = Runner {
            config: exec.clone(),
            retry_period: config.timing.retry_period(),
            on_lost: config.on_lost,
            variables,
            reader: state.reader.clone(),
            control: state.control.clone(),
            lock,
            reporter,
            phase: task.phase.subscribe(),
        };
        task.commands.spawn(async {
            tokio::select! {
                ended = runner.run() => ended,
                never = reap_orphans(child_ended) => match never {},
            }
        });
        Ok(task)
    }

    /// How long a command may take to stop on request, and to be killed after that.
    pub(super) const fn stop_timeout(&self) -> Duration {
        self.stop_timeout
    }

    /// Waits until the command has ended and does not run again; forever without one.
    pub(super) async fn ended(&mut self) -> CommandEnd {
        match self.commands.join_next().await {
            // A panic of the task has closed the channel to the guard, which kills the command.
            Some(ended) => self.ended = ended.unwrap_or(CommandEnd::GuardLost),
            None => pending().await,
        }
        self.ended
    }

    /// Tells the task that the process stops cleanly.
    pub(super) fn stop(&self) {
        self.phase.send_replace(Phase::Stopping);
    }

    /// Kills the command. Returns whether there was a task to tell.
    pub(super) fn kill(&self) -> bool {
        !self.commands.is_empty() && self.phase.send_replace(Phase::Ending) != Phase::Ending
    }

    /// Kills the command, if it still runs, and says how it ended.
    pub(super) async fn finish(mut self) -> CommandEnd {
        self.kill();
        if self.commands.is_empty() { self.ended } else { self.ended().await }
    }
}

/// Reaps adopted orphans, as PID 1 and as a subreaper.
async fn reap_orphans(mut child_ended: Signal) -> Infallible {
    loop {
        children::reap_orphans(process_tree::children);
        if child_ended.recv().await.is_none() {
            return pending().await;
        }
    }
}

/// Whether this end of the command means lost leadership, which exits with 75.
pub(super) const fn exits_lost(ended: CommandEnd) -> bool {
    match ended {
        CommandEnd::Lapsed | CommandEnd::GuardLost => true,
        CommandEnd::Ended { .. } | CommandEnd::NeverRan => false,
    }
}
