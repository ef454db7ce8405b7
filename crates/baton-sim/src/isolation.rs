//! Bends a world so that a session may end as early as exclusion allows for.
//!
//! Pure. Start with [`isolate`]. A claim is most at risk where four things meet:
//!
//! * The candidates' clocks are fast and the servers' are slow, so few pings come in a lag.
//! * The drift allowed for is small, so little of a session is held back for it.
//! * A heartbeat is hardly older than a lag when the next is sent.
//! * The pings to the leader's server slow down, and both are cut off before an answer arrives.

use crate::clock::{Moment, Rate};
use crate::rng::Rng;
use crate::scenario::{
    Candidate, CandidateFault, CandidateTarget, EnsembleConfig, Fault, FaultKind, LinkFault,
    Scenario, ServerFault, ServerTarget, StoreConfig,
};
use baton_election::queue::timing::SessionTiming;
use baton_election::timing::{Drift, Durations, Timing};
use std::time::Duration;

/// Messages are quick beside these windows, which are parts of a thousand of a tick.
const LATENCY: (Duration, Duration) = (Duration::from_micros(10), Duration::from_micros(100));

/// Makes `scenario` such a world, if it has an ensemble that suits its durations.
pub(crate) fn isolate(rng: &mut Rng, scenario: &mut Scenario) {
    let StoreConfig::Ensemble(config) = &mut scenario.store else { return };
    let off = rng.pick(&[5_000, 10_000, 20_000]);
    let Some(timing) = timing(rng, &scenario.candidates, config.tick, off) else { return };
    let off = i32::try_from(off).expect("it is small");
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
    // No clock is bent beyond the drift that is allowed for now.
    scenario.faults.retain(|fault| {
        !matches!(fault.kind, FaultKind::Candidate(_, CandidateFault::ClockRate(_)))
    });
    // A calm follows, as after all faults.
    let session = timing.lease_duration();
    let isolation = faults(rng, tick, session, scenario.end);
    scenario.end = isolation[1].end() + session * 4;
    scenario.faults.extend(isolation);
}

/// Durations for a session as long as theirs, with a retry period near ¾ tick.
fn timing(rng: &mut Rng, candidates: &[Candidate], tick: Duration, off: u32) -> Option<Timing> {
    let lease_duration = candidates.first()?.timing.lease_duration();
    let drift = Drift::parts_per_million(off)?;
    let shortest = tick * 3 / 4;
    let retry_period = rng.duration_between(shortest, drift.most_of_ours(shortest)) + LATENCY.1 * 3;
    // The session ends a claim, and not the renew deadline.
    let renew_deadline =
        drift.least_of_ours(lease_duration).saturating_sub(Duration::from_millis(1));
    let answer_validity = Duration::from_millis(20);
    let durations = Durations { lease_duration, renew_deadline, retry_period, answer_validity };
    let timing = Timing::new(durations, drift).ok()?;
    SessionTiming::new(timing, tick).is_ok().then_some(timing)
}

/// The pings slow down, then the leader and its server are cut off.
fn faults(rng: &mut Rng, tick: Duration, session: Duration, end: Moment) -> [Fault; 3] {
    let slow_at = end + rng.duration_between(Duration::ZERO, tick * 2);
    let takes = rng.pick(&[tick / 4, tick / 4, tick / 8]);
    // The first slow ping starts within half a tick, and its answer takes as long again.
    let cut_at = slow_at + rng.duration_between(takes, takes * 2 + tick / 2);
    let duration = session + tick * 2;
    let server = |at, server_fault| Fault {
        at,
        duration,
        kind: FaultKind::Server(ServerTarget::OfElectionLeader, server_fault),
    };
    let link =
        FaultKind::Candidate(CandidateTarget::Leader, CandidateFault::Link(LinkFault::PARTITION));
    [
        server(slow_at, ServerFault::SlowPings(takes)),
        server(cut_at, ServerFault::Partition),
        Fault { at: cut_at, duration, kind: link },
    ]
}
