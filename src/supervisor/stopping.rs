//! Stops cleanly: withdraws, waits for the application, and releases.
//!
//! Touches the driver through [`Control`], and the command. Start with [`Stopping::stop`].

use super::command::CommandTask;
use super::outcome::RunOutcome;
use crate::driver::leadership::Reader;
use crate::driver::{Control, DriverOutcome, DriverStopped};
use crate::exec::runner::CommandEnd;
use crate::process::clock::Clock;
use crate::process::exit::Exit;
use crate::process::notify::Notifier;
use crate::process::signals::{Signals, StopOutcome};
use baton_election::machine::Reason;
use baton_election::withdrawals::{Order, OrderOutcome};
use std::pin::{Pin, pin};
use std::time::Duration;

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
        let mut withdrawn = self.control.withdraw(Order::Shutdown).await?;
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
