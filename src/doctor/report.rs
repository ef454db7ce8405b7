//! The lines of `baton doctor`, and its exit code.
//!
//! Touches standard output. Start with [`Report::line`].

use crate::cli::commands::print_stdout;
use crate::error_chain::ErrorChain;
use crate::process::exit::Exit;
use crate::store::StoreError;
use std::error::Error;
use std::fmt::{self, Display};
use std::time::Duration;

/// The result of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Ok,
    Warning,
    /// A candidate would fail, and the exit code of the command.
    Failure(Exit),
}

/// Prints the lines, and keeps the exit code.
#[derive(Debug)]
pub(super) struct Report {
    /// The exit code of the first failure.
    exit: Exit,
}

impl Default for Report {
    fn default() -> Self {
        Self { exit: Exit::Clean }
    }
}

impl Report {
    /// The exit code of the first failure.
    pub(super) const fn exit(&self) -> Exit {
        self.exit
    }

    pub(super) fn line(&mut self, verdict: Verdict, check: &str, text: &impl Display) {
        let word = match verdict {
            Verdict::Ok => "ok",
            Verdict::Warning => "warning",
            Verdict::Failure(exit) => {
                if self.exit == Exit::Clean {
                    self.exit = exit;
                }
                "failure"
            }
        };
        // A closed standard output ends the checks with code 70.
        if print_stdout(&format_args!("{word:<8} {check:<11} {text}")) != Exit::Clean {
            self.exit = Exit::Fault;
        }
    }

    pub(super) fn failure(&mut self, check: &str, exit: Exit, error: &dyn Error) {
        self.error(Verdict::Failure(exit), check, error);
    }

    /// Prints only the first line of the cause, because a manifest may follow it.
    pub(super) fn error(&mut self, verdict: Verdict, check: &str, error: &dyn Error) {
        let text = ErrorChain(error).to_string();
        let first = text.lines().next().unwrap_or_default();
        self.line(verdict, check, &first);
    }

    pub(super) fn no_answer(&mut self, within: Duration) {
        let text = format!(
            "no answer within {within:?}: check the address, the network, and whether the store is \
             up"
        );
        self.line(Verdict::Failure(Exit::NoAnswer), "store", &text);
    }

    pub(super) fn refused(&mut self, error: &StoreError) {
        let exit = match error {
            StoreError::Unreachable(_) => Exit::NoAnswer,
            StoreError::Refused(_) => Exit::Refused,
            StoreError::Unusable(_) => Exit::Usage,
        };
        self.failure("store", exit, error);
    }

    pub(super) fn slow_credentials(&mut self) {
        let text = "the kubeconfig, its files, or its program took too long";
        self.line(Verdict::Failure(Exit::NoAnswer), "credentials", &text);
    }
}

/// A duration in whole milliseconds.
pub(super) struct Milliseconds(pub(super) Duration);

impl Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0.as_millis())
    }
}
