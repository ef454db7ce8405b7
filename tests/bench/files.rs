//! Handoffs over files, without an API server's share.

use crate::Result;
use crate::handoff::{self, Ground, Killed};
use crate::server::{ELECTION, Server};
use crate::table::{Row, Sample, Unit};
use std::fs;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const ROUNDS: u32 = 50;

#[rustfmt::skip]
const FLAGS: [&str; 8] = [
    "--lease-duration", "1500ms", "--renew-deadline", "1s", "--retry-period", "200ms", "--answer-validity", "200ms",
];

/// A folder that three candidates share.
struct Folder(TempDir);

impl Ground for Folder {
    const LEASE: Duration = Duration::from_millis(1500);
    const VALIDITY: Duration = Duration::from_millis(200);
    const BETWEEN_LOOKS: Duration = Duration::from_micros(500);
    /// The time between two renewals.
    const SPREAD: Duration = Duration::from_millis(200);

    fn start(&self) -> Result<Server> {
        Server::over_files(self.0.path(), &FLAGS)
    }

    /// The kernel's stamp may be a few milliseconds too early.
    fn last_written(&self) -> Result<Instant> {
        let modified = fs::metadata(self.0.path().join(ELECTION).join("record"))?.modified()?;
        handoff::instant(modified)
    }
}

pub(crate) fn clean() -> Result<Vec<Row>> {
    let gaps = handoff::clean(&Folder(TempDir::with_prefix("baton-bench-")?), ROUNDS)?;
    let row = |what: &str, percent| {
        Row::new(what, Unit::Milliseconds, gaps.percentile(percent)).aim(20.0)
    };
    Ok(vec![
        row("clean handoff, end of the last promise to the successor's 200, p50 of 50", 50),
        row("the same, p99", 99),
    ])
}

pub(crate) fn killed() -> Result<Vec<Row>> {
    let Killed { whole, excess } =
        handoff::killed(&Folder(TempDir::with_prefix("baton-bench-")?), ROUNDS)?;
    let row = |what: &str, sample: &Sample, percent| {
        Row::new(what, Unit::Milliseconds, sample.percentile(percent))
    };
    Ok(vec![
        row(
            "killed handoff (lease 1.5s, renew 1s, retry 200ms), SIGKILL to the successor's 200, p50 of 50",
            &whole,
            50,
        ),
        row("the same, p99", &whole, 99),
        row("the same, from the end of the lease (last renewal + 1.5s), p50", &excess, 50),
        row("the same, p99", &excess, 99),
    ])
}
