//! Measures the figures of docs/comparison.md and docs/concepts/scale.md on the built program: `make
//! bench`, or one part with `cargo bench --bench figures -- PART`.
//!
//! It starts sidecars over temporary directories, a real API server, real ZooKeeper servers, and
//! real etcd members. The baselines are a bare axum server (this program again), client-go's
//! candidates, Curator's, and those of etcd's Go client. They run at the same time, because a ratio
//! suffers less from a noisy machine than a figure. A failure ends the benchmark: nothing is
//! retried.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures the sidecar by its own clock")]

mod baseline;
mod checks;
mod client;
mod cost;
mod etcd;
mod files;
mod handoff;
mod lease;
mod leaving;
mod load;
mod machine;
mod push;
mod restarted;
mod server;
mod size;
mod table;
mod zookeeper;

/// A replacement for the tests' noise detection, which the rig calls. A benchmark excuses no
/// failure.
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

/// Real servers and other programs' candidates, started by the code of the tests.
#[path = "../it/rig"]
#[expect(
    dead_code,
    unused_imports,
    clippy::unwrap_used,
    reason = "the modules belong to the tests and contain tests"
)]
mod rig {
    mod apiserver;
    mod assets;
    mod daemon;
    mod etcd;
    #[path = "../../support/history/mod.rs"]
    mod history;
    mod keys;
    mod proxy;
    mod scratch;
    mod starter;
    mod zookeeper;

    pub(crate) use apiserver::{Access, ApiServer};
    pub(crate) use assets::{client_go_candidate, curator_candidate, etcd_election_candidate};
    pub(crate) use etcd::{Etcd, EtcdSettings};
    pub(crate) use history::{eventually, lock};
    pub(crate) use zookeeper::{Ensemble, Settings};
}

use std::env;
use std::error::Error;
use std::process::ExitCode;
use table::{Row, Table};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

type Part = fn() -> Result<Vec<Row>>;

const PARTS: [(&str, Part); 23] = [
    ("machine", machine::measure),
    ("load", load::measure),
    ("push", push::measure),
    ("checks", checks::measure),
    ("clean", files::clean),
    ("killed", files::killed),
    ("restarted", restarted::over_files),
    ("lease-clean", lease::clean),
    ("lease-killed", lease::killed),
    ("lease-leaving", leaving::measure),
    ("lease-restarted", restarted::over_leases),
    ("lease-cost", cost::lease),
    ("zookeeper-clean", zookeeper::clean),
    ("zookeeper-killed", zookeeper::killed),
    ("zookeeper-restarted", restarted::over_zookeeper),
    ("zookeeper-idle", zookeeper::idle),
    ("zookeeper-cost", cost::zookeeper),
    ("etcd-clean", etcd::clean),
    ("etcd-killed", etcd::killed),
    ("etcd-idle", etcd::idle),
    ("etcd-cost", etcd::cost),
    ("etcd-crowd", etcd::crowd),
    ("size", size::measure),
];

#[expect(clippy::print_stderr, reason = "the error goes to the terminal")]
fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        [baseline::ARGUMENT, length] => baseline::serve(length),
        // `cargo test --all-targets` runs this too, but unoptimized figures mean nothing.
        _ if !arguments.contains(&"--bench") => Ok(()),
        _ => measure(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures the named parts, or all of them, and prints one table.
#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the table is the result, and progress goes to the terminal"
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
