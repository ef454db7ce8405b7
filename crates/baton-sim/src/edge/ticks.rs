//! Checks how slowly the servers of an ensemble may tick before exclusion fails.
//!
//! A server reports which sessions it heard from in its answer to a ping, one every half tick by
//! the clock of the ensemble's leader. A claim rests on an answer that is older by a lag on the
//! candidate's clock: ¾ of the configured tick, times (1 + ρ) / (1 − ρ) for a drift ρ. If half a
//! tick takes longer than a lag, the last ping may have preceded that answer, and the session may
//! end before the claim. A session ends earliest with the servers' clocks fast by x and the
//! candidate's slow by x. Then the limit is 3/2 (1 + ρ) / (1 − ρ) (1 + x) / (1 − x) times the
//! configured tick. Start with [`limit_matches_theory`]. In `pings.rs` the clocks are off the other
//! way.

use crate::checkers::Violation;
use crate::clock::{Moment, Rate};
use crate::run::run_checked;
use crate::scenario::{
    CandidateConfig, CandidateFault, CandidateTarget, EnsembleConfig, Fault, FaultKind, LinkFault,
    Push, Scenario, ServerFault, ServerTarget, StoreConfig,
};
use baton_election::record::preference::Preference;
use baton_election::timing::{Drift, Durations, Timing};
use std::time::Duration;

/// How many scenarios are run on each side of the limit: a ping, a transaction, and the end of a
/// session must coincide in one.
const RUNS: u64 = 2_000;
/// The tick that candidates are configured with.
const CONFIGURED_TICK: Duration = Duration::from_secs(2);
/// A tick beyond the limit, long enough for a claim to outlast its session visibly.
const BEYOND: Duration = Duration::from_secs(8);
/// How far off each clock is, and the allowed drift, in ppm.
const DRIFT_PPM: u32 = 100_000;

/// Whether the limit is where theory puts it. Prints what was observed.
pub(super) fn limit_matches_theory() -> bool {
    let stretched = |tick: Duration| tick * (1_000_000 + DRIFT_PPM) / (1_000_000 - DRIFT_PPM);
    let limit = stretched(stretched(CONFIGURED_TICK * 3 / 2));
    let [as_configured, at] = [CONFIGURED_TICK, limit].map(|tick| first_failure(tick, |_| true));
    let beyond = first_failure(BEYOND, Violation::breaks_exclusion);
    eprintln!(
        "prove: configured tick {CONFIGURED_TICK:?}, first of {RUNS} seeds to fail: \
         {as_configured:?} with that tick; {at:?} at the limit, {limit:?}; first to overlap with \
         {BEYOND:?}: {beyond:?}"
    );
    as_configured.is_none() && at.is_none() && beyond.is_some()
}

/// The first seed with a violation that `counts`. Beyond the limit that is a claim whose znode is
/// gone, so that another candidate leads as soon as it learns of that.
fn first_failure(tick: Duration, counts: impl Fn(&Violation) -> bool) -> Option<u64> {
    (0..RUNS).find(|seed| {
        run_checked(scenario(*seed, tick)).violation.is_some_and(|violation| counts(&violation))
    })
}

/// A slow leader and its server are partitioned at some moment between two pings and two
/// transactions.
fn scenario(seed: u64, tick: Duration) -> Scenario {
    let [lease_duration, renew_deadline, retry_period] =
        [15_000, 12_200, 615].map(Duration::from_millis);
    let durations =
        Durations { lease_duration, renew_deadline, retry_period, answer_validity: retry_period };
    let drift = Drift::parts_per_million(DRIFT_PPM).expect("a drift below 100 %");
    let off = i32::try_from(DRIFT_PPM).expect("a drift below 100 %");
    let timing = Timing::new(durations, drift).expect("12.2 s × 1.1 is less than 15 s × 0.9");
    let candidate = |number: u64| CandidateConfig {
        timing,
        clock_start: Duration::from_secs(1_000 * number),
        clock_rate: Rate::off_by(-off),
        starts_at: Moment::START + Duration::from_secs(1 + number),
        stays_on_loss: true,
        asks: true,
        keeps_state: false,
        poll_interval: retry_period,
        push: Push::default(),
        preference: Preference::FIRST,
        command: None,
    };
    // A part of `of` that differs for each seed. Another prime gives another order.
    let part = |of: Duration, prime: u64| {
        Duration::from_nanos(
            u64::try_from(of.as_nanos()).expect("some seconds") / RUNS * (seed * prime % RUNS),
        )
    };
    let config = EnsembleConfig {
        clock_start: part(tick, 7),
        clock_rates: vec![Rate::off_by(off); 3],
        tick,
        configured_tick: CONFIGURED_TICK,
        sync_limit: 5,
        latency: (Duration::from_micros(10), Duration::from_micros(100)),
    };
    let at = Moment::START + lease_duration + part(tick * 3, 1);
    let fault = |kind| Fault { at, duration: lease_duration * 2, kind };
    Scenario {
        seed,
        candidates: vec![candidate(0), candidate(1)],
        store: StoreConfig::Ensemble(config),
        leaders_watch: true,
        latency: (Duration::from_micros(10), Duration::from_micros(100)),
        faults: vec![
            fault(FaultKind::Server(ServerTarget::OfElectionLeader, ServerFault::Partition)),
            fault(FaultKind::Candidate(
                CandidateTarget::Leader,
                CandidateFault::Link(LinkFault::PARTITION),
            )),
        ],
        end: at + lease_duration * 2,
    }
}
