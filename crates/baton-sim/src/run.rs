//! Runs one scenario to its end: under the checkers, to a hash, or to a printed trace.
//!
//! Pure. Start with [`run_checked`].

use crate::checkers::{Checker, Coverage, Inspect, Violation};
use crate::clock::Moment;
use crate::ensemble::Ensemble;
use crate::json::Json;
use crate::record_store::RecordStore;
use crate::recording::{Recorder, write_records, write_scenario, write_violation};
use crate::scenario::{Scenario, StoreConfig};
use crate::store::Store;
use crate::trace::Observer;
use crate::trace_hash::TraceHash;
use crate::trace_printer::{Printable, TracePrinter};
use crate::world::World;
use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

/// More steps than any run takes while time advances. A machine that always asks to be woken at
/// once would never reach the end.
const MAX_STEPS: u64 = 2_000_000;

/// The result of one run.
pub(crate) struct RunReport {
    pub(crate) violation: Option<Violation>,
    pub(crate) coverage: Coverage,
    pub(crate) simulated: Duration,
}

/// Runs `scenario` under the checkers.
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
    let (failure, at) =
        (run_until(&mut world, |checker| checker.violation().is_some()), world.now());
    if let Some((property, detail)) = failure {
        let violation = Some(Violation { property, at, detail });
        return RunReport { violation, coverage: Coverage::default(), simulated: Duration::ZERO };
    }
    let (violation, coverage) =
        (world.observer().violation().cloned(), world.observer().coverage());
    RunReport { violation, coverage, simulated: at.since(Moment::START) }
}

/// Runs until `is_done`. Returns a violation if the run does not terminate or panics.
fn run_until<S: Store, O: Observer<S::Election>>(
    world: &mut World<S, O>,
    is_done: impl Fn(&O) -> bool,
) -> Option<(&'static str, String)> {
    let ends = || (0..MAX_STEPS).any(|_| is_done(world.observer()) || !world.step());
    match panic::catch_unwind(AssertUnwindSafe(ends)) {
        Ok(true) => None,
        Ok(false) => Some(("a run terminates", format!("no end after {MAX_STEPS} steps"))),
        Err(_) => Some(("no panic", "see the message above".to_owned())),
    }
}

/// The hash of the trace of `scenario`.
pub fn trace_hash(scenario: Scenario) -> u64 {
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

/// The trace of `scenario` as text.
pub(crate) fn print_trace(scenario: Scenario) -> String {
    match scenario.store.clone() {
        StoreConfig::Record(config) => print_trace_with_store(scenario, RecordStore::new(config)),
        StoreConfig::Ensemble(config) => {
            let store = Ensemble::new(config, scenario.candidates.len(), scenario.seed);
            print_trace_with_store(scenario, store)
        }
    }
}

/// The run of `scenario` as a trace file for the lab: its records up to the first violation.
pub(crate) fn trace_file(scenario: &Scenario, seed: u64) -> String {
    match scenario.store.clone() {
        StoreConfig::Record(config) => {
            trace_file_with_store(scenario, seed, RecordStore::new(config))
        }
        StoreConfig::Ensemble(config) => {
            let store = Ensemble::new(config, scenario.candidates.len(), scenario.seed);
            trace_file_with_store(scenario, seed, store)
        }
    }
}

fn trace_file_with_store<S: Store<Election: Printable + Inspect>>(
    scenario: &Scenario,
    seed: u64,
    store: S,
) -> String {
    let mut json = Json::default();
    let observers = (Checker::new(scenario), Recorder::new(scenario));
    let mut world = World::new(scenario.clone(), store, observers);
    run_until(&mut world, |(checker, _)| checker.violation().is_some());
    if world.observer().0.violation().is_some() {
        // The time after the violation shows for how long two candidates lead.
        let longest = scenario.candidates.iter().map(|it| it.timing.lease_duration()).max();
        world.advance(world.now() + longest.unwrap_or_default());
    }
    json.object(|json| {
        json.key("seed").value(seed);
        write_scenario(json, scenario);
        match world.observer().0.violation() {
            Some(violation) => write_violation(json.key("violation"), violation),
            None => {
                json.key("violation").option(None::<u8>);
            }
        }
        write_records(json.key("records"), &world.observer_mut().1.take());
    });
    json.into_text()
}

fn print_trace_with_store<S: Store<Election: Printable + Inspect>>(
    scenario: Scenario,
    store: S,
) -> String {
    let observers = (Checker::new(&scenario), TracePrinter::new(&scenario));
    let mut world = World::new(scenario, store, observers);
    run_until(&mut world, |(checker, _)| checker.violation().is_some());
    world.observer().1.text().to_owned()
}
