//! `witness`: polls and signals the Pods on one node of a test cluster, and reads their logs.
//!
//! The cluster tests copy it into each node and start it through the container engine. So it keeps
//! reporting while the node is partitioned or the API server is down. `watch` prints one JSON line
//! for each answer to `GET /leader` and each log line ([`Record`]), until it is killed.

#![expect(
    clippy::disallowed_methods,
    reason = "not part of Baton: its clock must be independent of the sidecar's"
)]

mod logs;
mod networks;
mod processes;
mod question;
mod record;
#[path = "../history/reply.rs"]
mod reply;
mod visits;

use clap::{Parser, ValueEnum};
use record::Record;
use reply::Reply;
use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::error::Error;
use std::io::{self, Write as _};
use std::net::SocketAddrV4;
use std::thread;
use std::time::Duration;

/// A witness on a node of a test cluster
#[derive(Parser)]
#[command(name = "witness")]
enum Command {
    /// Poll every sidecar on this node and read every log; print one JSON line per answer and log
    /// line
    Watch {
        /// The pause between two requests to a sidecar
        #[arg(long, value_name = "DURATION", default_value = "50ms", value_parser = humantime::parse_duration)]
        every: Duration,
        /// The loopback port of the sidecars
        #[arg(long, default_value_t = 4040)]
        port: u16,
        /// Skip log lines before this time since boot
        #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration)]
        since: Duration,
    },
    /// Request a Service's metrics, each time on a new connection; print one JSON line per request
    Visit {
        service: SocketAddrV4,
        /// The pause between two requests
        #[arg(long, value_name = "DURATION", default_value = "20ms", value_parser = humantime::parse_duration)]
        every: Duration,
    },
    /// Send a signal to a program in a Pod
    Signal { signal: Sent, pod: String, program: String },
    /// Print the resource usage of the container of a program in a Pod, as JSON
    Usage { pod: String, program: String },
    /// Print the memory of each process of a program in a Pod, as JSON
    Memory { pod: String, program: String },
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
        Command::Visit { service, every } => Ok(visits::send(service, every)?),
        Command::Signal { signal, pod, program } => {
            Ok(processes::signal(&pod, &program, signal.into())?)
        }
        Command::Usage { pod, program } => {
            print(&processes::usage(&pod, &program)?);
            Ok(())
        }
        Command::Memory { pod, program } => {
            print(&processes::memory(&pod, &program)?);
            Ok(())
        }
    }
}

/// Prints a line of JSON. Exits if the reader is gone.
#[expect(clippy::exit, reason = "any of several threads may find that the reader is gone")]
fn print(what: &impl Serialize) {
    let line = serde_json::to_string(what).expect("records are valid JSON");
    if writeln!(io::stdout(), "{line}").is_err() {
        std::process::exit(1);
    }
}

/// The time since boot, including suspension.
fn now() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    now.try_into().expect("a time since boot is not negative")
}
