//! The torture of each store, for as long and from the seed that the environment says.
//!
//! `make torture` sets the environment. Start with [`torture`].

use super::arena::COUNT;
use super::fault::{Backend, Fault};
use super::figures::Figures;
use super::run::run;
use super::schedule::{Plan, Schedule};
use super::shrink::shrink;
use super::stores::Tortured;
use crate::noise::{excuse, never_excuse};
use crate::rig::{EtcdKeys, Files, LOOK_BACK, Leases, Znodes};
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::str::FromStr;
use std::time::{Duration, Instant};
use uuid::Uuid;

const MINUTES: &str = "BATON_TORTURE_MINUTES";
const SEED: &str = "BATON_TORTURE_SEED";
const SCHEDULE: &str = "BATON_TORTURE_SCHEDULE";

/// How long the faults of one run may begin, so that its history stays small.
const LONGEST_RUN: Duration = Duration::from_secs(150);

/// How long the servers and candidates of a run may take to start.
const STARTUP: Duration = Duration::from_secs(10);

#[test]
fn lease() {
    torture::<Leases>();
}

#[test]
fn zookeeper() {
    torture::<Znodes>();
}

#[test]
fn etcd() {
    torture::<EtcdKeys>();
}

#[test]
fn file() {
    torture::<Files>();
}

/// Runs one schedule after the other, each with the next seed, until the time is over.
#[expect(clippy::print_stdout, reason = "the figures are the result")]
fn torture<S: Tortured>() {
    let name = name(S::BACKEND);
    let mut total = Figures::default();
    if let Some(schedule) = ordered::<Schedule>(SCHEDULE) {
        total.add(attempt::<S>(&schedule));
        println!("torture of {name}: {total}");
        return;
    }
    let minutes = ordered(MINUTES).unwrap_or(3.0);
    let first = ordered(SEED).unwrap_or_else(|| Uuid::new_v4().as_u64_pair().0 >> 32);
    let rest = S::TIMING.takeover() + 2 * S::NOISE;
    let end = Instant::now() + Duration::from_secs_f64(60.0 * minutes);
    println!("torture of {name}: MINUTES={minutes} SEED={first} {:?}", S::TIMING);
    for seed in first.. {
        let left = end.saturating_duration_since(Instant::now());
        let span = left.saturating_sub(STARTUP + 2 * rest).min(LONGEST_RUN);
        if span < 2 * rest && seed > first {
            break;
        }
        total.add(attempt::<S>(&drawn::<S>(seed, span.max(2 * rest), rest)));
        println!("torture of {name}: seed {seed} passed: {total}");
    }
    assert!(total.prove_anything(), "most faults did not act: {total}");
}

fn drawn<S: Tortured>(seed: u64, span: Duration, rest: Duration) -> Schedule {
    let faults = Fault::of(S::BACKEND);
    let timing = S::TIMING;
    let lengths = [
        timing.retry_period,
        timing.answer_validity,
        timing.renew_deadline,
        timing.lease_duration,
        timing.takeover(),
    ];
    let plan = Plan { faults: &faults, elections: COUNT, span, lengths: &lengths, rest };
    Schedule::draw(seed, &plan)
}

/// Runs a schedule. After a failure that the machine does not excuse, prints the shortest schedule
/// that fails as well.
#[expect(clippy::print_stdout, reason = "the schedule is the result")]
fn attempt<S: Tortured>(schedule: &Schedule) -> Figures {
    let failure = match caught::<S>(schedule) {
        Ok(figures) => return figures,
        Err(failure) => failure,
    };
    let name = name(S::BACKEND);
    println!("torture of {name} failed: make torture STORE={name} SCHEDULE={schedule}");
    if Instant::now().checked_sub(LOOK_BACK).and_then(excuse).is_some() {
        resume_unwind(failure);
    }
    never_excuse();
    let shortest = shrink(schedule.clone(), |half| {
        println!("torture of {name} tries {} of its faults", half.0.len());
        caught::<S>(half).is_err()
    });
    println!("shortest that failed: make torture STORE={name} SCHEDULE={shortest}");
    resume_unwind(failure);
}

fn caught<S: Tortured>(schedule: &Schedule) -> std::thread::Result<Figures> {
    catch_unwind(AssertUnwindSafe(|| run::<S>(schedule)))
}

/// The value of a variable, if it is set.
fn ordered<T: FromStr>(variable: &str) -> Option<T> {
    let text = env::var(variable).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is invalid: {text}")))
}

/// The store's name for `make torture`.
const fn name(backend: Backend) -> &'static str {
    match backend {
        Backend::Lease => "lease",
        Backend::ZooKeeper => "zookeeper",
        Backend::Etcd => "etcd",
        Backend::File => "file",
    }
}
