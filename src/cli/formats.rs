//! The formats and shells of the subcommands for people, and the flags of `baton observe`.
//!
//! Pure, except that [`OutputFormat::or_default`] asks whether standard output is a terminal.

use super::Settings;
use clap::{Arg, Args, ValueEnum};
use std::io::{IsTerminal as _, stdout};

/// The flags of `baton observe`.
#[derive(Debug, Args)]
pub struct Observe {
    /// Format of each line [default: text on a terminal, else json]
    #[arg(long, value_name = "FORMAT")]
    pub output: Option<OutputFormat>,
    /// The election and its store.
    #[command(flatten)]
    pub settings: Settings,
}

/// Hides a flag that means nothing to an observer from its help. It stays accepted, since a sidecar's
/// environment may set it.
pub(super) fn for_observer(flag: Arg) -> Arg {
    const HEADINGS: [&str; 4] = ["Fitness", "HTTP", "Logging", "Routing"];
    const FLAGS: [&str; 9] = [
        "answer_validity",
        "identity_prefix",
        "lease_events",
        "on_lost",
        "require_polling",
        "stand_after",
        "state_directory",
        "status_file",
        "stopping_limit",
    ];
    let is_hidden = flag.get_help_heading().is_some_and(|heading| HEADINGS.contains(&heading))
        || FLAGS.contains(&flag.get_id().as_str());
    flag.hide(is_hidden)
}

/// How to print an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// For people
    Text,
    /// For programs
    Json,
}

impl OutputFormat {
    /// The format that `chosen` names; by default text on a terminal, else JSON.
    pub fn or_default(chosen: Option<Self>) -> Self {
        let default = || if stdout().is_terminal() { Self::Text } else { Self::Json };
        chosen.unwrap_or_else(default)
    }
}

/// A shell with completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// GNU Bash
    Bash,
    /// Z shell
    Zsh,
    /// fish
    Fish,
}
