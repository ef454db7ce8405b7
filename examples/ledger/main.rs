//! `ledger`: a resource that checks fencing tokens, and an application that writes to it.
//!
//! `ledger serve` is a small HTTP server that refuses a write whose token is older than one it has seen;
//! its journal shows term after term who wrote. `ledger work` is the model application: it appends lines,
//! but only while its sidecar says that it leads. The demo, the process tests and the cluster tests judge
//! Baton by them, so they know nothing of Baton but its HTTP answers. `ledger leaders` is the onlooker of
//! `helm test`: it asks all copies whether they lead.
//!
//! Here are the command line and the exit codes: 0 asked to stop, or one leader, 1 a failure on the
//! way, or not one leader, 2 a command line or surroundings that cannot work.

#![expect(
    clippy::disallowed_methods,
    reason = "not part of Baton: it reads the wall clock, and only to write down when a line came"
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
use crate::server::{LONGEST_LINE, Ledger};
use crate::worker::Worker;
use axum::http::HeaderValue;
use clap::Parser;
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
    /// Take lines over HTTP, and refuse those that come with an old token
    Serve {
        /// Where to listen; port 0 takes any free one, and standard output says which
        #[arg(long, value_name = "HOST:PORT")]
        listen: String,
        /// Keep the lines in this file, and with them the newest token over a restart
        #[arg(long, value_name = "FILE")]
        journal: Option<PathBuf>,
    },
    /// Append a line every now and then, while the sidecar says that we lead
    Work {
        /// Where the sidecar answers
        #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:4040")]
        sidecar: Origin,
        /// Where the ledger is
        #[arg(long, value_name = "URL")]
        ledger: Origin,
        /// Who writes, as the journal will show it
        #[arg(long, value_parser = name)]
        name: String,
        /// How often to ask and to write
        #[arg(long, value_name = "DURATION", default_value = "200ms", value_parser = period)]
        every: Duration,
        /// What to write
        #[arg(long, default_value = "still here", value_parser = line)]
        text: String,
        /// End by itself after so many lines, as a job does
        #[arg(long, value_name = "COUNT")]
        lines: Option<u64>,
        /// Ask until it leads, and go on writing without asking again: what relies on being restarted does that
        #[arg(long)]
        ask_once: bool,
        /// How long it goes on after it was asked to end
        #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration)]
        linger: Duration,
    },
    /// Ask all copies of an application whether they lead, until exactly one does
    Leaders {
        /// Where their sidecars show metrics; each address behind a name is one copy
        #[arg(long, value_name = "HOST:PORT", required = true)]
        copies: Vec<String>,
        /// How many copies there have to be: one that has no address yet is not found by its name
        #[arg(long)]
        count: usize,
        /// How long to wait for that
        #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = period)]
        within: Duration,
    },
}

/// What ends this program other than a signal.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0} cannot be listened on; choose another --listen")]
    Listen(String, #[source] io::Error),
    #[error("the journal {0} cannot be used; mend it, or give another --journal")]
    Journal(PathBuf, #[source] file::FileError),
    #[error("not exactly one of {of} copies leads: {count}")]
    Leaders { of: usize, count: Count },
    #[error("this program cannot go on")]
    Io(#[from] io::Error),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let ended = match Command::parse() {
        Command::Serve { listen, journal } => serve(listen, journal.as_deref()).await,
        Command::Work { sidecar, ledger, name, every, text, lines, ask_once, linger } => {
            work(Worker { sidecar, ledger, name, text, every, lines, ask_once }, linger).await
        }
        Command::Leaders { copies, count, within } => one_leader(&copies, count, within).await,
    };
    let Err(failure) = ended else {
        return ExitCode::SUCCESS;
    };
    complain(&failure);
    match failure {
        Failure::Listen(..) | Failure::Journal(..) => ExitCode::from(2),
        Failure::Leaders { .. } | Failure::Io(_) => ExitCode::FAILURE,
    }
}

async fn serve(listen: String, journal: Option<&Path>) -> Result<(), Failure> {
    let stop = Stop::listen()?;
    let ledger = open(journal)?;
    let listener =
        TcpListener::bind(&listen).await.map_err(|error| Failure::Listen(listen, error))?;
    announce(listener.local_addr()?)?;
    Ok(server::serve(listener, ledger, stop.asked()).await?)
}

async fn work(worker: Worker, linger: Duration) -> Result<(), Failure> {
    let stop = Stop::listen()?;
    tokio::select! {
        done = worker.run() => Ok(done?),
        () = async {
            stop.asked().await;
            tokio::time::sleep(linger).await;
        } => Ok(()),
    }
}

async fn one_leader(copies: &[String], of: usize, within: Duration) -> Result<(), Failure> {
    let count = leaders::await_one(copies, of, within).await;
    if !count.is_one_leader(of) {
        return Err(Failure::Leaders { of, count });
    }
    Ok(writeln!(io::stdout(), "{}", json!(count))?)
}

fn open(path: Option<&Path>) -> Result<Ledger, Failure> {
    let Some(path) = path else {
        return Ok(Ledger { journal: Journal::default(), file: None });
    };
    let found =
        JournalFile::open(path).map_err(|error| Failure::Journal(path.to_owned(), error))?;
    if let Some(torn) = found.torn {
        let path = path.display();
        writeln!(io::stderr(), "ledger: {path} ended in a torn line, now cut off: {torn:?}")?;
    }
    Ok(Ledger { journal: found.journal, file: Some(found.file) })
}

fn announce(listen: SocketAddr) -> io::Result<()> {
    writeln!(io::stdout(), "{}", json!({"listen": listen}))
}

fn complain(failure: &Failure) {
    let mut text = format!("ledger: {failure}");
    let mut cause = failure.source();
    while let Some(error) = cause {
        write!(text, ": {error}").expect("a String takes everything");
        cause = error.source();
    }
    // Where standard error is gone there is nobody to tell; the exit code says it too.
    writeln!(io::stderr(), "{text}").ok();
}

/// The two signals that end this program, caught from the moment of their making.
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

    async fn asked(mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

fn period(text: &str) -> Result<Duration, String> {
    let period = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if period.is_zero() { Err("it must be longer than nothing".to_owned()) } else { Ok(period) }
}

fn name(text: &str) -> Result<String, &'static str> {
    let sendable = !text.is_empty() && HeaderValue::from_str(text).is_ok();
    if sendable { Ok(text.to_owned()) } else { Err("a name is one or more ASCII characters") }
}

fn line(text: &str) -> Result<String, String> {
    let fits = text.len() <= LONGEST_LINE;
    if fits { Ok(text.to_owned()) } else { Err(format!("a line has at most {LONGEST_LINE} bytes")) }
}
