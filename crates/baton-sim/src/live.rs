//! A run that can be seen at any moment, and whose faults can be changed.
//!
//! Pure. Start with [`LiveRun`]. A run is a function of its scenario. So a person who acts on it
//! edits the list of faults, and the run is repeated up to that moment. Copies of the world, taken
//! along the way, keep that short.

use crate::checkers::{Checker, Inspect, Violation};
use crate::clock::Moment;
use crate::ensemble::Ensemble;
use crate::json::Json;
use crate::record_store::RecordStore;
use crate::recording::{Record, Recorder, write_violation};
use crate::scenario::{Fault, Scenario, StoreConfig};
use crate::store::Store;
use crate::trace_printer::Printable;
use crate::world::{World, WorldView, view};
use std::time::Duration;

/// How much true time is simulated between two looks at the number of records.
const CHUNK: Duration = Duration::from_secs(2);
/// The fewest records between two copies of the world.
const MIN_SPACING: usize = 2_000;
/// The most copies. One more thins them out to half, and doubles their spacing.
const MAX_COPIES: usize = 256;

/// A run with a present moment.
pub struct LiveRun {
    scenario: Scenario,
    /// The world before its first event.
    start: Box<dyn Run>,
    run: Box<dyn Run>,
    /// The present moment, and how many records precede it.
    at: Moment,
    position: usize,
    /// The records of everything that was ever simulated with the present faults.
    records: Vec<Record>,
    violation: Option<Violation>,
    copies: Vec<Copy>,
    spacing: usize,
}

/// A world after all events up to a moment.
struct Copy {
    at: Moment,
    position: usize,
    run: Box<dyn Run>,
}

impl LiveRun {
    /// The run of `scenario` at its start.
    pub fn new(scenario: Scenario) -> Self {
        let start: Box<dyn Run> = match scenario.store.clone() {
            StoreConfig::Record(config) => start(&scenario, RecordStore::new(config)),
            StoreConfig::Ensemble(config) => {
                let store = Ensemble::new(config, scenario.candidates.len(), scenario.seed);
                start(&scenario, store)
            }
        };
        let run = start.copy();
        let (records, copies) = (Vec::new(), Vec::new());
        let (at, position, violation, spacing) = (Moment::START, 0, None, MIN_SPACING);
        let mut live =
            Self { scenario, start, run, at, position, records, violation, copies, spacing };
        live.seek(Moment::START);
        live
    }

    /// The scenario, with the present faults.
    pub const fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The present moment.
    pub const fn now(&self) -> Moment {
        self.at
    }

    /// Goes to `at`, forward or backward, but not beyond the end of the scenario.
    pub fn seek(&mut self, at: Moment) {
        let at = at.min(self.scenario.end);
        let is_closer = |copy: &&Copy| copy.at <= at && (at < self.at || self.at < copy.at);
        if let Some(Copy { at, position, run }) = self.copies.iter().rfind(is_closer) {
            (self.at, self.position, self.run) = (*at, *position, run.copy());
        } else if at < self.at {
            (self.at, self.position, self.run) = (Moment::START, 0, self.start.copy());
        }
        loop {
            self.at = at.min(self.at + CHUNK);
            self.run.advance(self.at);
            self.collect();
            if self.at == at {
                return;
            }
            self.keep_copy();
        }
    }

    /// The world at the present moment.
    pub fn view(&self) -> WorldView {
        self.run.view(self.at)
    }

    /// The records of everything that was simulated with the present faults, which may be more than
    /// what precedes the present moment.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Writes the first violation of exclusion so far as JSON: `null` if there is none.
    pub fn write_violation(&self, json: &mut Json) {
        match &self.violation {
            Some(violation) => write_violation(json, violation),
            None => {
                json.option(None::<u8>);
            }
        }
    }

    /// Replaces the faults, which must be ordered by their start. The present moment stays. Returns
    /// how many records are as they were.
    pub fn set_faults(&mut self, faults: Vec<Fault>) -> usize {
        let old = &self.scenario.faults;
        let same = old.iter().zip(&faults).take_while(|(old, new)| old == new).count();
        let starts = [old.get(same), faults.get(same)].map(|it| it.map(|fault| fault.at));
        let Some(first) = starts.into_iter().flatten().min() else {
            return self.records.len();
        };
        self.scenario.faults.clone_from(&faults);
        self.copies.retain(|copy| copy.at < first);
        for copy in &mut self.copies {
            copy.run.set_faults(faults.clone());
        }
        self.start.set_faults(faults);
        let kept = self.records.partition_point(|record| record.at < first);
        self.records.truncate(kept);
        self.violation.take_if(|violation| violation.at >= first);
        let at = self.at;
        (self.at, self.position, self.run) = (Moment::START, 0, self.start.copy());
        self.seek(at);
        kept
    }

    /// Adds the new records of the present world to the list, unless a repetition gave them.
    fn collect(&mut self) {
        for record in self.run.take_records() {
            if self.position == self.records.len() {
                self.records.push(record);
            }
            self.position += 1;
        }
        if self.violation.is_none() {
            self.violation = self.run.violation().cloned();
        }
    }

    fn keep_copy(&mut self) {
        let last = self.copies.last().map_or(0, |copy| copy.position);
        if self.position < last + self.spacing {
            return;
        }
        if self.copies.len() == MAX_COPIES {
            let mut is_kept = false;
            self.copies.retain(|_| {
                is_kept = !is_kept;
                !is_kept
            });
            self.spacing *= 2;
        }
        let (at, position, run) = (self.at, self.position, self.run.copy());
        self.copies.push(Copy { at, position, run });
    }
}

impl std::fmt::Debug for LiveRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveRun").field("at", &self.at).finish_non_exhaustive()
    }
}

/// A world over some store.
trait Run {
    fn advance(&mut self, until: Moment);
    fn view(&self, at: Moment) -> WorldView;
    fn take_records(&mut self) -> Vec<Record>;
    fn violation(&self) -> Option<&Violation>;
    fn set_faults(&mut self, faults: Vec<Fault>);
    fn copy(&self) -> Box<dyn Run>;
}

fn start<S>(scenario: &Scenario, store: S) -> Box<dyn Run>
where
    S: Store<Election: Printable + Inspect> + Clone + 'static,
{
    let observers = (Checker::of_exclusion(scenario), Recorder::new(scenario));
    Box::new(World::new(scenario.clone(), store, observers))
}

impl<S> Run for World<S, (Checker, Recorder)>
where
    S: Store<Election: Printable + Inspect> + Clone + 'static,
{
    fn advance(&mut self, until: Moment) {
        Self::advance(self, until);
    }

    fn view(&self, at: Moment) -> WorldView {
        view(self, at)
    }

    fn take_records(&mut self) -> Vec<Record> {
        self.observer_mut().1.take()
    }

    fn violation(&self) -> Option<&Violation> {
        self.observer().0.violation()
    }

    fn set_faults(&mut self, faults: Vec<Fault>) {
        Self::set_faults(self, faults);
    }

    fn copy(&self) -> Box<dyn Run> {
        Box::new(self.clone())
    }
}
