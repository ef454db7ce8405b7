//! Compares the classical election algorithms: `make lab-table`.
//!
//! `--exhibits` prints the outcomes of the runs in the lab instead.
//!
//! Touches threads, stdout, and with `--check` or `--write` the page that it names. Start with
//! [`count_all`].
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the program prints its table")]
#![expect(clippy::disallowed_methods, reason = "the program reads and writes the page")]

use baton_classics::draw::Condition;
use baton_classics::exhibits;
use baton_classics::measure::Job;
use baton_classics::table::{self, CONTENDERS, Results, SIZES};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

const USAGE: &str = "lab-table [--seeds N] [--check PAGE | --write PAGE] | --exhibits SEED";
const SEEDS: u64 = 1_000;
/// The table stands between these lines of the page.
const BEGIN: &str = "<!-- generated: make lab-table WRITE=1 -->\n";
const END: &str = "<!-- end of the generated part -->\n";

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    if let [flag, seed] = &arguments[..]
        && let ("--exhibits", Ok(seed)) = (flag.as_str(), seed.parse())
    {
        print_exhibits(seed);
        return ExitCode::SUCCESS;
    }
    let Some((seeds, page)) = parse(&arguments) else {
        eprintln!("usage: {USAGE}");
        return ExitCode::from(2);
    };
    let table = table::render(&count_all(seeds), seeds);
    let Some(Page { path, writes }) = page else {
        print!("{table}");
        return ExitCode::SUCCESS;
    };
    match update(&path, &table, writes) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lab-table: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints each run of the lab: the leaders at its end, how many milliseconds two led at once, how
/// many messages elections took, and the late writes of the resources.
fn print_exhibits(seed: u64) {
    for name in [5, 9].into_iter().flat_map(exhibits::names) {
        let run = exhibits::open(&name, seed).expect("a name from the list");
        let (leaders, overlap) = (&run.leaders, run.verdict.overlap.as_millis());
        let late = u8::from(run.verdict.takes_late_write);
        let by_token = run.verdict.takes_late_write_by_token.map(u8::from);
        println!("{name} {leaders:?} {overlap} {} {late} {by_token:?}", run.messages());
    }
}

/// The page that holds the table.
struct Page {
    path: String,
    /// Whether the table is replaced, and not only compared.
    writes: bool,
}

fn parse(arguments: &[String]) -> Option<(u64, Option<Page>)> {
    let (mut seeds, mut page) = (SEEDS, None);
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { return None };
        match name.as_str() {
            "--seeds" => seeds = value.parse().ok().filter(|seeds| *seeds > 0)?,
            "--check" | "--write" => {
                page = Some(Page { path: value.clone(), writes: name == "--write" });
            }
            _ => return None,
        }
    }
    Some((seeds, page))
}

/// Compares the table in the page with `table`, or replaces it.
fn update(path: &str, table: &str, writes: bool) -> Result<(), String> {
    let page = fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let parts = page.split_once(BEGIN).and_then(|(before, rest)| {
        rest.split_once(END).map(|(old, after)| (before, old.trim(), after))
    });
    let Some((before, old, after)) = parts else {
        return Err(format!("{path} lacks the line {BEGIN:?} or {END:?}"));
    };
    if old == table.trim() {
        return Ok(());
    }
    if !writes {
        return Err(format!("the table in {path} differs: run `make lab-table WRITE=1`"));
    }
    let page = format!("{before}{BEGIN}\n{table}\n{END}{after}");
    fs::write(path, page).map_err(|error| format!("cannot write {path}: {error}"))
}

/// Runs every job on all processors.
fn count_all(seeds: u64) -> Vec<Results> {
    let conditions: Vec<_> = Condition::ALL.into_iter().map(Some).chain([None]).collect();
    let mut jobs = Vec::new();
    for row in 0..CONTENDERS.len() {
        for candidates in SIZES.into_iter().rev() {
            for condition in &conditions {
                let condition = *condition;
                jobs.push((row, Job { candidates, condition, seeds: 0..seeds }));
            }
        }
    }
    let next = AtomicUsize::new(0);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let mut results = vec![Results::new(); CONTENDERS.len()];
        while let Some((row, job)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let tally = (CONTENDERS[*row].count)(job);
            results[*row].entry(job.candidates).or_default().add(tally);
        }
        results
    };
    let mut sum = vec![Results::new(); CONTENDERS.len()];
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            let results = worker.join().expect("a worker does not panic");
            for (sum, results) in sum.iter_mut().zip(results) {
                for (candidates, tally) in results {
                    sum.entry(candidates).or_default().add(tally);
                }
            }
        }
    });
    sum
}
