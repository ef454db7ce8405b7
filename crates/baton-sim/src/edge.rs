//! Assumptions at their edge and beyond it: exclusion holds as far as theory says, and no farther.
//!
//! A run_checked that never finds anything beyond the edge is blind; a machine that fails before it is wrong. Start with [`hold`].
//!
//! A leader that is cut off stops R after it sent its last renewal, on its own clock; the fastest follower begins no sooner than L
//! after it heard of that, on its own. With the one clock slow by x and the other as fast, that overlaps from R (1 + x) =
//! L (1 − x) on: at x = (L − R) / (L + R), whatever drift was configured. Sooner it can not, for messages only take time.
//!
//! How slowly the servers of an ensemble may tick: `ticks.rs`.
//! How long their pings may take: `pings.rs`.
#![expect(clippy::print_stderr, reason = "each edge tells kind was seen there")]

mod pings;
mod ticks;

use crate::checkers::Violation;
use crate::clock::{Moment, Rate};
use crate::hunt::run_checked;
use crate::scenario::{
    CandidateConfig, CandidateFault, CandidateTarget, Fault, FaultKind, LinkFault, RecordConfig,
    Scenario, StoreConfig,
};
use baton_election::timing::{Drift, Durations, Timing};
use std::time::Duration;

/// Lease durations and renew deadlines that pass when clocks differ by a tenth, in seconds: client-go's, one near the edge, and longer ones.
const DURATIONS: [(u32, u32); 3] = [(15, 10), (15, 12), (30, 20)];
/// How many worlds are looked at on each side of an edge.
const RUNS: u64 = 300;
/// How far beyond the edge an overlap must show itself, in parts per million: candidates spread by up to 75 ms first.
const BEYOND: i32 = 3_000;

/// Whether each edge is where theory puts it; tells kind was seen.
pub(crate) fn hold() -> bool {
    let drift_ends_there = DURATIONS.into_iter().all(|(lease, renew)| {
        let edge = i32::try_from(1_000_000 * (lease - renew) / (lease + renew)).expect("less than the whole");
        let allowed = 100_000;
        let [within, at] = [allowed, edge].map(|off| {
            let first = failures(lease, renew, off).next();
            if let Some(Violation { property, at, detail }) = &first {
                eprintln!("prove: with clocks off by {off} ppm, at {at:?}: {property} does not hold: {detail}");
            }
            u32::from(first.is_some())
        });
        let beyond = failures(lease, renew, edge + BEYOND).filter(Violation::breaks_exclusion).count();
        eprintln!(
            "prove: a lease of {lease} s and a deadline of {renew} s, of {RUNS} worlds each: with clocks off by {allowed} ppm, as was \
             allowed, {within} fail; by {edge}, where theory puts the edge, {at}; by {BEYOND} more, {beyond} overlap"
        );
        within == 0 && at == 0 && beyond > 0
    });
    drift_ends_there && ticks::hold() && pings::hold()
}

/// FaultKind goes wrong, two who lead at once or anything else, with one clock slow and one fast by `off`.
fn failures(lease: u32, renew: u32, off: i32) -> impl Iterator<Item = Violation> {
    (0..RUNS).filter_map(move |seed| run_checked(scenario(seed, lease, renew, off)).violation)
}

/// A slow leader is cut off at some moment between two of its renewals, and a fast follower takes over.
fn scenario(seed: u64, lease: u32, renew: u32, off: i32) -> Scenario {
    let [lease_duration, renew_deadline] =
        [lease, renew].map(|seconds| Duration::from_secs(seconds.into()));
    let retry_period = Duration::from_secs(2);
    let durations =
        Durations { lease_duration, renew_deadline, retry_period, answer_validity: retry_period };
    let drift = Drift::parts_per_million(100_000).expect("less than the whole");
    let timing = Timing::new(durations, drift).expect("durations that pass under a tenth");
    let candidate = |starts: u64, off| CandidateConfig {
        timing,
        clock_start: Duration::from_secs(1_000 * starts),
        clock_rate: Rate::off_by(off),
        starts_at: Moment::START + Duration::from_secs(starts),
        stays_on_loss: true,
        poll_interval: Duration::from_millis(500),
    };
    let at = Moment::START
        + lease_duration
        + Duration::from_millis(retry_period.as_secs() * 1_000 * seed / RUNS);
    let cut =
        FaultKind::Candidate(CandidateTarget::Leader, CandidateFault::Link(LinkFault::PARTITION));
    Scenario {
        seed,
        candidates: vec![candidate(0, -off), candidate(1, off)],
        store: StoreConfig::Record(RecordConfig { whole_seconds: false, checks_version: true }),
        leaders_watch: true,
        latency: (Duration::from_micros(10), Duration::from_micros(100)),
        faults: vec![Fault { at, duration: lease_duration * 2, kind: cut }],
        end: at + lease_duration * 3,
    }
}
