//! `ledger`: a resource that checks fencing tokens, and an application that writes to it.
//!
//! * `ledger serve` is a small HTTP server that refuses a write whose token is older than one it
//!   has seen. Its journal lists the writers in each term.
//! * `ledger work` is the example application: it appends lines, but only while its sidecar says
//!   that it leads. Start with [`Worker::run`].
//! * `ledger leaders`, which `helm test` runs, asks all candidates whether they lead.
//!
//! The demo and the tests check Baton with this program, so it uses nothing of Baton but the HTTP
//! API. This file holds the command line and the exit codes:
//!
//! * 0: a requested stop, or exactly one leader
//! * 1: a failure, or any other number of leaders
//! * 2: unusable arguments

#![expect(
    clippy::disallowed_methods,
    reason = "not part of Baton: it reads the wall clock only to record when a line arrived"
)]

mod client;
mod file;
mod journal;
mod leaders;
mod server;
mod worker;

use crate::client::Origin;
use crate::file::JournalFile;
use crate::journal::Journal;
use crate::leaders::Count;
use crate::server::{Ledger, MAX_LINE_BYTES};
use crate::worker::Worker;
use axum::http::HeaderValue;
use clap::Parser;
use humantime::parse_duration;
use serde_json::json;
use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A resource that checks fencing tokens, and an application that writes to it
#[derive(Parser)]
#[command(name = "ledger")]
enum Command {
    /// Accept lines over HTTP, and refuse those with an old fencing token
    Serve {
        /// Address to listen on; port 0 picks a free port and prints it
        #[arg(long, value_name = "HOST:PORT")]
        listen: String,
        /// File that keeps the lines, and so the newest token, across restarts
        #[arg(long, value_name = "FILE")]
        journal: Option<PathBuf>,
    },
    /// Append lines to a ledger while the sidecar says that this application leads
    Work {
        /// URL of the sidecar
        #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:4040")]
        sidecar: Origin,
        /// URL of the ledger
        #[arg(long, value_name = "URL")]
        ledger: Origin,
        /// Name of the writer in the ledger's journal
        #[arg(long, value_parser = name)]
        name: String,
        /// Time between two lines
        #[arg(long, value_name = "DURATION", default_value = "200ms", value_parser = period)]
        every: Duration,
        /// Text of each line
        #[arg(long, default_value = "still here", value_parser = line)]
        text: String,
        /// Exit after this many lines, as a job does
        #[arg(long, value_name = "COUNT")]
        lines: Option<u64>,
        /// Ask only until the first promise, then keep writing
        #[arg(long)]
        ask_once: bool,
        /// How long to keep working after a request to stop
        #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
        linger: Duration,
    },
    /// Ask all candidates whether they lead, until exactly one does
    Leaders {
        /// Metrics addresses of the sidecars; each resolved address is one candidate
        #[arg(long, value_name = "HOST:PORT", required = true)]
        copies: Vec<String>,
        /// Expected number of candidates
        #[arg(long)]
        count: usize,
        /// How long to wait for exactly one leader
        #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = period)]
        within: Duration,
    },
}

/// Why the program failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("cannot listen on {0} (--listen)")]
    Listen(String, #[source] io::Error),
    #[error("cannot use the journal {0} (--journal)")]
    Journal(PathBuf, #[source] file::FileError),
    #[error("expected exactly one leader among {expected} candidates: {count}")]
    Leaders { expected: usize, count: Count },
    #[error("input or output failed")]
    Io(#[from] io::Error),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let result = match Command::parse() {
        Command::Serve { listen, journal } => serve(listen, journal.as_deref()).await,
        Command::Work { sidecar, ledger, name, every, text, lines, ask_once, linger } => {
            work(Worker { sidecar, ledger, name, text, every, lines, ask_once }, linger).await
        }
        Command::Leaders { copies, count, within } => one_leader(&copies, count, within).await,
    };
    let Err(failure) = result else {
        return ExitCode::SUCCESS;
    };
    report(&failure);
    match failure {
        Failure::Listen(..) | Failure::Journal(..) => ExitCode::from(2),
        Failure::Leaders { .. } | Failure::Io(_) => ExitCode::FAILURE,
    }
}

async fn serve(listen: String, journal: Option<&Path>) -> Result<(), Failure> {
    let stop = Stop::listen()?;
    let ledger = open_ledger(journal)?;
    let listener =
        TcpListener::bind(&listen).await.map_err(|error| Failure::Listen(listen, error))?;
    announce(listener.local_addr()?)?;
    Ok(server::serve(listener, ledger, stop.requested()).await?)
}

async fn work(worker: Worker, linger: Duration) -> Result<(), Failure> {
    let stop = Stop::listen()?;
    tokio::select! {
        done = worker.run() => Ok(done?),
        () = async {
            stop.requested().await;
            tokio::time::sleep(linger).await;
        } => Ok(()),
    }
}

async fn one_leader(copies: &[String], expected: usize, within: Duration) -> Result<(), Failure> {
    let count = leaders::await_one(copies, expected, within).await;
    if !count.is_one_leader(expected) {
        return Err(Failure::Leaders { expected, count });
    }
    Ok(writeln!(io::stdout(), "{}", json!(count))?)
}

fn open_ledger(path: Option<&Path>) -> Result<Ledger, Failure> {
    let Some(path) = path else {
        return Ok(Ledger { journal: Journal::default(), file: None });
    };
    let opened =
        JournalFile::open(path).map_err(|error| Failure::Journal(path.to_owned(), error))?;
    if let Some(line) = opened.torn_line {
        let path = path.display();
        writeln!(io::stderr(), "ledger: removed an incomplete last line from {path}: {line:?}")?;
    }
    Ok(Ledger { journal: opened.journal, file: Some(opened.file) })
}

fn announce(listen: SocketAddr) -> io::Result<()> {
    writeln!(io::stdout(), "{}", json!({"listen": listen}))
}

fn report(failure: &Failure) {
    let mut text = format!("ledger: {failure}");
    let mut cause = failure.source();
    while let Some(error) = cause {
        write!(text, ": {error}").expect("writing to a String succeeds");
        cause = error.source();
    }
    // If standard error is closed, the exit code remains.
    writeln!(io::stderr(), "{text}").ok();
}

/// The signals that stop this program, caught as soon as this exists.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn listen() -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { terminate, interrupt })
    }

    async fn requested(mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

fn period(text: &str) -> Result<Duration, String> {
    let period = parse_duration(text).map_err(|error| error.to_string())?;
    if period.is_zero() { Err("the duration must not be zero".to_owned()) } else { Ok(period) }
}

fn name(text: &str) -> Result<String, &'static str> {
    let is_header_value = !text.is_empty() && HeaderValue::from_str(text).is_ok();
    if is_header_value {
        Ok(text.to_owned())
    } else {
        Err("a name must have one or more printable ASCII characters")
    }
}

fn line(text: &str) -> Result<String, String> {
    if text.len() > MAX_LINE_BYTES {
        return Err(format!("a line must have at most {MAX_LINE_BYTES} bytes"));
    }
    Ok(text.to_owned())
}
