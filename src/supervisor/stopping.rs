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
    /// Whether the command ended so soon that the next run must not start it at once.
    pub(super) was_short: bool,
}

impl RunOutcome {
    /// Whether the end delays the campaign of the next run.
    pub(super) fn is_bad(self) -> bool {
        self.was_short || self.exit != Exit::Clean
    }

    /// Adds how the command ended. Lost leadership outweighs its exit code.
    pub(super) fn with_command(self, ended: CommandEnd) -> Self {
        match (self.exit, ended) {
            (_, CommandEnd::Lapsed | CommandEnd::GuardLost) => Self { exit: Exit::Lost, ..self },
            (Exit::Clean, CommandEnd::Ended { code, was_short, .. }) => {
                Self { exit: Exit::command(code), was_short, ..self }
            }
            (_, CommandEnd::Ended { .. } | CommandEnd::NeverRan) => self,
        }
    }
}

/// What a clean stop needs.
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
    /// without another request to the store.
    pub(super) async fn stop(
        &self,
        mut driving: Pin<&mut impl Future<Output = DriverOutcome>>,
        signals: &mut Signals,
        command: &mut CommandTask,
    ) -> RunOutcome {
        self.notifier.stopping();
        let reason = Reason::Shutdown;
        let led = self.reader.published_claim().is_some();
        let clean = RunOutcome { exit: Exit::Clean, reason, led, was_short: false };
        let mut release = pin!(self.release(command.stop_timeout()));
        loop {
            tokio::select! {
                released = &mut release => {
                    released.unwrap_or(StopOutcome::Unconfirmed).log();
                    return clean;
                }
                ended = &mut driving => return after_driver(ended, clean),
                () = signals.next() => {
                    if command.kill() {
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
            StopOutcome::Unconfirmed.log();
            clean
        }
    }
}

/// The driver ended before the release.
fn after_driver(ended: DriverOutcome, clean: RunOutcome) -> RunOutcome {
    let exit = ended.exit(true);
    match ended {
        DriverOutcome::Lost(Reason::Deadline) => StopOutcome::Expired.log(),
        DriverOutcome::Lost(reason) => return RunOutcome { exit, reason, ..clean },
        DriverOutcome::Refused => StopOutcome::Refused.log(),
        DriverOutcome::Incompatible => StopOutcome::NothingToRelease.log(),
    }
    RunOutcome { exit, ..clean }
}

/// The outcome of a run whose driver ended by itself.
pub(super) fn outcome_of(ended: DriverOutcome) -> RunOutcome {
    let (exit, was_short) = (ended.exit(false), false);
    match ended {
        DriverOutcome::Lost(reason) => RunOutcome { exit, reason, led: true, was_short },
        DriverOutcome::Refused | DriverOutcome::Incompatible => {
            RunOutcome { exit, reason: Reason::Fault, led: false, was_short }
        }
    }
}

/// The outcome of a run that stopped its command because leadership was ending.
pub(super) const fn lost_outcome() -> RunOutcome {
    RunOutcome { exit: Exit::Lost, reason: Reason::Deadline, led: true, was_short: false }
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
    RunOutcome { exit, reason: Reason::Fault, led, was_short: false }
}
