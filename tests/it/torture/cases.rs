//! The torture of each store, for as long and from the seed that the environment says.
//!
//! `make torture` sets the environment. Start with [`torture`].

use super::fault::{Backend, Fault};
use super::figures::Figures;
use super::record::Record;
use super::run::{Field, run};
use super::schedule::{ELECTIONS, Plan, Schedule};
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
const PEERS: &str = "BATON_TORTURE_PEERS";
const RECORD: &str = "BATON_TORTURE_RECORD";

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
    let field = field::<S>();
    let mut total = Figures::default();
    if let Some(schedule) = ordered::<Schedule>(SCHEDULE) {
        total.add(attempt(&schedule, &field));
        println!("torture of {name}: {total}");
        return;
    }
    let minutes = ordered(MINUTES).unwrap_or(3.0);
    let first = ordered(SEED).unwrap_or_else(|| Uuid::new_v4().as_u64_pair().0 >> 32);
    let rest = S::TIMING.takeover() + 2 * S::NOISE;
    let end = Instant::now() + Duration::from_secs_f64(60.0 * minutes);
    println!("torture of {name}: MINUTES={minutes} SEED={first} {:?}", S::TIMING);
    let mut schedules = Vec::new();
    for seed in first.. {
        let left = end.saturating_duration_since(Instant::now());
        let span = left.saturating_sub(STARTUP + 2 * rest).min(LONGEST_RUN);
        if span < 2 * rest && seed > first {
            break;
        }
        let schedule = drawn(seed, span.max(2 * rest), rest, &field);
        total.add(attempt(&schedule, &field));
        schedules.push((seed, schedule));
        println!("torture of {name}: seed {seed} passed: {total}");
    }
    assert!(total.prove_anything(), "most faults did not act: {total}");
    if let Some(path) = ordered::<String>(RECORD) {
        Record::of::<S>(name, &schedules, &total).write(&path);
    }
}

/// Two elections of Baton, or one of Baton and one of each peer.
fn field<S: Tortured>() -> Field<S> {
    if ordered::<String>(PEERS).is_none() {
        return Field { elections: ELECTIONS, peers: &[] };
    }
    assert!(!S::PEERS.is_empty(), "{} has no peers", name(S::BACKEND));
    Field { elections: 1, peers: S::PEERS }
}

fn drawn<S: Tortured>(seed: u64, span: Duration, rest: Duration, field: &Field<S>) -> Schedule {
    let is_common = |fault: &Fault| field.peers.is_empty() || fault.applies_to_any_program();
    let faults: Vec<_> = Fault::of(S::BACKEND).into_iter().filter(is_common).collect();
    let timing = S::TIMING;
    let lengths = [
        timing.retry_period,
        timing.answer_validity,
        timing.renew_deadline,
        timing.lease_duration,
        timing.takeover(),
    ];
    let elections = field.elections;
    Schedule::draw(seed, &Plan { faults: &faults, elections, span, lengths: &lengths, rest })
}

/// Runs a schedule. After a failure that the machine does not excuse, prints the shortest schedule
/// that fails as well.
#[expect(clippy::print_stdout, reason = "the schedule is the result")]
fn attempt<S: Tortured>(schedule: &Schedule, field: &Field<S>) -> Figures {
    let failure = match caught(schedule, field) {
        Ok(figures) => return figures,
        Err(failure) => failure,
    };
    let name = name(S::BACKEND);
    let peers = if field.peers.is_empty() { "" } else { "PEERS=1 " };
    println!("torture of {name} failed: make torture STORE={name} {peers}SCHEDULE={schedule}");
    if Instant::now().checked_sub(LOOK_BACK).and_then(excuse).is_some() {
        resume_unwind(failure);
    }
    never_excuse();
    let shortest = shrink(schedule.clone(), |half| {
        println!("torture of {name} tries {} of its faults", half.0.len());
        caught(half, field).is_err()
    });
    println!("shortest that failed: make torture STORE={name} {peers}SCHEDULE={shortest}");
    resume_unwind(failure);
}

fn caught<S: Tortured>(schedule: &Schedule, field: &Field<S>) -> std::thread::Result<Figures> {
    catch_unwind(AssertUnwindSafe(|| run(schedule, field)))
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
