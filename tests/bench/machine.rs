//! The machine's share in every figure: how late it wakes a thread, and how long it takes to sync a
//! file.

use crate::Result;
use crate::table::{Row, Sample, Unit};
use std::fs::File;
use std::io::Write as _;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const WAKES: u32 = 3000;
const SLEEP: Duration = Duration::from_millis(1);
const SYNCS: u32 = 200;

pub(crate) fn measure() -> Result<Vec<Row>> {
    let late: Sample = (0..WAKES).map(|_| oversleep()).collect();
    let folder = TempDir::with_prefix("baton-bench-")?;
    let synced = (0..SYNCS).map(|number| sync_file(&folder, number)).collect::<Result<Sample>>()?;
    let row = |what: &str, sample: &Sample, percent| {
        Row::new(what, Unit::Milliseconds, sample.percentile(percent))
    };
    Ok(vec![
        row("this machine wakes a sleeping thread late by, p50", &late, 50),
        row("the same, p99", &late, 99),
        row("this machine syncs a small file in, p50", &synced, 50),
        row("the same, p99", &synced, 99),
    ])
}

fn oversleep() -> Duration {
    let due = Instant::now() + SLEEP;
    thread::sleep(SLEEP);
    due.elapsed()
}

/// Writes and syncs a new file, as the file store does for each record.
fn sync_file(folder: &TempDir, number: u32) -> Result<Duration> {
    let started = Instant::now();
    let mut file = File::create(folder.path().join(number.to_string()))?;
    file.write_all(&[0; 300])?;
    file.sync_all()?;
    Ok(started.elapsed())
}
