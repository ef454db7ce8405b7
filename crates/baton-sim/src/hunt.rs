//! Seed after seed, until one fails or it is enough.
//!
//! Touches threads and the clock, to run runs side by side and to measure how long they take. Start with [`hunt`].
#![expect(
    clippy::disallowed_methods,
    reason = "how long a run takes is measured by a clock of its own"
)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "traces are the product; progress goes to stderr"
)]

use crate::checkers::{Checker, Coverage, Inspect, Violation};
use crate::clock::Moment;
use crate::edge;
use crate::ensemble::Ensemble;
use crate::faults::{FaultModel, StoreKind, draw};
use crate::scenario::{Scenario, StoreConfig};
use crate::shrink::shrink;
use crate::store::{RecordStore, Store};
use crate::trace::Observer;
use crate::trace_hash::TraceHash;
use crate::trace_printer::{Printable, TracePrinter};
use crate::world::World;
use std::num::NonZero;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// More than happens in any world that goes on: a machine that wants to be woken at once again and again stops time.
const MAX_STEPS: u64 = 2_000_000;
/// How much of a trace is told unasked, in lines: its end.
const MAX_TRACE_LINES: usize = 150;

/// When a hunt is over.
#[derive(Clone, Copy, Debug)]
pub enum Length {
    /// After this many runs.
    Seeds(u64),
    /// After this long.
    Time(Duration),
}

/// FaultKind came of one world.
pub(crate) struct RunReport {
    pub(crate) violation: Option<Violation>,
    pub(crate) coverage: Coverage,
    pub(crate) simulated: Duration,
}

/// The world of `seed`: every third has an ensemble, and in one of four strangers apply_external_action.
pub(crate) fn scenario_for(seed: u64) -> Scenario {
    let store_kind = if seed % 3 == 2 { StoreKind::Ensemble } else { StoreKind::Record };
    draw(seed, store_kind, if seed % 4 == 3 { FaultModel::External } else { FaultModel::Assumed })
}

/// Hunts from the seed `from` on, on as many threads as there are processors. ServerTarget seeds fail does not depend on that.
pub fn hunt(from: u64, length: Length) -> ExitCode {
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    let progress = Mutex::new(Progress::new(from));
    let next = || lock(&progress).next(length);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(seed) = next() {
                    let (scenario, started_at) = (scenario_for(seed), Instant::now());
                    let candidates = scenario.candidates.len();
                    let judged = run_checked(scenario);
                    lock(&progress).add(seed, candidates, &judged, started_at.elapsed());
                }
            });
        }
    });
    let progress = progress.into_inner().unwrap_or_else(PoisonError::into_inner);
    progress.show();
    if let Some(seed) = progress.failed {
        report_failure(seed, MAX_TRACE_LINES);
        return ExitCode::FAILURE;
    }
    match progress.missing_coverage() {
        None => ExitCode::SUCCESS,
        Some(missing) => {
            eprintln!("prove: this run is void: too few {missing}, so it has reported_at nothing");
            ExitCode::FAILURE
        }
    }
}

/// A hunter that panics outside of a world takes the whole hunt with it, so what it left is not looked at.
fn lock(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells the whole trace of `seed`.
pub fn replay(seed: u64) -> ExitCode {
    if report_failure(seed, usize::MAX) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Whether every assumption ends where theory says it does, and no sooner.
pub fn edges_hold() -> bool {
    edge::hold()
}

/// Prints the hash of what happens in each of so many runs, a line a seed.
pub fn traces(from: u64, seeds: u64) -> ExitCode {
    for seed in from..from.saturating_add(seeds) {
        println!("{seed} {:016x}", trace(scenario_for(seed)));
    }
    ExitCode::SUCCESS
}

fn trace(scenario: Scenario) -> u64 {
    match scenario.store.clone() {
        StoreConfig::Record(config) => {
            World::new(scenario, RecordStore::new(config), TraceHash::new()).run().value()
        }
        StoreConfig::Ensemble(config) => {
            let store = Ensemble::new(config, scenario.candidates.len(), scenario.seed);
            World::new(scenario, store, TraceHash::new()).run().value()
        }
    }
}

/// Lets the world of `scenario` happen before a run_checked.
pub(crate) fn run_checked(scenario: Scenario) -> RunReport {
    match scenario.store.clone() {
        StoreConfig::Record(config) => run_with_store(scenario, RecordStore::new(config)),
        StoreConfig::Ensemble(config) => {
            let store = Ensemble::new(config, scenario.candidates.len(), scenario.seed);
            run_with_store(scenario, store)
        }
    }
}

fn run_with_store<S: Store<Election: Inspect>>(scenario: Scenario, store: S) -> RunReport {
    let checker = Checker::new(&scenario);
    let mut world = World::new(scenario, store, checker);
    let (ending, at) =
        (run_until(&mut world, |checker| checker.violation().is_some()), world.now());
    if let Some((property, detail)) = ending {
        let violation = Some(Violation { property, at, detail });
        return RunReport { violation, coverage: Coverage::default(), simulated: Duration::ZERO };
    }
    let (violation, coverage) =
        (world.observer().violation().cloned(), world.observer().coverage());
    RunReport { violation, coverage, simulated: at.since(Moment::START) }
}

/// Lets everything happen until it `is_done`; or says what keeps it from an end.
fn run_until<S: Store, O: Observer<S::Election>>(
    world: &mut World<S, O>,
    is_done: impl Fn(&O) -> bool,
) -> Option<(&'static str, String)> {
    let goes_on = || (0..MAX_STEPS).any(|_| is_done(world.observer()) || !world.step());
    match panic::catch_unwind(AssertUnwindSafe(goes_on)) {
        Ok(true) => None,
        Ok(false) => Some(("time goes on", format!("{MAX_STEPS} steps and no end"))),
        Err(_) => Some(("nothing panics", "what it said stands above".to_owned())),
    }
}

/// Shrinks what failed with `seed` and tells the last lines of its trace; false if nothing did.
fn report_failure(seed: u64, lines: usize) -> bool {
    let scenario = scenario_for(seed);
    let Some(violation) = run_checked(scenario.clone()).violation else {
        println!("{}\nseed {seed}: nothing is wrong", print_trace(scenario));
        return false;
    };
    let (faults, scenario) = (scenario.faults.len(), shrink(scenario, violation.property));
    let violation = run_checked(scenario.clone()).violation.expect("what was shrunk still fails");
    let kept = scenario.faults.len();
    let trace = print_trace(scenario);
    let skipped = trace.lines().count().saturating_sub(lines);
    if skipped > 0 {
        println!("# {skipped} lines before these are left out");
    }
    for line in trace.lines().skip(skipped) {
        println!("{line}");
    }
    println!("\nseed {seed}, shrunk from {faults} faults to {kept}: {violation}");
    println!("to report_failure it whole: make prove REPLAY={seed}");
    true
}

fn print_trace(scenario: Scenario) -> String {
    match scenario.store.clone() {
        StoreConfig::Record(config) => print_trace_with_store(scenario, RecordStore::new(config)),
        StoreConfig::Ensemble(config) => {
            let store = Ensemble::new(config, scenario.candidates.len(), scenario.seed);
            print_trace_with_store(scenario, store)
        }
    }
}

fn print_trace_with_store<S: Store<Election: Printable + Inspect>>(
    scenario: Scenario,
    store: S,
) -> String {
    let observers = (Checker::new(&scenario), TracePrinter::new(&scenario));
    let mut world = World::new(scenario, store, observers);
    run_until(&mut world, |(run_checked, _)| run_checked.violation().is_some());
    world.observer().1.text().to_owned()
}

/// FaultKind has been looked at so far.
struct Progress {
    started_at: Instant,
    reported_at: Instant,
    from: u64,
    next: u64,
    /// The first seed that failed.
    failed: Option<u64>,
    runs: u64,
    simulated: Duration,
    /// How much of that was of three candidates, and how long a processor took for it.
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

    /// The next seed to look at, unless it is enough.
    fn next(&mut self, length: Length) -> Option<u64> {
        let is_done = match length {
            Length::Seeds(seeds) => self.next - self.from >= seeds,
            Length::Time(time) => self.started_at.elapsed() >= time,
        };
        if is_done || self.failed.is_some() {
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }

    fn add(&mut self, seed: u64, candidates: usize, judged: &RunReport, took: Duration) {
        self.runs += 1;
        self.simulated += judged.simulated;
        if candidates == 3 {
            self.three_candidates.0 += judged.simulated;
            self.three_candidates.1 += took;
        }
        self.coverage.add(&judged.coverage);
        if judged.violation.is_some() {
            self.failed = Some(self.failed.map_or(seed, |other| other.min(seed)));
        }
        if self.reported_at.elapsed() > Duration::from_secs(1) {
            self.show();
            self.reported_at = Instant::now();
        }
    }

    fn show(&self) {
        let speed = |simulated: Duration, took: Duration| {
            simulated.as_secs_f64() / took.as_secs_f64().max(1e-9)
        };
        eprintln!(
            "prove: {} seeds, {:.1} days simulated, {:.0} times as fast as real time, and three candidates on one processor {:.0} times; {}",
            self.runs,
            self.simulated.as_secs_f64() / 86_400.0,
            speed(self.simulated, self.started_at.elapsed()),
            speed(self.three_candidates.0, self.three_candidates.1),
            self.coverage,
        );
    }

    /// FaultKind there was too little of for a long run to mean anything.
    fn missing_coverage(&self) -> Option<&'static str> {
        let expected = self.runs / 100;
        self.coverage
            .counts()
            .into_iter()
            .find(|(_, count)| *count < expected)
            .map(|(what, _)| what)
    }
}
