//! Checks that exclusion holds up to the limit of each assumption, and not beyond it.
//!
//! Start with [`limits_match_theory`]. A checker that finds no violation beyond the limit is blind,
//! and a machine that fails before the limit is wrong.
//!
//! A partitioned leader stops R after it sent its last renewal, by its own clock. The fastest
//! follower begins no sooner than L after it learned of that renewal, by its own clock. Let one
//! clock be slow by x and the other fast by x. These times overlap from R (1 + x) = L (1 − x) on.
//! For any configured drift that is:
//!
//! ```text
//! x = (L − R) / (L + R)
//! ```
//!
//! An earlier overlap is impossible because messages only take time. `ticks.rs` has the limit for
//! the servers' tick, and `pings.rs` that for their pings.
#![expect(clippy::print_stderr, reason = "the observations go to stderr")]

mod pings;
mod ticks;

use crate::checkers::Violation;
use crate::clock::{Moment, Rate};
use crate::run::run_checked;
use crate::scenario::{
    CandidateConfig, CandidateFault, CandidateTarget, Fault, FaultKind, LinkFault, Numbering, Push,
    RecordConfig, Scenario, StoreConfig,
};
use baton_election::record::preference::Preference;
use baton_election::timing::{Drift, Durations, Timing};
use std::time::Duration;

/// Lease durations and renew deadlines in seconds that are valid under a drift of 10 %:
/// client-go's, one near the limit, and longer ones.
const DURATIONS: [(u32, u32); 3] = [(15, 10), (15, 12), (30, 20)];
/// How many scenarios are run on each side of a limit.
const RUNS: u64 = 300;
/// How far beyond the limit overlaps must occur, in ppm. Candidates spread by up to 75 ms, which
/// delays an overlap.
const BEYOND: i32 = 3_000;

/// Whether each limit is where theory puts it. Prints what was observed.
pub(crate) fn limits_match_theory() -> bool {
    let drift_limit_matches = DURATIONS.into_iter().all(|(lease, renew)| {
        let limit = i32::try_from(1_000_000 * (lease - renew) / (lease + renew))
            .expect("a drift below 100 %");
        let allowed = 100_000;
        let [within, at] = [allowed, limit].map(|off| {
            let first = failures(lease, renew, off).next();
            if let Some(violation) = &first {
                eprintln!("prove: with clocks off by {off} ppm, {violation}");
            }
            u32::from(first.is_some())
        });
        let beyond =
            failures(lease, renew, limit + BEYOND).filter(Violation::breaks_exclusion).count();
        eprintln!(
            "prove: lease {lease} s, renew deadline {renew} s, {RUNS} runs each: {within} fail \
             with clocks off by {allowed} ppm, as allowed; {at} at the limit, {limit} ppm; \
             {beyond} overlap {BEYOND} ppm beyond it"
        );
        within == 0 && at == 0 && beyond > 0
    });
    drift_limit_matches && ticks::limit_matches_theory() && pings::limit_matches_theory()
}

/// The violations with one clock slow and one fast by `off`.
fn failures(lease: u32, renew: u32, off: i32) -> impl Iterator<Item = Violation> {
    (0..RUNS).filter_map(move |seed| run_checked(scenario(seed, lease, renew, off)).violation)
}

/// A slow leader is partitioned at some moment between two renewals, and a fast follower takes
/// over.
fn scenario(seed: u64, lease: u32, renew: u32, off: i32) -> Scenario {
    let [lease_duration, renew_deadline] =
        [lease, renew].map(|seconds| Duration::from_secs(seconds.into()));
    let retry_period = Duration::from_secs(2);
    let durations =
        Durations { lease_duration, renew_deadline, retry_period, answer_validity: retry_period };
    let drift = Drift::parts_per_million(100_000).expect("a drift below 100 %");
    let timing =
        Timing::new(durations, drift).expect("the durations are valid under a drift of 10 %");
    let candidate = |starts: u64, off| CandidateConfig {
        timing,
        clock_start: Duration::from_secs(1_000 * starts),
        clock_rate: Rate::off_by(off),
        starts_at: Moment::START + Duration::from_secs(starts),
        stays_on_loss: true,
        asks: true,
        keeps_state: false,
        poll_interval: Duration::from_millis(500),
        push: Push::default(),
        preference: Preference::FIRST,
        command: None,
    };
    let at = Moment::START
        + lease_duration
        + Duration::from_millis(retry_period.as_secs() * 1_000 * seed / RUNS);
    let partition =
        FaultKind::Candidate(CandidateTarget::Leader, CandidateFault::Link(LinkFault::PARTITION));
    Scenario {
        seed,
        candidates: vec![candidate(0, -off), candidate(1, off)],
        store: StoreConfig::Record(RecordConfig {
            whole_seconds: false,
            checks_version: true,
            numbering: Numbering::Unique,
        }),
        leaders_watch: true,
        latency: (Duration::from_micros(10), Duration::from_micros(100)),
        faults: vec![Fault { at, duration: lease_duration * 2, kind: partition }],
        end: at + lease_duration * 3,
    }
}
