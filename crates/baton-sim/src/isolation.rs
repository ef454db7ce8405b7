//! Modifies a scenario so that a session may end as early as exclusion allows.
//!
//! Pure. Start with [`isolate`]. A claim is most at risk where four conditions meet:
//!
//! * The candidates' clocks are fast and the servers' are slow, so few pings fit into a lag.
//! * The allowed drift is small, so little of a session is held back for it.
//! * A heartbeat is barely older than a lag when the next one is sent.
//! * The pings to the leader's server slow down, and both are partitioned before an answer arrives.

use crate::clock::{Moment, Rate};
use crate::rng::Rng;
use crate::scenario::{
    CandidateConfig, CandidateFault, CandidateTarget, EnsembleConfig, Fault, FaultKind, LinkFault,
    Scenario, ServerFault, ServerTarget, StoreConfig,
};
use baton_election::queue::timing::SessionTiming;
use baton_election::timing::{Drift, Durations, Timing};
use std::time::Duration;

/// Much shorter than the relevant windows, which are a few thousandths of a tick.
const LATENCY: (Duration, Duration) = (Duration::from_micros(10), Duration::from_micros(100));

/// Modifies `scenario` if it has an ensemble and if durations near the limit are valid for it.
pub(crate) fn isolate(rng: &mut Rng, scenario: &mut Scenario) {
    let StoreConfig::Ensemble(config) = &mut scenario.store else { return };
    let off = rng.pick(&[5_000, 10_000, 20_000]);
    let Some(timing) = timing(rng, &scenario.candidates, config.tick, off) else { return };
    let off = i32::try_from(off).expect("a small number");
    for candidate in &mut scenario.candidates {
        candidate.timing = timing;
        candidate.clock_rate = Rate::off_by(off);
        candidate.poll_interval = timing.retry_period();
    }
    let clock_rates = vec![Rate::off_by(-off); config.clock_rates.len()];
    let tick = config.tick;
    *config =
        EnsembleConfig { clock_rates, configured_tick: tick, latency: LATENCY, ..config.clone() };
    scenario.latency = LATENCY;
    // A change of rate could exceed the drift that is now allowed.
    scenario.faults.retain(|fault| {
        !matches!(fault.kind, FaultKind::Candidate(_, CandidateFault::ClockRate(_)))
    });
    // A calm period follows, as after all faults.
    let session = timing.lease_duration();
    let isolation = faults(rng, tick, session, scenario.end);
    scenario.end = isolation[1].end() + session * 4;
    scenario.faults.extend(isolation);
}

/// Durations for a session of the same length, with a retry period barely above one lag.
fn timing(
    rng: &mut Rng,
    candidates: &[CandidateConfig],
    tick: Duration,
    off: u32,
) -> Option<Timing> {
    let lease_duration = candidates.first()?.timing.lease_duration();
    let drift = Drift::parts_per_million(off)?;
    let shortest = tick * 3 / 4;
    let retry_period = rng.duration_between(shortest, drift.max_elapsed(shortest)) + LATENCY.1 * 3;
    // The session, not the renew deadline, must end the claim.
    let renew_deadline = drift.min_elapsed(lease_duration).saturating_sub(Duration::from_millis(1));
    let answer_validity = Duration::from_millis(20);
    let durations = Durations { lease_duration, renew_deadline, retry_period, answer_validity };
    let timing = Timing::new(durations, drift).ok()?;
    SessionTiming::new(timing, tick).is_ok().then_some(timing)
}

/// The pings slow down, then the leader and its server are partitioned.
fn faults(rng: &mut Rng, tick: Duration, session: Duration, end: Moment) -> [Fault; 3] {
    let slow_at = end + rng.duration_between(Duration::ZERO, tick * 2);
    let ping_time = rng.pick(&[tick / 4, tick / 4, tick / 8]);
    // The first slow ping starts within half a tick, and its answer takes as long again.
    let partitioned_at = slow_at + rng.duration_between(ping_time, ping_time * 2 + tick / 2);
    let duration = session + tick * 2;
    let server = |at, server_fault| Fault {
        at,
        duration,
        kind: FaultKind::Server(ServerTarget::OfElectionLeader, server_fault),
    };
    let link =
        FaultKind::Candidate(CandidateTarget::Leader, CandidateFault::Link(LinkFault::PARTITION));
    [
        server(slow_at, ServerFault::SlowPings(ping_time)),
        server(partitioned_at, ServerFault::Partition),
        Fault { at: partitioned_at, duration, kind: link },
    ]
}
