//! Seed after seed, until one fails or it is enough.
//!
//! Touches threads and the clock, to run worlds side by side and to measure how long they take. Start with [`hunt`].
#![expect(
    clippy::disallowed_methods,
    reason = "how long a run takes is measured by a clock of its own"
)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "traces are the product; progress goes to stderr"
)]

use crate::checkers::{Census, Judge, Legible, Violation};
use crate::clock::Moment;
use crate::edge;
use crate::ensemble::Ensemble;
use crate::faults::{Climate, Held, draw};
use crate::scenario::{Setup, StoreKind};
use crate::shrink::shrink;
use crate::store::{RecordStore, Store};
use crate::story::{Spelled, Story};
use crate::trace::Observer;
use crate::trace_hash::TraceHash;
use crate::world::World;
use std::num::NonZero;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// More than happens in any world that goes on: a machine that wants to be woken at once again and again stops time.
const MOST_STEPS: u64 = 2_000_000;
/// How much of a story is told unasked, in lines: its end.
const LONGEST_END: usize = 150;

/// When a hunt is over.
#[derive(Clone, Copy, Debug)]
pub enum Length {
    /// After this many worlds.
    Seeds(u64),
    /// After this long.
    Time(Duration),
}

/// What came of one world.
pub(crate) struct Judged {
    pub(crate) verdict: Option<Violation>,
    pub(crate) census: Census,
    pub(crate) lasted: Duration,
}

/// The world of `seed`: every third has an ensemble, and in one of four strangers meddle.
pub(crate) fn world_of(seed: u64) -> Setup {
    let held = if seed % 3 == 2 { Held::InEnsemble } else { Held::InRecord };
    draw(seed, held, if seed % 4 == 3 { Climate::Strangers } else { Climate::Assumed })
}

/// Hunts from the seed `from` on, on as many threads as there are processors. Which seeds fail does not depend on that.
pub fn hunt(from: u64, length: Length) -> ExitCode {
    let hunters = thread::available_parallelism().map_or(1, NonZero::get);
    let tally = Mutex::new(Tally::new(from));
    let next = || lock(&tally).next(length);
    thread::scope(|scope| {
        for _ in 0..hunters {
            scope.spawn(|| {
                while let Some(seed) = next() {
                    let (setup, begun) = (world_of(seed), Instant::now());
                    let candidates = setup.candidates.len();
                    let judged = judge(setup);
                    lock(&tally).add(seed, candidates, &judged, begun.elapsed());
                }
            });
        }
    });
    let tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    tally.show();
    if let Some(seed) = tally.failed {
        tell(seed, LONGEST_END);
        return ExitCode::FAILURE;
    }
    match tally.what_is_missing() {
        None => ExitCode::SUCCESS,
        Some(missing) => {
            eprintln!("prove: this run is void: too few {missing}, so it has shown nothing");
            ExitCode::FAILURE
        }
    }
}

/// A hunter that panics outside of a world takes the whole hunt with it, so what it left is not looked at.
fn lock(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells the whole story of `seed`.
pub fn replay(seed: u64) -> ExitCode {
    if tell(seed, usize::MAX) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Whether every assumption ends where theory says it does, and no sooner.
pub fn edges_hold() -> bool {
    edge::hold()
}

/// Prints the hash of what happens in each of so many worlds, a line a seed.
pub fn traces(from: u64, seeds: u64) -> ExitCode {
    for seed in from..from.saturating_add(seeds) {
        println!("{seed} {:016x}", trace(world_of(seed)));
    }
    ExitCode::SUCCESS
}

fn trace(setup: Setup) -> u64 {
    match setup.store.clone() {
        StoreKind::Record(kind) => {
            World::new(setup, RecordStore::new(kind), TraceHash::new()).run().value()
        }
        StoreKind::Ensemble(kind) => {
            let store = Ensemble::new(kind, setup.candidates.len(), setup.seed);
            World::new(setup, store, TraceHash::new()).run().value()
        }
    }
}

/// Lets the world of `setup` happen before a judge.
pub(crate) fn judge(setup: Setup) -> Judged {
    match setup.store.clone() {
        StoreKind::Record(kind) => judge_over(setup, RecordStore::new(kind)),
        StoreKind::Ensemble(kind) => {
            let store = Ensemble::new(kind, setup.candidates.len(), setup.seed);
            judge_over(setup, store)
        }
    }
}

fn judge_over<S: Store<Election: Legible>>(setup: Setup, store: S) -> Judged {
    let judge = Judge::new(&setup);
    let mut world = World::new(setup, store, judge);
    let (ending, at) = (unfold(&mut world, |judge| judge.verdict().is_some()), world.now());
    if let Some((property, what)) = ending {
        let verdict = Some(Violation { property, at, what });
        return Judged { verdict, census: Census::default(), lasted: Duration::ZERO };
    }
    let (verdict, census) = (world.observer().verdict().cloned(), world.observer().census());
    Judged { verdict, census, lasted: at.since(Moment::START) }
}

/// Lets everything happen until it `is_enough`; or says what keeps it from an end.
fn unfold<S: Store, O: Observer<S::Election>>(
    world: &mut World<S, O>,
    is_enough: impl Fn(&O) -> bool,
) -> Option<(&'static str, String)> {
    let goes_on = || (0..MOST_STEPS).any(|_| is_enough(world.observer()) || !world.step());
    match panic::catch_unwind(AssertUnwindSafe(goes_on)) {
        Ok(true) => None,
        Ok(false) => Some(("time goes on", format!("{MOST_STEPS} steps and no end"))),
        Err(_) => Some(("nothing panics", "what it said stands above".to_owned())),
    }
}

/// Shrinks what failed with `seed` and tells the last lines of its story; false if nothing did.
fn tell(seed: u64, lines: usize) -> bool {
    let setup = world_of(seed);
    let Some(violation) = judge(setup.clone()).verdict else {
        println!("{}\nseed {seed}: nothing is wrong", story_of(setup));
        return false;
    };
    let (faults, setup) = (setup.faults.len(), shrink(setup, violation.property));
    let violation = judge(setup.clone()).verdict.expect("what was shrunk still fails");
    let kept = setup.faults.len();
    let story = story_of(setup);
    let skipped = story.lines().count().saturating_sub(lines);
    if skipped > 0 {
        println!("# {skipped} lines before these are left out");
    }
    for line in story.lines().skip(skipped) {
        println!("{line}");
    }
    println!("\nseed {seed}, shrunk from {faults} faults to {kept}: {violation}");
    println!("to tell it whole: make prove REPLAY={seed}");
    true
}

fn story_of(setup: Setup) -> String {
    match setup.store.clone() {
        StoreKind::Record(kind) => story_over(setup, RecordStore::new(kind)),
        StoreKind::Ensemble(kind) => {
            let store = Ensemble::new(kind, setup.candidates.len(), setup.seed);
            story_over(setup, store)
        }
    }
}

fn story_over<S: Store<Election: Spelled + Legible>>(setup: Setup, store: S) -> String {
    let observers = (Judge::new(&setup), Story::new(&setup));
    let mut world = World::new(setup, store, observers);
    unfold(&mut world, |(judge, _)| judge.verdict().is_some());
    world.observer().1.text().to_owned()
}

/// What has been looked at so far.
struct Tally {
    begun: Instant,
    shown: Instant,
    from: u64,
    next: u64,
    /// The first seed that failed.
    failed: Option<u64>,
    worlds: u64,
    simulated: Duration,
    /// How much of that was of three candidates, and how long a processor took for it.
    of_three: (Duration, Duration),
    census: Census,
}

impl Tally {
    fn new(from: u64) -> Self {
        let (now, simulated, census) = (Instant::now(), Duration::ZERO, Census::default());
        let of_three = (Duration::ZERO, Duration::ZERO);
        Self {
            begun: now,
            shown: now,
            from,
            next: from,
            failed: None,
            worlds: 0,
            simulated,
            of_three,
            census,
        }
    }

    /// The next seed to look at, unless it is enough.
    fn next(&mut self, length: Length) -> Option<u64> {
        let is_enough = match length {
            Length::Seeds(seeds) => self.next - self.from >= seeds,
            Length::Time(time) => self.begun.elapsed() >= time,
        };
        if is_enough || self.failed.is_some() {
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }

    fn add(&mut self, seed: u64, candidates: usize, judged: &Judged, took: Duration) {
        self.worlds += 1;
        self.simulated += judged.lasted;
        if candidates == 3 {
            self.of_three.0 += judged.lasted;
            self.of_three.1 += took;
        }
        self.census.add(&judged.census);
        if judged.verdict.is_some() {
            self.failed = Some(self.failed.map_or(seed, |other| other.min(seed)));
        }
        if self.shown.elapsed() > Duration::from_secs(1) {
            self.show();
            self.shown = Instant::now();
        }
    }

    fn show(&self) {
        let speed = |simulated: Duration, took: Duration| {
            simulated.as_secs_f64() / took.as_secs_f64().max(1e-9)
        };
        eprintln!(
            "prove: {} seeds, {:.1} days simulated, {:.0} times as fast as real time, and three candidates on one processor {:.0} times; {}",
            self.worlds,
            self.simulated.as_secs_f64() / 86_400.0,
            speed(self.simulated, self.begun.elapsed()),
            speed(self.of_three.0, self.of_three.1),
            self.census,
        );
    }

    /// What there was too little of for a long run to mean anything.
    fn what_is_missing(&self) -> Option<&'static str> {
        let expected = self.worlds / 100;
        self.census.counts().into_iter().find(|(_, count)| *count < expected).map(|(what, _)| what)
    }
}
