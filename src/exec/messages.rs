//! The messages between elector, guard, and trampoline.
//!
//! Pure. Start with [`ToGuard`] and [`FromGuard`]. Each message is JSON in one packet. Both ends run
//! the same binary, so the format may change with any version.

use baton_election::instant::Instant;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// An instant on this machine's clock, which all processes of one machine share.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BootTime(Duration);

impl From<Instant> for BootTime {
    fn from(instant: Instant) -> Self {
        Self(instant.elapsed_since_boot())
    }
}

impl From<BootTime> for Instant {
    fn from(BootTime(elapsed): BootTime) -> Self {
        Self::since_boot(elapsed)
    }
}

/// From the elector to the guard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ToGuard {
    /// Hold this lock of the state directory, which comes with the message, until no process of the
    /// command is left. It comes before the first deadline.
    Lock,
    /// The claim lasts until this instant. The first one starts the command, and carries the
    /// standard input of the command.
    Deadline(BootTime),
    /// Stop the command within this time.
    Stop(Duration),
    /// Kill the command at once.
    Kill,
}

/// From the guard to the elector.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FromGuard {
    /// Too little of the claim is left, so nothing was started.
    TooLate,
    /// The command runs.
    Started {
        /// Its process.
        pid: i32,
        /// How its processes are contained.
        containment: Containment,
    },
    /// The command could not be executed.
    Failed(SpawnFailure),
    /// SIGTERM was sent because leadership ends: no later deadline counts.
    Ending,
    /// The guard handled a timer this late.
    Late(Duration),
    /// No process of the command is left.
    Ended {
        /// The exit code of the command, as a shell would give it.
        code: u8,
        /// Whether it was stopped because leadership was ending.
        lapsed: bool,
    },
}

/// From the trampoline to the guard, if the command cannot be executed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SpawnFailure {
    /// The failed step, and the cause.
    pub message: String,
    /// The exit code: 127 for a missing command, else 126, as in POSIX shells.
    pub code: u8,
}

/// How every process of the command is found and killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Containment {
    /// The elector is PID 1 of a PID namespace: one signal reaches every other process.
    PidNamespace,
    /// A cgroup of its own.
    Cgroup,
    /// The descendants of the guard, by `/proc`.
    ProcessTree,
}

impl fmt::Display for Containment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PidNamespace => "PID namespace",
            Self::Cgroup => "cgroup",
            Self::ProcessTree => "process tree",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_survive_the_trip() {
        let instant = Instant::since_boot(Duration::new(123_456, 789_012_345));
        let text = serde_json::to_string(&ToGuard::Deadline(instant.into())).unwrap();
        let ToGuard::Deadline(deadline) = serde_json::from_str(&text).unwrap() else {
            panic!("{text}")
        };
        assert_eq!(Instant::from(deadline), instant);
    }
}
