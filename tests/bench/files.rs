//! Handoffs over files, which have no server's share in them.

use crate::Result;
use crate::handoff::{self, Contest, Killed};
use crate::server::{ELECTION, Server};
use crate::table::{Row, Sample, Unit};
use std::fs;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const ROUNDS: u32 = 50;

#[rustfmt::skip]
const FLAGS: [&str; 8] = [
    "--lease-duration", "1500ms", "--renew-deadline", "1s",
    "--retry-period", "200ms", "--answer-validity", "200ms",
];

/// A directory that three candidates share.
struct Directory(TempDir);

impl Contest for Directory {
    const LEASE: Duration = Duration::from_millis(1500);
    const VALIDITY: Duration = Duration::from_millis(200);
    const POLL_INTERVAL: Duration = Duration::from_micros(500);
    /// The time between two renewals.
    const SPREAD: Duration = Duration::from_millis(200);

    fn start(&self) -> Result<Server> {
        Server::over_files(self.0.path(), &FLAGS)
    }

    /// The kernel's timestamp may be a few milliseconds too early.
    fn last_written(&self) -> Result<Instant> {
        let modified = fs::metadata(self.0.path().join(ELECTION).join("record"))?.modified()?;
        handoff::instant(modified)
    }
}

pub(crate) fn clean() -> Result<Vec<Row>> {
    let gaps = handoff::clean(&Directory(TempDir::with_prefix("baton-bench-")?), ROUNDS)?;
    let row = |what: &str, percent| {
        Row::new(what, Unit::Milliseconds, gaps.percentile(percent)).target(20.0)
    };
    Ok(vec![
        row("clean handoff, end of the last promise to the successor's 200, p50 of 50", 50),
        row("the same, p99", 99),
    ])
}

pub(crate) fn killed() -> Result<Vec<Row>> {
    let Killed { whole, excess } =
        handoff::killed(&Directory(TempDir::with_prefix("baton-bench-")?), ROUNDS)?;
    let row = |what: &str, sample: &Sample, percent| {
        Row::new(what, Unit::Milliseconds, sample.percentile(percent))
    };
    Ok(vec![
        row(
            "killed handoff (1.5s, 1s, 200ms), SIGKILL to the successor's 200, p50 of 50",
            &whole,
            50,
        ),
        row("the same, p99", &whole, 99),
        row("the same, from the end of the lease (last renewal + 1.5s), p50", &excess, 50),
        row("the same, p99", &excess, 99),
    ])
}
