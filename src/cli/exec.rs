//! The flags of `baton exec` and of the processes that it starts.
//!
//! Pure. Start with [`Exec`].

use super::Settings;
use clap::Args;
use std::ffi::OsString;

/// The flags of `baton exec`, as typed.
#[derive(Debug, Clone, Args)]
pub struct Exec {
    /// The flags of the election.
    #[command(flatten)]
    pub settings: Settings,
    /// How long before the claim ends the command gets SIGTERM [default: 2s]
    #[arg(long, env = "BATON_KILL_AFTER", value_name = "DURATION", help_heading = "Command")]
    pub kill_after: Option<String>,
    /// How long the command may take to stop on request [default: 20s]
    #[arg(long, env = "BATON_STOP_TIMEOUT", value_name = "DURATION", help_heading = "Command")]
    pub stop_timeout: Option<String>,
    /// Added to the niceness of the command, 0 to 19 [default: 5]
    #[arg(long, env = "BATON_NICE", value_name = "NUMBER", help_heading = "Command")]
    pub nice: Option<String>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// The flags of the guard.
#[derive(Debug, Clone, Args)]
pub struct Guard {
    /// How long before the claim ends the command gets SIGTERM.
    #[arg(long)]
    pub kill_after: humantime::Duration,
    /// The time that a renewal needs at least.
    #[arg(long)]
    pub retry_period: humantime::Duration,
    /// Added to the niceness of the command.
    #[arg(long)]
    pub nice: i32,
    /// Whether the elector is PID 1, so that every other process belongs to the command.
    #[arg(long)]
    pub owns_namespace: bool,
    /// The command and its arguments.
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}

/// The flags of the trampoline.
#[derive(Debug, Clone, Args)]
pub struct Trampoline {
    /// The process of the guard.
    #[arg(long)]
    pub parent: i32,
    /// Added to the niceness of the command.
    #[arg(long)]
    pub nice: i32,
    /// Whether the command gets the terminal.
    #[arg(long)]
    pub terminal: bool,
    /// The command and its arguments.
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}
