//! Checks how long pings between servers may take before exclusion fails.
//!
//! With each ping, one every half tick, a server reports which sessions it heard from to the
//! ensemble's leader. Suppose one ping takes no time, the next one takes q, and a candidate is
//! heard just after the first. Then the leader learns of it half a tick and q later. A claim rests
//! on an answer that is older by ¾ tick · (1 + ρ) / (1 − ρ) on the candidate's clock. With that
//! clock fast by ρ and the servers' as slow, this suffices up to q = ¼ tick / (1 − ρ), which is a
//! quarter of a tick on the leader's clock. Start with [`limit_matches_theory`].

use crate::checkers::Violation;
use crate::clock::{Moment, Rate};
use crate::rng::Rng;
use crate::run::run_checked;
use crate::scenario::{
    CandidateConfig, CandidateFault, CandidateTarget, EnsembleConfig, Fault, FaultKind, LinkFault,
    Push, Scenario, ServerFault, ServerTarget, StoreConfig,
};
use baton_election::record::preference::Preference;
use baton_election::timing::{Drift, Durations, Timing};
use std::time::Duration;

/// How many scenarios are run on each side of the limit.
const RUNS: u64 = 20_000;
const TICK: Duration = Duration::from_secs(2);
/// How far off each clock is, and the allowed drift. A larger drift would reserve more of a session
/// than an unreported answer can cost.
const DRIFT_PPM: u32 = 20_000;
/// A ping time beyond the limit, long enough for a claim to outlast its session visibly.
const BEYOND: Duration = Duration::from_secs(1);

/// Whether the limit is where theory puts it. Prints what was observed.
pub(super) fn limit_matches_theory() -> bool {
    let limit = TICK / 4 * 1_000_000 / (1_000_000 - DRIFT_PPM);
    let [as_assumed, at] = [TICK / 4, limit].map(|ping_time| first_failure(ping_time, |_| true));
    let beyond = first_failure(BEYOND, Violation::breaks_exclusion);
    eprintln!(
        "prove: tick {TICK:?}, first of {RUNS} seeds to fail: {as_assumed:?} with pings of {:?}, \
         as assumed; {at:?} at the limit, {limit:?}; first to overlap with {BEYOND:?}: {beyond:?}",
        TICK / 4
    );
    as_assumed.is_none() && at.is_none() && beyond.is_some()
}

/// The first seed with a violation that `counts`.
fn first_failure(ping_time: Duration, counts: impl Fn(&Violation) -> bool) -> Option<u64> {
    (0..RUNS).find(|seed| {
        run_checked(scenario(*seed, ping_time))
            .violation
            .is_some_and(|violation| counts(&violation))
    })
}

/// Pings start to take `ping_time`, then a fast leader and its slow server are partitioned.
fn scenario(seed: u64, ping_time: Duration) -> Scenario {
    let mut rng = Rng::new(seed);
    let mut part = |of| rng.duration_between(Duration::ZERO, of);
    let drift = Drift::parts_per_million(DRIFT_PPM).expect("a drift below 100 %");
    let off = i32::try_from(DRIFT_PPM).expect("a drift below 100 %");
    // From ¾ tick to beyond the longest time between two pings, on the candidates' clocks.
    let longest = drift.max_elapsed(TICK / 2 + ping_time);
    let slack = Duration::from_millis(10);
    let retry_period = TICK * 3 / 4 + part(longest.saturating_sub(TICK * 3 / 4) + slack);
    let timing = timing(retry_period, drift);
    let starts = Moment::START + TICK + part(TICK / 2);
    let candidate = |number: u64| CandidateConfig {
        timing,
        clock_start: Duration::from_secs(1_000 * number),
        clock_rate: Rate::off_by(off),
        starts_at: starts + Duration::from_secs(number),
        stays_on_loss: true,
        asks: true,
        keeps_state: false,
        poll_interval: retry_period,
        push: Push::default(),
        preference: Preference::FIRST,
        command: None,
    };
    let latency = (Duration::from_micros(10), Duration::from_micros(100));
    let config = EnsembleConfig {
        clock_start: part(TICK),
        clock_rates: vec![Rate::off_by(-off); 3],
        tick: TICK,
        configured_tick: TICK,
        sync_limit: 5,
        latency,
    };
    let lease_duration = timing.lease_duration();
    let slow_at = Moment::START + lease_duration * 2 + part(TICK);
    let partitioned_at = slow_at + ping_time + part(TICK / 2);
    let server = |at, server_fault| Fault {
        at,
        duration: lease_duration * 2,
        kind: FaultKind::Server(ServerTarget::OfElectionLeader, server_fault),
    };
    let link =
        FaultKind::Candidate(CandidateTarget::Leader, CandidateFault::Link(LinkFault::PARTITION));
    Scenario {
        seed,
        candidates: vec![candidate(0), candidate(1)],
        store: StoreConfig::Ensemble(config),
        leaders_watch: true,
        latency,
        faults: vec![
            server(slow_at, ServerFault::SlowPings(ping_time)),
            server(partitioned_at, ServerFault::Partition),
            Fault { at: partitioned_at, duration: lease_duration * 2, kind: link },
        ],
        end: partitioned_at + lease_duration * 2,
    }
}

/// A session of 6 s, which ends its claims before the renew deadline does.
fn timing(retry_period: Duration, drift: Drift) -> Timing {
    let [lease_duration, renew_deadline, answer_validity] =
        [6_000, 5_760, 20].map(Duration::from_millis);
    let durations = Durations { lease_duration, renew_deadline, retry_period, answer_validity };
    Timing::new(durations, drift).expect("5.76 s × 1.02 is less than 6 s × 0.98")
}
