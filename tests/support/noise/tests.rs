//! Which failures count at once, which cases run again, and when noise fails the run.

#![cfg(test)]

use super::{
    Assumption, MOST_ATTEMPTS, Seen, Suite, assume, assume_within, excuse, seen_since, start_once,
    this_case, while_starting, work_for,
};
use crate::rig::eventually;
use rustix::thread::gettid;
use std::cell::{Cell, RefCell};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_millis(200);
const ASSUMED: &[Assumption] = &[
    Assumption::LosesAtMost(LIMIT),
    Assumption::StoresStartWithin(Duration::from_secs(5)),
    Assumption::TasksPerProcessor(8.0),
];

thread_local! {
    static RUNS: Cell<u32> = const { Cell::new(0) };
    static REPORTED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// A suite with these measurements of the machine and this number of cases.
fn suite(seen_since: fn(Instant) -> Seen, count_cases: fn() -> usize) -> Suite {
    suite_looking_back(Duration::from_mins(1), seen_since, count_cases)
}

fn suite_looking_back(
    look_back: Duration,
    seen_since: fn(Instant) -> Seen,
    count_cases: fn() -> usize,
) -> Suite {
    Suite::new(ASSUMED, look_back, seen_since, count_cases, |cases, name, why| {
        REPORTED.with_borrow_mut(|reported| reported.push(format!("{name} of {cases}: {why}")));
    })
}

fn quiet(_: Instant) -> Seen {
    Seen { lost: LIMIT, slowest_start: Some(("etcd", Duration::from_secs(5))), crowd: 8.0 }
}

fn stalled(_: Instant) -> Seen {
    Seen { lost: Duration::from_millis(812), ..Seen::default() }
}

/// How often the case ran, and the message of its failure.
fn outcome(suite: &Suite, name: &'static str, body: fn()) -> (u32, Option<String>) {
    RUNS.set(0);
    let failure = catch_unwind(AssertUnwindSafe(|| suite.run(name, body))).err();
    let message = failure.map(|failure| match failure.downcast::<String>() {
        Ok(message) => *message,
        Err(other) => other.downcast_ref::<&str>().map_or_else(String::new, ToString::to_string),
    });
    (RUNS.get(), message)
}

fn reported() -> Vec<String> {
    REPORTED.take()
}

/// Counts a run of the current case. Returns its number.
fn run() -> u32 {
    RUNS.set(RUNS.get() + 1);
    RUNS.get()
}

fn fails() {
    run();
    panic!("a wrong answer");
}

fn fails_once() {
    assert_eq!(run(), 2, "a late answer");
}

#[test]
fn failure_counts_at_once_if_all_assumptions_held() {
    let suite = suite(quiet, || 100);
    assert_eq!(outcome(&suite, "case", fails), (1, Some("a wrong answer".to_owned())));
    assert_eq!(reported(), [""; 0]);
}

#[test]
fn failure_on_a_stalled_machine_is_repeated_with_a_reason() {
    let suite = suite(stalled, || 100);
    assert_eq!(outcome(&suite, "case", fails_once), (2, None));
    assert_eq!(
        reported(),
        ["case of 100: a sleeping thread woke late by 812ms within a second, 200ms is assumed"]
    );
}

#[test]
fn each_broken_assumption_is_named_with_its_figure() {
    let seen = |_| Seen {
        lost: LIMIT,
        slowest_start: Some(("etcd", Duration::from_secs(12))),
        crowd: 21.0,
    };
    outcome(&suite(seen, || 100), "case", fails_once);
    let slow = "etcd took 12.0s to start, 5s is assumed";
    let crowd = "21.0 tasks per processor wanted to run, 8.0 is assumed";
    assert_eq!(reported(), [format!("case of 100: {slow}; {crowd}")]);
}

#[test]
fn case_that_fails_each_time_fails_despite_noise() {
    let suite = suite(stalled, || 100);
    assert_eq!(outcome(&suite, "case", fails), (MOST_ATTEMPTS, Some("a wrong answer".to_owned())));
}

#[test]
fn broken_bound_of_the_case_itself_repeats_it() {
    fn restarts_slowly() {
        let took = if run() == 1 { Duration::from_secs(9) } else { Duration::from_secs(1) };
        assume_within("the server is back in time", took, Duration::from_secs(4));
    }
    let suite = suite(quiet, || 100);
    assert_eq!(outcome(&suite, "case", restarts_slowly), (2, None));
    assert_eq!(reported(), ["case of 100: 9.0s passed, 4s is assumed: the server is back in time"]);
}

#[test]
fn own_assumptions_of_a_case_replace_those_of_the_suite() {
    fn fails_on_a_busy_machine() {
        assume(const { &[Assumption::LosesAtMost(Duration::from_secs(1))] });
        fails();
    }
    fn fails_by_a_tight_bound() {
        assume(const { &[Assumption::LosesAtMost(Duration::from_millis(50))] });
        fails_once();
    }
    assert_eq!(outcome(&suite(stalled, || 100), "busy", fails_on_a_busy_machine).0, 1);
    assert_eq!(outcome(&suite(quiet, || 100), "tight", fails_by_a_tight_bound), (2, None));
}

#[test]
fn case_learns_what_excuses_a_failure_now() {
    let begun = Instant::now();
    assume(const { &[Assumption::TasksPerProcessor(-1.0)] });
    assert!(excuse(begun).is_some_and(|why| why.contains("-1.0 is assumed")));
    assume(const { &[Assumption::LosesAtMost(Duration::from_hours(1))] });
    assert_eq!(excuse(begun), None);
}

#[test]
fn no_noise_excuses_a_broken_safety_rule() {
    let suite = suite(stalled, || 100);
    suite.is_unsafe.store(true, Ordering::Relaxed);
    assert_eq!(outcome(&suite, "case", fails_once).0, 1);
}

#[test]
fn more_than_one_case_in_twenty_fails_the_run() {
    let suite = suite(stalled, || 59);
    for name in ["first", "second"] {
        assert_eq!(outcome(&suite, name, fails_once), (2, None));
    }
    let (runs, message) = outcome(&suite, "third", fails_once);
    let message = message.expect("three of 59 are too many");
    assert_eq!(runs, 1);
    assert!(message.contains("3 of 59 cases ran again") && message.contains("812ms"), "{message}");
}

#[test]
fn one_case_may_always_run_again() {
    let suite = suite(stalled, || 1);
    assert_eq!(outcome(&suite, "only", fails_once), (2, None));
}

#[test]
fn stall_long_before_the_failure_excuses_nothing() {
    thread_local! {
        static STALL: Cell<Option<Instant>> = const { Cell::new(None) };
    }
    fn stalled_at_its_start(since: Instant) -> Seen {
        let is_counted = STALL.get().is_some_and(|at| at >= since);
        if is_counted { stalled(since) } else { quiet(since) }
    }
    fn fails_later() {
        STALL.set(Some(Instant::now()));
        thread::sleep(Duration::from_millis(30));
        fails_once();
    }
    let short = suite_looking_back(Duration::from_millis(20), stalled_at_its_start, || 100);
    assert_eq!(outcome(&short, "long before", fails_later).0, 1);
    let long = suite_looking_back(Duration::from_mins(1), stalled_at_its_start, || 100);
    assert_eq!(outcome(&long, "just before", fails_later), (2, None));
}

/// The store of this case's longest wait since then.
fn awaited(since: Instant) -> Option<&'static str> {
    seen_since(since).slowest_start.map(|(store, _)| store)
}

#[test]
fn store_that_never_starts_is_measured() {
    let begun = Instant::now();
    let started =
        catch_unwind(|| while_starting("a store of this test", || panic!("it never serves")));
    assert!(started.is_err());
    assert_eq!(awaited(begun), Some("a store of this test"));
}

#[test]
fn start_in_another_case_excuses_nothing() {
    let begun = Instant::now();
    let other = thread::spawn(move || {
        while_starting("a store of another case", || ());
        awaited(begun)
    });
    assert_eq!(other.join().unwrap(), Some("a store of another case"));
    assert_eq!(awaited(begun), None);
}

#[test]
fn wait_of_a_helper_thread_counts_for_its_case() {
    let (begun, case) = (Instant::now(), this_case());
    let helper = thread::spawn(move || {
        work_for(case);
        while_starting("a store of this case", || ());
    });
    helper.join().unwrap();
    assert_eq!(awaited(begun), Some("a store of this case"));
}

#[test]
fn shared_start_counts_for_each_waiting_case() {
    static SHARED: OnceLock<u8> = OnceLock::new();
    let begun = Instant::now();
    let (sender, thread_id) = mpsc::channel();
    let mut waiter = None;
    start_once(&SHARED, || {
        waiter = Some(thread::spawn(move || {
            sender.send(gettid()).unwrap();
            start_once(&SHARED, || unreachable!("another case starts it"));
            awaited(begun)
        }));
        let stat = format!("/proc/self/task/{}/stat", thread_id.recv().unwrap());
        let is_asleep = || fs::read_to_string(&stat).unwrap().contains(") S ");
        while_starting("a shared server", || {
            eventually(Duration::from_secs(10), "the other waits", is_asleep);
        });
        1
    });
    let waiter = waiter.expect("this case is the first");
    assert_eq!(waiter.join().unwrap(), Some("a shared server"));
    assert_eq!(awaited(begun), Some("a shared server"));
    let late = thread::spawn(move || {
        start_once(&SHARED, || unreachable!("it is running"));
        awaited(begun)
    });
    assert_eq!(late.join().unwrap(), None, "a later case does not wait");
}
