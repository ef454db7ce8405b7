//! Bends a world so that a session may end as early as exclusion allows for.
//!
//! Pure. Start with [`isolate`]. A claim is most at risk where four things meet:
//!
//! * The candidates' clocks are fast and the servers' are slow, so few pings come in a lag.
//! * The drift allowed for is small, so little of a session is held back for it.
//! * A heartbeat is hardly older than a lag when the next is sent.
//! * The pings to the leader's server slow down, and both are cut off before an answer arrives.

use crate::clock::{Moment, Rate};
use crate::rng::Chance;
use crate::scenario::{
    Candidate, EnsembleKind, Fault, Harm, Mishap, Setup, StoreKind, Trouble, What, Which, Whom,
};
use baton_election::queue::timing::SessionTiming;
use baton_election::timing::{Drift, Durations, Timing};
use std::time::Duration;

/// Messages are quick beside these windows, which are parts of a thousand of a tick.
const LATENCY: (Duration, Duration) = (Duration::from_micros(10), Duration::from_micros(100));

/// Makes `setup` such a world, if it has an ensemble that suits its durations.
pub(crate) fn isolate(chance: &mut Chance, setup: &mut Setup) {
    let StoreKind::Ensemble(kind) = &mut setup.store else { return };
    let off = chance.pick(&[5_000, 10_000, 20_000]);
    let Some(timing) = timing(chance, &setup.candidates, kind.tick, off) else { return };
    let off = i32::try_from(off).expect("it is small");
    for candidate in &mut setup.candidates {
        candidate.timing = timing;
        candidate.clock_rate = Rate::off_by(off);
        candidate.asks_every = timing.retry_period();
    }
    let rates = vec![Rate::off_by(-off); kind.rates.len()];
    let tick = kind.tick;
    *kind = EnsembleKind { rates, told_tick: tick, latency: LATENCY, ..kind.clone() };
    setup.latency = LATENCY;
    // No clock is bent beyond the drift that is allowed for now.
    setup.faults.retain(|fault| !matches!(fault.what, What::Candidate(_, Harm::Bend(_))));
    // A calm follows, as after all faults.
    let session = timing.lease_duration();
    let isolation = faults(chance, tick, session, setup.end);
    setup.end = isolation[1].end() + session * 4;
    setup.faults.extend(isolation);
}

/// Durations for a session as long as theirs, with a retry period near ¾ tick.
fn timing(
    chance: &mut Chance,
    candidates: &[Candidate],
    tick: Duration,
    off: u32,
) -> Option<Timing> {
    let lease_duration = candidates.first()?.timing.lease_duration();
    let drift = Drift::parts_per_million(off)?;
    let shortest = tick * 3 / 4;
    let retry_period = chance.lasting(shortest, drift.max_elapsed(shortest)) + LATENCY.1 * 3;
    // The session ends a claim, and not the renew deadline.
    let renew_deadline = drift.min_elapsed(lease_duration).saturating_sub(Duration::from_millis(1));
    let answer_validity = Duration::from_millis(20);
    let durations = Durations { lease_duration, renew_deadline, retry_period, answer_validity };
    let timing = Timing::new(durations, drift).ok()?;
    SessionTiming::new(timing, tick).is_ok().then_some(timing)
}

/// The pings slow down, then the leader and its server are cut off.
fn faults(chance: &mut Chance, tick: Duration, session: Duration, end: Moment) -> [Fault; 3] {
    let slow_at = end + chance.lasting(Duration::ZERO, tick * 2);
    let takes = chance.pick(&[tick / 4, tick / 4, tick / 8]);
    // The first slow ping starts within half a tick, and its answer takes as long again.
    let cut_at = slow_at + chance.lasting(takes, takes * 2 + tick / 2);
    let lasts = session + tick * 2;
    let server = |at, mishap| Fault { at, lasts, what: What::Server(Which::OfLeader, mishap) };
    let link = What::Candidate(Whom::Leader, Harm::Link(Trouble::CUT));
    [
        server(slow_at, Mishap::SlowPings(takes)),
        server(cut_at, Mishap::Cut),
        Fault { at: cut_at, lasts, what: link },
    ]
}
