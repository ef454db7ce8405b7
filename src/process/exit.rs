//! How the process ends: the only exit codes, each with its meaning.
//!
//! Pure. Kubernetes can be told to restart the whole Pod on some of them (`restartPolicyRules`), so a code says
//! whether the application has to be moved: it does on anything but 0, 2, 70 and 77.

use std::process::ExitCode;

/// Why the process ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// Asked to stop, and stopped cleanly; or a question was answered with yes.
    Clean,
    /// A question was answered with no: `baton status` of a follower, `baton probe` of what is not well.
    No,
    /// Flags, configuration or surroundings are wrong; an address in use and an unreadable file too.
    Usage,
    /// No sidecar answered a question: there was no answer, or it was not Baton's.
    NoAnswer,
    /// A fault of our own while not leading.
    Fault,
    /// This process was leading and ended in any other way than a clean stop.
    Lost,
    /// The store refused us from the start for a whole lease duration.
    Refused,
}

impl Exit {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Clean,
        Self::No,
        Self::Usage,
        Self::NoAnswer,
        Self::Fault,
        Self::Lost,
        Self::Refused,
    ];

    /// The number that the process leaves behind; 69 to 77 are sysexits.h's.
    pub const fn code(self) -> u8 {
        match self {
            Self::Clean => 0,
            Self::No => 1,
            Self::Usage => 2,
            Self::NoAnswer => 69,
            Self::Fault => 70,
            Self::Lost => 75,
            Self::Refused => 77,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
