//! Repeats failed cases when the machine, not the program, was at fault.
//!
//! A test crate includes it with `#[path]` and takes `#[test]` from
//! `tests/support/noise/attribute`, so that [`case`] runs every case. Its `rig::ASSUMED` bounds the
//! machine, never the program. If these bounds held, a failure counts. Otherwise the broken bound
//! is reported with its figure, and the case runs again, alone, at most twice. Start with
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

/// How often a case may run in total.
const MOST_ATTEMPTS: u32 = 3;

static MACHINE: LazyLock<Sampler> = LazyLock::new(Sampler::begin);
static SUITE: Suite =
    Suite::new(crate::rig::ASSUMED, crate::rig::LOOK_BACK, seen_since, count_cases, list::report);

/// The payload of a panic by [`assume_within`].
struct Unmet(String);

thread_local! {
    /// The assumptions of this thread's case, in place of the suite's.
    static OWN_ASSUMPTIONS: Cell<Option<&'static [Assumption]>> = const { Cell::new(None) };
}

/// Runs a case. The attribute `#[test]` calls it.
pub(crate) fn case(path: &'static str, body: fn()) {
    LazyLock::force(&MACHINE);
    let name = path.split_once("::").map_or(path, |(_crate, name)| name);
    SUITE.run(name, body);
}

/// Replaces [`crate::rig::ASSUMED`] for this case: with less if its own bounds are tighter, or with
/// something else if it loads the machine itself.
pub(crate) fn assume(assumptions: &'static [Assumption]) {
    OWN_ASSUMPTIONS.set(Some(assumptions));
}

/// Ends this run of a case if its own bound on the machine is broken, since the rest would prove
/// nothing. Like [`crate::rig::ASSUMED`], the bound must not depend on the program under test.
#[track_caller]
pub(crate) fn assume_within(what: &str, took: Duration, limit: Duration) {
    if took > limit {
        let broken = format!("{took:.1?} passed, {limit:?} is assumed: {what}");
        resume_unwind(Box::new(Unmet(broken)));
    }
}

/// From now on every failure counts, however noisy the machine is: a rule was broken that must hold
/// on any machine.
pub(crate) fn never_excuse() {
    SUITE.is_unsafe.store(true, Ordering::Relaxed);
}

/// The assumptions that the machine broke since then, which excuse a failure; `None` if a failure
/// counts. For a case that goes on after an excused failure.
pub(crate) fn excuse(since: Instant) -> Option<String> {
    let assumed = OWN_ASSUMPTIONS.get().unwrap_or(SUITE.assumed);
    broken(assumed, &seen_since(since)).filter(|_| !SUITE.is_unsafe())
}

/// The cases of a test binary, and their assumptions.
struct Suite {
    assumed: &'static [Assumption],
    /// How long before a failure the machine's noise still excuses it.
    look_back: Duration,
    seen_since: fn(Instant) -> Seen,
    tally: Tally,
    report: fn(usize, &str, &str),
    /// Cases share the machine; a repeated one has it for itself.
    machine: RwLock<()>,
    is_unsafe: AtomicBool,
}

impl Suite {
    const fn new(
        assumed: &'static [Assumption],
        look_back: Duration,
        seen_since: fn(Instant) -> Seen,
        count_cases: fn() -> usize,
        report: fn(usize, &str, &str),
    ) -> Self {
        let (machine, is_unsafe) = (RwLock::new(()), AtomicBool::new(false));
        Self {
            assumed,
            look_back,
            seen_since,
            tally: Tally::new(count_cases),
            report,
            machine,
            is_unsafe,
        }
    }

    #[expect(clippy::print_stderr, reason = "libtest shows it with the failure")]
    fn run(&self, name: &'static str, body: fn()) {
        for attempt in 1..=MOST_ATTEMPTS {
            OWN_ASSUMPTIONS.set(None);
            let (failure, seen) = match self.attempt(attempt, body) {
                Ok(()) => return,
                Err(failed) => failed,
            };
            let why = failure.downcast_ref::<Unmet>().map(|unmet| unmet.0.clone());
            let assumed = OWN_ASSUMPTIONS.get().unwrap_or(self.assumed);
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
            (self.report)(self.tally.cases(), name, &why);
        }
    }

    /// Runs the body once. Returns its failure, and what the machine did in the last part of the
    /// run.
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

/// How many cases libtest runs in this process, from a listing with the same arguments.
fn count_cases() -> usize {
    let program = env::current_exe().expect("Linux knows the program of a process");
    let listed = Command::new(program).arg("--list").args(env::args_os().skip(1)).output();
    let listed = listed.expect("a running program can be run");
    String::from_utf8_lossy(&listed.stdout).lines().filter(|line| line.ends_with(": test")).count()
}
