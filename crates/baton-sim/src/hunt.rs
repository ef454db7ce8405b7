//! Runs seed after seed until one fails or a limit is reached.
//!
//! Uses threads, the clock, and a trace file. Start with [`hunt`].
#![expect(clippy::disallowed_methods, reason = "the duration of a run is measured in real time")]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "traces are the product; progress goes to stderr"
)]

use crate::checkers::Coverage;
use crate::edge;
use crate::faults::scenario_for;
use crate::run::{RunReport, print_trace, run_checked, trace_file, trace_hash};
use crate::scenario::Scenario;
use crate::shrink::shrink;
use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How many lines of a failing trace are printed, from its end.
const MAX_TRACE_LINES: usize = 150;

/// When a hunt ends without a failure.
#[derive(Clone, Copy, Debug)]
pub enum StopAfter {
    /// After this many runs.
    Seeds(u64),
    /// After this much time.
    Time(Duration),
}

/// Runs all seeds from `from` on, on as many threads as there are processors. The number of threads
/// does not change which seeds fail.
///
/// Writes the trace file of a failure to `trace`, if given.
pub fn hunt(from: u64, stop_after: StopAfter, trace: Option<&Path>) -> ExitCode {
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    let progress = Mutex::new(Progress::new(from));
    let next = || lock(&progress).next(stop_after);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(seed) = next() {
                    let (scenario, started_at) = (scenario_for(seed), Instant::now());
                    let candidates = scenario.candidates.len();
                    let report = run_checked(scenario);
                    lock(&progress).add(seed, candidates, &report, started_at.elapsed());
                }
            });
        }
    });
    let progress = progress.into_inner().unwrap_or_else(PoisonError::into_inner);
    progress.print();
    if let Some(seed) = progress.failed {
        report_failure(seed, MAX_TRACE_LINES, trace);
        return ExitCode::FAILURE;
    }
    match progress.missing_coverage() {
        None => ExitCode::SUCCESS,
        Some(missing) => {
            eprintln!("prove: insufficient coverage: too few {missing}");
            ExitCode::FAILURE
        }
    }
}

/// Ignores poisoning: a worker that panics outside of a run ends the whole hunt.
fn lock(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `seed` and prints its whole trace, shrunk if it fails. Writes the trace file to `trace`, if
/// given.
pub fn replay(seed: u64, trace: Option<&Path>) -> ExitCode {
    if report_failure(seed, usize::MAX, trace) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Whether every assumption of exclusion has its limit exactly where theory puts it.
pub fn limits_match_theory() -> bool {
    edge::limits_match_theory()
}

/// Prints the hash of each trace, one line per seed.
pub fn print_trace_hashes(from: u64, seeds: u64) -> ExitCode {
    for seed in from..from.saturating_add(seeds) {
        println!("{seed} {:016x}", trace_hash(scenario_for(seed)));
    }
    ExitCode::SUCCESS
}

/// Shrinks a failing seed and prints the last lines of its trace; false if it does not fail.
fn report_failure(seed: u64, lines: usize, trace_path: Option<&Path>) -> bool {
    let scenario = scenario_for(seed);
    let Some(violation) = run_checked(scenario.clone()).violation else {
        println!("{}\nseed {seed}: no violation", print_trace(scenario.clone()));
        write_trace_file(&scenario, seed, trace_path);
        return false;
    };
    let (faults, scenario) = (scenario.faults.len(), shrink(scenario, violation.property));
    let violation = run_checked(scenario.clone()).violation.expect("a shrunk scenario still fails");
    let kept = scenario.faults.len();
    let trace = print_trace(scenario.clone());
    let skipped = trace.lines().count().saturating_sub(lines);
    if skipped > 0 {
        println!("# {skipped} earlier lines omitted");
    }
    for line in trace.lines().skip(skipped) {
        println!("{line}");
    }
    println!("\nseed {seed}, shrunk from {faults} faults to {kept}: {violation}");
    println!("replay with: make prove REPLAY={seed}");
    write_trace_file(&scenario, seed, trace_path);
    true
}

fn write_trace_file(scenario: &Scenario, seed: u64, path: Option<&Path>) {
    let Some(path) = path else { return };
    match fs::write(path, trace_file(scenario, seed)) {
        Ok(()) => println!("look at it with: make lab TRACE={}", path.display()),
        Err(error) => eprintln!("prove: cannot write {}: {error}", path.display()),
    }
}

/// The runs so far.
struct Progress {
    started_at: Instant,
    reported_at: Instant,
    from: u64,
    next: u64,
    /// The smallest seed that failed.
    failed: Option<u64>,
    runs: u64,
    simulated: Duration,
    /// The simulated time of runs with three candidates, and the processor time that they took.
    three_candidates: (Duration, Duration),
    coverage: Coverage,
}

impl Progress {
    fn new(from: u64) -> Self {
        let (now, simulated, coverage) = (Instant::now(), Duration::ZERO, Coverage::default());
        let three_candidates = (Duration::ZERO, Duration::ZERO);
        Self {
            started_at: now,
            reported_at: now,
            from,
            next: from,
            failed: None,
            runs: 0,
            simulated,
            three_candidates,
            coverage,
        }
    }

    /// The next seed to run, unless the hunt is over.
    fn next(&mut self, stop_after: StopAfter) -> Option<u64> {
        let is_done = match stop_after {
            StopAfter::Seeds(seeds) => self.next - self.from >= seeds,
            StopAfter::Time(time) => self.started_at.elapsed() >= time,
        };
        if is_done || self.failed.is_some() {
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }

    fn add(&mut self, seed: u64, candidates: usize, report: &RunReport, took: Duration) {
        self.runs += 1;
        self.simulated += report.simulated;
        if candidates == 3 {
            self.three_candidates.0 += report.simulated;
            self.three_candidates.1 += took;
        }
        self.coverage.add(&report.coverage);
        if report.violation.is_some() {
            self.failed = Some(self.failed.map_or(seed, |other| other.min(seed)));
        }
        if self.reported_at.elapsed() > Duration::from_secs(1) {
            self.print();
            self.reported_at = Instant::now();
        }
    }

    fn print(&self) {
        let speed = |simulated: Duration, took: Duration| {
            simulated.as_secs_f64() / took.as_secs_f64().max(1e-9)
        };
        eprintln!(
            "prove: {} seeds, {:.1} days simulated at {:.0} times real time ({:.0} times per \
             processor with three candidates); {}",
            self.runs,
            self.simulated.as_secs_f64() / 86_400.0,
            speed(self.simulated, self.started_at.elapsed()),
            speed(self.three_candidates.0, self.three_candidates.1),
            self.coverage,
        );
    }

    /// A kind of event that occurred in fewer than one run in a hundred, so that the hunt proves
    /// little.
    fn missing_coverage(&self) -> Option<&'static str> {
        let expected = self.runs / 100;
        self.coverage
            .counts()
            .into_iter()
            .find(|(_, count)| *count < expected)
            .map(|(name, _)| name)
    }
}
