//! The exit codes and their meanings.
//!
//! Pure. Start with [`Exit`]. A code says whether the application must restart: it must on every
//! code of `baton run` but 0, 2, 70, and 77. A container's `restartPolicyRules` can restart the
//! whole Pod on such codes.

use std::process::ExitCode;

/// Why the process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// A clean stop on request, or a subcommand that succeeded.
    Clean,
    /// The sidecar answered no: a follower to `baton status`, or a failed probe to `baton probe`.
    No,
    /// The flags, the configuration, or the environment prevents a start, such as an address in
    /// use.
    Usage,
    /// No sidecar answered: there was no answer, or it came from another program. Or `baton compat`
    /// could not load the credentials in time.
    NoAnswer,
    /// A bug in Baton, while not leading.
    Fault,
    /// This process led, and did not stop cleanly.
    Lost,
    /// The store refused this candidate from the start for a whole lease duration, or
    /// `baton compat` may not read an older sidecar's lock.
    Refused,
    /// The command of `baton exec` ended with this code.
    Command(u8),
}

impl Exit {
    /// Every variant with a code of its own.
    pub const ALL: [Self; 7] = [
        Self::Clean,
        Self::No,
        Self::Usage,
        Self::NoAnswer,
        Self::Fault,
        Self::Lost,
        Self::Refused,
    ];

    /// The exit for a command that ended with `code`.
    pub const fn command(code: u8) -> Self {
        if code == 0 { Self::Clean } else { Self::Command(code) }
    }

    /// The exit code. Codes from 69 on are those of `sysexits.h`.
    pub const fn code(self) -> u8 {
        match self {
            Self::Clean => 0,
            Self::No => 1,
            Self::Usage => 2,
            Self::NoAnswer => 69,
            Self::Fault => 70,
            Self::Lost => 75,
            Self::Refused => 77,
            Self::Command(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
