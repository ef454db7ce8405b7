//! Tells a machine that stood still from a program that is broken.
//!
//! A test crate takes it in with `#[path]`, and takes `#[test]` from `tests/support/noise/attribute`: every
//! case then runs beneath [`case`]. Its `rig::ASSUMED` bounds the machine, never the program. A
//! case that fails while those bounds held has failed. A case that fails while one of them was
//! broken says which, with the figure, and runs again, alone, at most twice. Start at
//! [`Suite::run`].
//!
//! Nothing excuses a broken safety rule: see [`never_excuse`].

mod assumption;
mod list;
mod sampler;
mod starts;
mod tally;
mod tests;

pub(crate) use assumption::Assumption;
use assumption::{Seen, broken};
use sampler::{Sampler, locked};
pub(crate) use starts::{start_once, this_case, while_starting, work_for};
use std::any::Any;
use std::cell::Cell;
use std::env;
use std::panic::{catch_unwind, resume_unwind};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tally::Tally;

/// How often a case runs: once, and again twice.
const MOST_ATTEMPTS: u32 = 3;

static MACHINE: LazyLock<Sampler> = LazyLock::new(Sampler::begin);
static SUITE: Suite =
    Suite::new(crate::rig::ASSUMED, crate::rig::LOOK_BACK, seen_since, count_cases, list::tell);

/// The payload of a panic about an assumption that did not hold.
struct Unmet(String);

thread_local! {
    /// The assumptions of this thread's case, in place of the suite's.
    static INSTEAD: Cell<Option<&'static [Assumption]>> = const { Cell::new(None) };
}

/// Runs a case. The attribute `#[test]` calls it.
pub(crate) fn case(path: &'static str, body: fn()) {
    LazyLock::force(&MACHINE);
    let name = path.split_once("::").map_or(path, |(_crate, name)| name);
    SUITE.run(name, body);
}

/// From now on this case assumes this in place of [`crate::rig::ASSUMED`]: less if its own bounds
/// are tighter, something else if it keeps the machine busy itself.
pub(crate) fn assume(assumptions: &'static [Assumption]) {
    INSTEAD.set(Some(assumptions));
}

/// Ends this run of a case whose own bound on the machine was broken: nothing that follows would
/// mean anything. Like [`crate::rig::ASSUMED`], the bound must not depend on the program under
/// test.
#[track_caller]
pub(crate) fn assume_within(what: &str, took: Duration, limit: Duration) {
    if took > limit {
        let broken = format!("{took:.1?} passed, {limit:?} is assumed: {what}");
        resume_unwind(Box::new(Unmet(broken)));
    }
}

/// From now on every failure counts, however noisy the machine is: a rule was broken that has to
/// hold on any machine.
pub(crate) fn never_excuse() {
    SUITE.is_unsafe.store(true, Ordering::Relaxed);
}

/// Every case of a test binary, and what it may assume.
struct Suite {
    assumed: &'static [Assumption],
    /// How long before a failure the machine's noise still excuses it.
    look_back: Duration,
    seen_since: fn(Instant) -> Seen,
    tally: Tally,
    tell: fn(usize, &str, &str),
    /// Cases share the machine; one that runs again has it for itself.
    machine: RwLock<()>,
    is_unsafe: AtomicBool,
}

impl Suite {
    const fn new(
        assumed: &'static [Assumption],
        look_back: Duration,
        seen_since: fn(Instant) -> Seen,
        count_cases: fn() -> usize,
        tell: fn(usize, &str, &str),
    ) -> Self {
        let (machine, is_unsafe) = (RwLock::new(()), AtomicBool::new(false));
        Self {
            assumed,
            look_back,
            seen_since,
            tally: Tally::new(count_cases),
            tell,
            machine,
            is_unsafe,
        }
    }

    #[expect(clippy::print_stderr, reason = "libtest shows it with the failure")]
    fn run(&self, name: &'static str, body: fn()) {
        for attempt in 1..=MOST_ATTEMPTS {
            INSTEAD.set(None);
            let (failure, seen) = match self.attempt(attempt, body) {
                Ok(()) => return,
                Err(failed) => failed,
            };
            let why = failure.downcast_ref::<Unmet>().map(|unmet| unmet.0.clone());
            let assumed = INSTEAD.get().unwrap_or(self.assumed);
            let Some(why) = why.or_else(|| broken(assumed, &seen)) else {
                eprintln!("noise: what {name} assumes of the machine held: {seen}");
                resume_unwind(failure);
            };
            if self.is_unsafe() {
                eprintln!("noise: a rule was broken that no noise excuses, though {why}");
                resume_unwind(failure);
            }
            eprintln!("noise: run {attempt} of {name} failed, and {why}");
            if attempt == MOST_ATTEMPTS {
                resume_unwind(failure);
            }
            if let Err(too_many) = self.tally.count(name) {
                panic!("{too_many}; {why}");
            }
            (self.tell)(self.tally.cases(), name, &why);
        }
    }

    /// One run: its failure, and what the machine did in the last part of the run.
    fn attempt(&self, attempt: u32, body: fn()) -> Result<(), (Box<dyn Any + Send>, Seen)> {
        let shared =
            (attempt == 1).then(|| self.machine.read().unwrap_or_else(PoisonError::into_inner));
        let alone =
            (attempt > 1).then(|| self.machine.write().unwrap_or_else(PoisonError::into_inner));
        let begun = Instant::now();
        let outcome = catch_unwind(body).map_err(|failure| {
            let earliest = Instant::now().checked_sub(self.look_back);
            (failure, (self.seen_since)(earliest.map_or(begun, |earliest| earliest.max(begun))))
        });
        drop((shared, alone));
        outcome
    }

    fn is_unsafe(&self) -> bool {
        self.is_unsafe.load(Ordering::Relaxed)
    }
}

fn seen_since(since: Instant) -> Seen {
    Seen {
        lost: MACHINE.lost(since),
        slowest_start: starts::slowest(since),
        crowd: MACHINE.crowd(since),
    }
}

/// How many cases libtest runs in this process: the test binary lists them by the same arguments.
fn count_cases() -> usize {
    let program = env::current_exe().expect("Linux knows the program of a process");
    let listed = Command::new(program).arg("--list").args(env::args_os().skip(1)).output();
    let listed = listed.expect("what runs can be run");
    String::from_utf8_lossy(&listed.stdout).lines().filter(|line| line.ends_with(": test")).count()
}
