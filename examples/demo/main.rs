//! `demo`: three candidates on this machine, live in the terminal. `make run` starts it.
//!
//! It starts a ledger and three candidates of one election. Each candidate has an application that
//! writes to the ledger while its candidate leads. The screen shows the leader, how long its claim
//! still lasts, and the accepted and refused writes; keys kill, pause, and stop the leader. Without
//! a terminal, the demo prints plain lines.
//!
//! The demo leaves nothing behind, except its temporary directory if it is killed with SIGKILL.
//!
//! This file holds the command line and the exit codes:
//!
//! * 0: a key, a signal, or `--seconds` ended the demo
//! * 1: a failure, or a conflict in the ledger's journal (two leaders in one term)
//! * 2: the demo cannot start
//!
//! Start with [`demo::run`].

mod candidate;
#[path = "../ledger/client.rs"]
mod client;
mod demo;
mod etcd;
mod events;
mod input;
mod layout;
mod observer;
mod plain;
mod process;
mod programs;
mod screen;
mod view_model;
mod zookeeper;

use crate::demo::{Failure, Plan};
use crate::observer::Journal;
use crate::programs::{Backend, CURL_COMMAND, Programs};
use clap::Parser;
use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

/// Three candidates of one election on this machine, live in the terminal
#[derive(Parser)]
#[command(name = "demo")]
struct Cli {
    /// Store of the election
    #[arg(long, value_name = "NAME", default_value = "file")]
    backend: Backend,
    /// Exit after this many seconds
    #[arg(long, value_name = "N", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Kill the leader once, after this many seconds
    #[arg(long, value_name = "N", value_parser = seconds)]
    kill_after: Option<Duration>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Cli { backend, seconds, kill_after } = Cli::parse();
    match run(backend, Plan { end_after: seconds, kill_after }).await {
        Ok(journal) if journal.conflicts == 0 => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(failure) => {
            report(&failure);
            match failure {
                Failure::Setup(_) => ExitCode::from(2),
                Failure::LedgerStart(_)
                | Failure::LedgerExited(_)
                | Failure::ServerStart(_)
                | Failure::ServerExited(_)
                | Failure::Io(_)
                | Failure::Task(_) => ExitCode::FAILURE,
            }
        }
    }
}

async fn run(backend: Backend, plan: Plan) -> Result<Journal, Failure> {
    let directory = tempfile::Builder::new().prefix("baton-demo-").tempdir()?;
    let programs = Programs::find(backend, directory.path())?;
    writeln!(io::stdout(), "In another terminal, try: {CURL_COMMAND}")?;
    let journal = demo::run(plan, programs).await?;
    writeln!(io::stdout(), "The ledger's journal: {journal}")?;
    Ok(journal)
}

fn report(failure: &Failure) {
    let mut text = format!("demo: {failure}");
    let mut cause = failure.source();
    while let Some(error) = cause {
        write!(text, ": {error}").expect("writing to a String succeeds");
        cause = error.source();
    }
    // If standard error is closed, the exit code remains.
    writeln!(io::stderr(), "{text}").ok();
}

fn seconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_secs)
}
