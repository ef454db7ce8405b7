//! `demo`: three candidates on this machine, live in the terminal. What `make run` starts.
//!
//! It starts one ledger and three candidates of one election, each with an application that writes to the
//! ledger while its candidate leads; shows who leads, what is left of the claim, and what the ledger took
//! and refused; and lets you kill, pause and stop the leader. Where standard output is no terminal it
//! prints plain lines. However it ends it leaves nothing behind, but for the temporary directory when it
//! is killed with SIGKILL.
//!
//! Here are the command line and the exit codes: 0 asked to end, 1 a failure or a conflict in the ledger's
//! journal (two led in one term), 2 a command line or surroundings that cannot work. Start reading at
//! [`demo::run`].

mod candidate;
#[path = "../ledger/client.rs"]
mod client;
mod demo;
mod events;
mod input;
mod onlooker;
mod picture;
mod plain;
mod process;
mod programs;
mod scene;
mod screen;
mod zookeeper;

use crate::demo::{Failure, Plan};
use crate::onlooker::Journal;
use crate::programs::{Backend, ELSEWHERE, Programs};
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
    /// In what the election is held
    #[arg(long, value_name = "NAME", default_value = "file")]
    backend: Backend,
    /// End after so many seconds
    #[arg(long, value_name = "N", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Kill the leader once, after so many seconds
    #[arg(long, value_name = "N", value_parser = seconds)]
    kill_after: Option<Duration>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Cli { backend, seconds, kill_after } = Cli::parse();
    match demo(backend, Plan { end_after: seconds, kill_after }).await {
        Ok(journal) if journal.conflicts == 0 => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(failure) => {
            complain(&failure);
            match failure {
                Failure::NotReady(_) => ExitCode::from(2),
                Failure::NoLedger(_)
                | Failure::LedgerEnded(_)
                | Failure::NotServing(_)
                | Failure::ServerEnded(_)
                | Failure::Io(_)
                | Failure::Task(_) => ExitCode::FAILURE,
            }
        }
    }
}

async fn demo(backend: Backend, plan: Plan) -> Result<Journal, Failure> {
    let directory = tempfile::Builder::new().prefix("baton-demo-").tempdir()?;
    let programs = Programs::find(backend, directory.path())?;
    writeln!(io::stdout(), "In another terminal, try: {ELSEWHERE}")?;
    let journal = demo::run(plan, programs).await?;
    writeln!(io::stdout(), "The ledger's journal: {journal}")?;
    Ok(journal)
}

fn complain(failure: &Failure) {
    let mut text = format!("demo: {failure}");
    let mut cause = failure.source();
    while let Some(error) = cause {
        write!(text, ": {error}").expect("a String takes everything");
        cause = error.source();
    }
    // Where standard error is gone there is nobody to tell; the exit code says it too.
    writeln!(io::stderr(), "{text}").ok();
}

fn seconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_secs)
}
