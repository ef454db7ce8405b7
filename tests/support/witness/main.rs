//! `witness`: stands on a node of a test cluster, hears what its Pods answer and write, and sends signals to them.
//!
//! The cluster tests copy it into each node, and start it there by the container engine. So it goes on telling while
//! the node is cut off from all others, or the API server is away. `watch` prints one JSON line for each answer to
//! `GET /leader` and each line of a log ([`Record`]), until it is ended.

#![expect(
    clippy::disallowed_methods,
    reason = "not part of Baton: it is a clock beside the sidecar's"
)]

mod logs;
mod networks;
mod processes;
mod question;
mod record;
#[path = "../history/reply.rs"]
mod reply;

use clap::{Parser, ValueEnum};
use record::Record;
use reply::Reply;
use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::error::Error;
use std::io::{self, Write as _};
use std::thread;
use std::time::Duration;

/// A witness on a node of a test cluster
#[derive(Parser)]
#[command(name = "witness")]
enum Command {
    /// Ask every sidecar of this node again and again, and read every log: one JSON line for each thing heard
    Watch {
        /// The pause between two questions to a sidecar
        #[arg(long, value_name = "DURATION", default_value = "50ms", value_parser = humantime::parse_duration)]
        every: Duration,
        /// Where a sidecar listens on its loopback
        #[arg(long, default_value_t = 4040)]
        port: u16,
        /// Leave out what was logged before this time since boot
        #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration)]
        since: Duration,
    },
    /// Send a signal to a program of a Pod
    Signal { signal: Sent, pod: String, program: String },
    /// Print what the container of a program of a Pod has used, as JSON
    Usage { pod: String, program: String },
}

#[derive(Clone, Copy, ValueEnum)]
enum Sent {
    Stop,
    Cont,
    Kill,
    Term,
}

impl From<Sent> for Signal {
    fn from(sent: Sent) -> Self {
        match sent {
            Sent::Stop => Self::STOP,
            Sent::Cont => Self::CONT,
            Sent::Kill => Self::KILL,
            Sent::Term => Self::TERM,
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    match Command::parse() {
        Command::Watch { every, port, since } => {
            thread::spawn(move || logs::watch(since));
            networks::watch(every, port)
        }
        Command::Signal { signal, pod, program } => {
            Ok(processes::signal(&pod, &program, signal.into())?)
        }
        Command::Usage { pod, program } => {
            tell(&processes::usage(&pod, &program)?);
            Ok(())
        }
    }
}

/// Prints a line. Where nobody reads it there is nothing left to do here.
#[expect(
    clippy::exit,
    reason = "each of many threads may be the one to find that the reader is gone"
)]
fn tell(what: &impl Serialize) {
    let line = serde_json::to_string(what).expect("texts and numbers are JSON");
    if writeln!(io::stdout(), "{line}").is_err() {
        std::process::exit(1);
    }
}

/// The time since boot, suspended or not.
fn now() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    now.try_into().expect("a clock that began at zero does not show less")
}
