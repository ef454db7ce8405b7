//! How a run ended, and the exit code that follows.
//!
//! Pure, except for log lines. Start with [`RunOutcome`].

use crate::driver::DriverOutcome;
use crate::driver::leadership::Reader;
use crate::exec::runner::CommandEnd;
use crate::fitness::FitnessEnd;
use crate::http::server::ServerError;
use crate::process::exit::Exit;
use crate::process::signals::StopOutcome;
use baton_election::machine::Reason;
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

    /// Whether the store certainly holds nothing of this run.
    pub(super) fn has_released(self) -> bool {
        match self.stopped {
            Some(StopOutcome::Confirmed | StopOutcome::NothingToRelease) => true,
            Some(StopOutcome::Refused | StopOutcome::Unconfirmed | StopOutcome::Expired) | None => {
                false
            }
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

/// The outcome of a run whose guard died, or stopped the command as leadership ended.
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

/// The outcome of a run that no longer watches whether its application is fit.
pub(super) fn fitness_outcome(ended: FitnessEnd, reader: &Reader) -> RunOutcome {
    match ended {
        FitnessEnd::Stopped => fault_outcome(reader),
        FitnessEnd::Unfit => RunOutcome {
            exit: Exit::Lost,
            reason: Reason::Unfit,
            led: true,
            command: CommandEnd::NeverRan,
            stopped: None,
        },
    }
}
