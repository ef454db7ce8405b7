//! The formats and shells of the subcommands for people, and the flags of `baton observe`.
//!
//! Pure, except that [`OutputFormat::or_default`] asks whether standard output is a terminal.

use super::Settings;
use clap::{Args, ValueEnum};
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
