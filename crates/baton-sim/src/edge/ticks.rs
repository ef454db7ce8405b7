//! How slowly the servers of an ensemble may tick: exclusion holds as far as theory says, and no farther.
//!
//! A server tells the ensemble's leader which sessions it heard from with the answer to a ping, one
//! each half tick by that leader's clock. A claim rests on an answer that is older by a lag on the
//! candidate's clock: ¾ of the tick that candidates were told, times (1 + ρ) / (1 − ρ) for a drift
//! ρ. If half a tick takes longer than a lag, the last ping may have come before that answer, and
//! the session may end before the claim. A session ends earliest with the servers' clocks fast by x
//! and the candidate's as slow. Then the edge is a tick of 3/2 (1 + ρ) / (1 − ρ) (1 + x) / (1 − x)
//! of the told one. Start with [`hold`]. The clocks are off the other way in `pings.rs`.

use crate::checkers::Violation;
use crate::clock::{Moment, Rate};
use crate::hunt::run_checked;
use crate::scenario::{
    CandidateConfig, CandidateFault, CandidateTarget, EnsembleConfig, Fault, FaultKind, LinkFault,
    Scenario, ServerFault, ServerTarget, StoreConfig,
};
use baton_election::timing::{Drift, Durations, Timing};
use std::time::Duration;

/// How many worlds are looked at on each side of the edge: a ping, a transaction and the end of a session have to meet in one.
const RUNS: u64 = 2_000;
/// FaultKind candidates are told that servers tick in.
const CONFIGURED_TICK: Duration = Duration::from_secs(2);
/// Beyond the edge, and far enough for a claim to be seen to outlast its session.
const BEYOND: Duration = Duration::from_secs(8);
/// How far off each clock is, in parts per million, and may be.
const DRIFT_PPM: u32 = 100_000;

/// Whether the edge is where theory puts it; tells kind was seen.
pub(super) fn hold() -> bool {
    let stretched = |tick: Duration| tick * (1_000_000 + DRIFT_PPM) / (1_000_000 - DRIFT_PPM);
    let edge = stretched(stretched(CONFIGURED_TICK * 3 / 2));
    let [as_told, at] = [CONFIGURED_TICK, edge].map(|tick| first_failure(tick, |_| true));
    let beyond = first_failure(BEYOND, Violation::breaks_exclusion);
    eprintln!(
        "prove: servers that were said to tick every {CONFIGURED_TICK:?}, the first of {RUNS} worlds that fails: where they do, {as_told:?}; every \
         {edge:?}, where theory puts the edge, {at:?}; and the first that overlaps every {BEYOND:?}, {beyond:?}"
    );
    as_told.is_none() && at.is_none() && beyond.is_some()
}

/// The first world in which something goes wrong that `counts`: beyond the edge, that somebody holds a claim whose znode is gone,
/// so that another leads as soon as he hears of that.
fn first_failure(tick: Duration, counts: impl Fn(&Violation) -> bool) -> Option<u64> {
    (0..RUNS).find(|seed| {
        run_checked(scenario(*seed, tick)).violation.is_some_and(|violation| counts(&violation))
    })
}

/// A slow leader is cut off, and its server too, at some moment between two pings and two transactions.
fn scenario(seed: u64, tick: Duration) -> Scenario {
    let [lease_duration, renew_deadline, retry_period] =
        [15_000, 12_200, 615].map(Duration::from_millis);
    let durations =
        Durations { lease_duration, renew_deadline, retry_period, answer_validity: retry_period };
    let drift = Drift::parts_per_million(DRIFT_PPM).expect("less than the whole");
    let off = i32::try_from(DRIFT_PPM).expect("less than the whole");
    let timing = Timing::new(durations, drift).expect("12.2 s × 1.1 is less than 15 s × 0.9");
    let candidate = |number: u64| CandidateConfig {
        timing,
        clock_start: Duration::from_secs(1_000 * number),
        clock_rate: Rate::off_by(-off),
        starts_at: Moment::START + Duration::from_secs(1 + number),
        stays_on_loss: true,
        poll_interval: retry_period,
    };
    // Each part of `of`, once in all worlds; another prime, another order.
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
