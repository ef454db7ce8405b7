//! The tables of the torture beside the peers, from the files that its runs wrote.

use super::{read, reference::compare};
use crate::torture::record::{Program, Record};
use std::fmt::Write as _;

/// The runs, and what their table is headed.
const RUNS: [(&str, &str); 3] = [("lease", "Leases"), ("zookeeper", "ZooKeeper"), ("etcd", "etcd")];

#[test]
fn comparison_has_the_figures_of_the_torture() {
    let tables = RUNS.map(|(store, title)| table(&record(store), title));
    compare("docs/comparison.md", &tables.concat());
}

#[test]
fn no_run_saw_two_leaders_of_baton() {
    for (store, _) in RUNS {
        let record = record(store);
        let ours = record.programs.iter().find(|program| program.name == "Baton").unwrap();
        assert_eq!((ours.overlaps, ours.two_leaders_ms), (0, 0), "{store}");
        assert!(ours.terms >= 20, "{store}: {} terms", ours.terms);
    }
}

fn record(store: &str) -> Record {
    let record: Record =
        serde_json::from_str(&read(format!("tests/it/torture/records/{store}.json"))).unwrap();
    assert_eq!(record.store, store);
    record
}

fn table(record: &Record, title: &str) -> String {
    let Record {
        store,
        minutes,
        schedules,
        faults,
        timing_ms: [lease, renew, retry, validity],
        ..
    } = record;
    let (first, last) = (schedules[0].0, schedules[schedules.len() - 1].0);
    let mut table = format!(
        "### {title}\n\n{minutes:.0} minutes, {} faults of {} kinds, seeds {first} to {last}. The \
         durations are {}, {}, and {}.\nThe answer validity is {}. This repeats the run:\n\n\
         `make torture STORE={store} PEERS=1 MINUTES={:.0} SEED={first}`\n\n\
         | | terms | overlaps | two leaders for | longest time without a leader | to and from the \
         store per minute | resident memory |\n|---|---|---|---|---|---|---|\n",
        faults.values().sum::<usize>(),
        faults.values().filter(|acted| **acted > 0).count(),
        seconds(*lease),
        seconds(*renew),
        seconds(*retry),
        seconds(*validity),
        // The servers of each run take some seconds to start.
        (minutes + 0.9).round(),
    );
    for program in &record.programs {
        writeln!(table, "{}", row(program)).unwrap();
    }
    table + "\n"
}

fn row(program: &Program) -> String {
    let Program { name, version, terms, overlaps, two_leaders_ms, longest_gap_ms, .. } = program;
    format!(
        "| {name} {} | {terms} | {overlaps} | {} | {} | {} kB | {:.0} MB |",
        version.trim_start_matches('v'),
        seconds(*two_leaders_ms),
        seconds(*longest_gap_ms),
        program.bytes_per_minute / 1000,
        f64::from(u32::try_from(program.resident_kib).unwrap()) * 1.024 / 1000.0,
    )
}

/// Milliseconds as seconds with one decimal, or as they are below a tenth.
fn seconds(ms: u128) -> String {
    if ms == 0 {
        return "0 s".to_owned();
    }
    if ms < 100 { format!("{ms} ms") } else { format!("{}.{} s", ms / 1000, ms % 1000 / 100) }
}
