//! Stops cleanly, and says how a run ended.
//!
//! Touches the driver through [`Control`], and the command. Start with [`Stopping::stop`].

use super::command::CommandTask;
use crate::driver::leadership::Reader;
use crate::driver::{Control, DriverOutcome, DriverStopped};
use crate::exec::runner::CommandEnd;
use crate::http::server::ServerError;
use crate::process::clock::Clock;
use crate::process::exit::Exit;
use crate::process::notify::Notifier;
use crate::process::signals::{Signals, StopOutcome};
use baton_election::machine::Reason;
use baton_election::withdrawals::{Order, OrderOutcome};
use std::pin::{Pin, pin};
use std::time::Duration;
use tokio::task::JoinError;

/// How this run ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunOutcome {
    pub(super) exit: Exit,
    pub(super) reason: Reason,
    pub(super) led: bool,
    /// How the command ended.
    pub(super) command: CommandEnd,
    /// How the release of a clean stop ended.
    pub(super) stopped: Option<StopOutcome>,
}

impl RunOutcome {
    /// Logs a clean stop. Other ends are logged where they happen.
    pub(super) fn log(self) {
        if let Some(stopped) = self.stopped {
            stopped.log(self.exit);
        }
    }

    /// Whether the end delays the campaign of the next run.
    pub(super) fn is_bad(self) -> bool {
        match self.command {
            CommandEnd::Ended { was_asked: true, .. } if self.is_of_command() => false,
            CommandEnd::Ended { was_short: true, .. } => true,
            CommandEnd::Ended { .. }
            | CommandEnd::NeverRan
            | CommandEnd::Lapsed
            | CommandEnd::GuardLost => self.exit != Exit::Clean,
        }
    }

    /// Whether the exit code is that of the command.
    const fn is_of_command(self) -> bool {
        matches!(self.exit, Exit::Clean | Exit::Command(_))
    }

    /// Adds how the command ended. Lost leadership outweighs its exit code.
    pub(super) fn with_command(self, ended: CommandEnd) -> Self {
        match (self.exit, ended) {
            (_, CommandEnd::Lapsed | CommandEnd::GuardLost) => {
                Self { exit: Exit::Lost, command: ended, ..self }
            }
            (Exit::Clean, CommandEnd::Ended { code, .. }) => {
                Self { exit: Exit::command(code), command: ended, ..self }
            }
            (_, CommandEnd::Ended { .. } | CommandEnd::NeverRan) => Self { command: ended, ..self },
        }
    }
}

/// The means of a clean stop.
pub(super) struct Stopping<'a> {
    pub(super) control: &'a Control,
    pub(super) reader: &'a Reader,
    pub(super) notifier: &'a Notifier,
    /// How long the store may take to confirm the release.
    pub(super) release_timeout: Duration,
}

impl Stopping<'_> {
    /// Stops cleanly: withdraws, waits until the last promise expires and the command has ended, and
    /// releases. A second signal kills the command; without a command, it ends the process at once,
    /// without another request to the store. The first one may have begun the stop: `by_signal`.
    pub(super) async fn stop(
        &self,
        mut driving: Pin<&mut impl Future<Output = DriverOutcome>>,
        signals: &mut Signals,
        command: &mut CommandTask,
        by_signal: bool,
    ) -> RunOutcome {
        self.notifier.stopping();
        command.stop();
        let reason = Reason::Shutdown;
        let led = self.reader.published_claim().is_some();
        let clean = RunOutcome {
            exit: Exit::Clean,
            reason,
            led,
            command: CommandEnd::NeverRan,
            stopped: None,
        };
        let mut is_signaled = by_signal;
        let mut release = pin!(self.release(command.stop_timeout()));
        loop {
            tokio::select! {
                released = &mut release => {
                    let stopped = Some(released.unwrap_or(StopOutcome::Unconfirmed));
                    return RunOutcome { stopped, ..clean };
                }
                ended = &mut driving => return after_driver(ended, clean),
                () = signals.next() => {
                    if !is_signaled {
                        is_signaled = true;
                    } else if command.kill() {
                        tracing::warn!("received a second signal: killing the command");
                    } else {
                        return self.at_once(clean);
                    }
                }
            }
        }
    }

    async fn release(&self, stop_timeout: Duration) -> Result<StopOutcome, DriverStopped> {
        let withdrawn = self.control.withdraw(Order::Shutdown).await?;
        let must_end_by = withdrawn.promised_until + stop_timeout + self.release_timeout;
        tokio::select! {
            outcome = withdrawn.outcome() => Ok(match outcome? {
                OrderOutcome::Confirmed => StopOutcome::Confirmed,
                OrderOutcome::Refused => StopOutcome::Refused,
                OrderOutcome::Withdrawn
                | OrderOutcome::Unconfirmed | OrderOutcome::Superseded => {
                    StopOutcome::Unconfirmed
                }
            }),
            () = Clock.sleep_until(must_end_by) => Ok(StopOutcome::Unconfirmed),
        }
    }

    fn at_once(&self, clean: RunOutcome) -> RunOutcome {
        tracing::warn!(
            "received a second signal: stopping at once, and the claim expires by itself"
        );
        if self.reader.published_claim().is_some() {
            RunOutcome { exit: Exit::Lost, ..clean }
        } else {
            RunOutcome { stopped: Some(StopOutcome::Unconfirmed), ..clean }
        }
    }
}

/// The driver ended before the release.
fn after_driver(ended: DriverOutcome, clean: RunOutcome) -> RunOutcome {
    let exit = ended.exit(true);
    let stopped = match ended {
        DriverOutcome::Lost(Reason::Deadline) => StopOutcome::Expired,
        DriverOutcome::Lost(reason) => return RunOutcome { exit, reason, ..clean },
        DriverOutcome::Refused => StopOutcome::Refused,
        DriverOutcome::Incompatible => StopOutcome::NothingToRelease,
    };
    RunOutcome { exit, stopped: Some(stopped), ..clean }
}

/// The outcome of a run whose driver ended by itself.
pub(super) fn outcome_of(ended: DriverOutcome) -> RunOutcome {
    let (reason, led) = match ended {
        DriverOutcome::Lost(reason) => (reason, true),
        DriverOutcome::Refused | DriverOutcome::Incompatible => (Reason::Fault, false),
    };
    RunOutcome {
        exit: ended.exit(false),
        reason,
        led,
        command: CommandEnd::NeverRan,
        stopped: None,
    }
}

/// The outcome of a run whose command was stopped because leadership was ending, or lost its guard.
pub(super) fn lost_outcome(ended: CommandEnd) -> RunOutcome {
    let reason = if ended == CommandEnd::Lapsed { Reason::Deadline } else { Reason::Fault };
    let (reason_name, code) = (reason.as_str(), Exit::Lost.code());
    tracing::warn!(
        event = "lost",
        reason = reason_name,
        code,
        "the command had to be killed or stopped halfway: exiting with {code}"
    );
    RunOutcome { exit: Exit::Lost, reason, led: true, command: CommandEnd::NeverRan, stopped: None }
}

/// The outcome of a run whose listener ended.
pub(super) fn server_fault(
    ended: Option<&Result<Result<(), ServerError>, JoinError>>,
    reader: &Reader,
) -> RunOutcome {
    tracing::error!(event = "fault", "a listener ended: {ended:?}");
    fault_outcome(reader)
}

/// The outcome of a run that ends by a bug of Baton.
pub(super) fn fault_outcome(reader: &Reader) -> RunOutcome {
    let led = reader.published_claim().is_some();
    let exit = if led { Exit::Lost } else { Exit::Fault };
    RunOutcome { exit, reason: Reason::Fault, led, command: CommandEnd::NeverRan, stopped: None }
}
