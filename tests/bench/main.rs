//! The figures of README, measured on the built program: `make bench`, or one part by
//! `cargo bench --bench figures -- PART`.
//!
//! Starts sidecars over temporary folders, over a real API server and over real ZooKeeper servers. What they are compared
//! with runs in the same minutes, since the machines that this runs on are noisy and a ratio is less so: a bare axum server,
//! which is this program again, and candidates of client-go and of Curator. Nothing is tried twice: what fails ends the bench.
#![expect(
    clippy::disallowed_methods,
    reason = "a bench measures the sidecar by a clock of its own"
)]

mod baseline;
mod client;
mod files;
mod handoff;
mod lease;
mod load;
mod machine;
mod server;
mod size;
mod table;
mod zookeeper;

/// The rig measures how long stores take to start. A benchmark excuses nothing, so it has no use
/// for that.
mod noise {
    use std::sync::OnceLock;

    pub(crate) fn while_starting<T>(_store: &'static str, wait: impl FnOnce() -> T) -> T {
        wait()
    }

    pub(crate) fn start_once<T>(
        shared: &'static OnceLock<T>,
        start: impl FnOnce() -> T,
    ) -> &'static T {
        shared.get_or_init(start)
    }
}

/// Real servers and the candidates of other programs, found and started as the tests do.
#[path = "../it/rig"]
#[expect(
    dead_code,
    unused_imports,
    clippy::unwrap_used,
    reason = "they are those of the tests, with tests"
)]
mod rig {
    mod apiserver;
    mod assets;
    mod daemon;
    #[path = "../../support/history/mod.rs"]
    mod history;
    mod keys;
    mod proxy;
    mod scratch;
    mod starter;
    mod zookeeper;

    pub(crate) use apiserver::{Access, ApiServer};
    pub(crate) use assets::{client_go_candidate, curator_candidate};
    pub(crate) use history::{eventually, lock};
    pub(crate) use zookeeper::{Ensemble, Settings};
}

use std::env;
use std::error::Error;
use std::process::ExitCode;
use table::{Row, Table};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

type Part = fn() -> Result<Vec<Row>>;

const PARTS: [(&str, Part); 10] = [
    ("machine", machine::measure),
    ("load", load::measure),
    ("clean", files::clean),
    ("killed", files::killed),
    ("lease-clean", lease::clean),
    ("lease-killed", lease::killed),
    ("zookeeper-clean", zookeeper::clean),
    ("zookeeper-killed", zookeeper::killed),
    ("zookeeper-idle", zookeeper::idle),
    ("size", size::measure),
];

#[expect(clippy::print_stderr, reason = "the end of a bench is told")]
fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        [baseline::ARGUMENT, length] => baseline::serve(length),
        // `cargo test --all-targets` runs this too, built without optimisation: no figure of that is worth anything.
        _ if !arguments.contains(&"--bench") => Ok(()),
        _ => measure(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures the parts that are named, or all, and prints one table.
#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the table is the product; what is under way is told"
)]
fn measure(arguments: &[&str]) -> Result<()> {
    let named: Vec<_> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    if let Some(unknown) = named.iter().find(|named| PARTS.iter().all(|(part, _)| part != **named))
    {
        return Err(
            format!("there is no part {unknown}, only {:?}", PARTS.map(|(part, _)| part)).into()
        );
    }
    let mut table = Table::default();
    for (part, measure) in PARTS {
        if named.is_empty() || named.contains(&&part) {
            eprintln!("measuring: {part}");
            table.add(part, measure().map_err(|error| format!("{part}: {error}"))?);
        }
    }
    println!("{table}");
    Ok(())
}
