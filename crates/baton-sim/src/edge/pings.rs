//! How long pings between servers may take: exclusion holds as far as theory says, and no farther.
//!
//! With each ping, one each half tick, a server tells the ensemble's leader which sessions it heard
//! from. Say one ping takes no time, the next one takes q, and a candidate is heard just after the
//! first. Then the leader hears of it half a tick and q later. A claim rests on an answer that is
//! older by ¾ tick · (1 + ρ) / (1 − ρ) on the candidate's clock. With that clock fast by ρ and the
//! servers' as slow, this is long enough up to q = ¼ tick / (1 − ρ): a quarter of a tick on the
//! leader's clock. Start with [`hold`].

use crate::checkers::Violation;
use crate::clock::{Moment, Rate};
use crate::hunt::judge;
use crate::rng::Chance;
use crate::scenario::{
    Candidate, EnsembleKind, Fault, Harm, Mishap, Setup, StoreKind, Trouble, What, Which, Whom,
};
use baton_election::timing::{Drift, Durations, Timing};
use std::time::Duration;

/// How many worlds are looked at on each side of the edge.
const WORLDS: u64 = 20_000;
const TICK: Duration = Duration::from_secs(2);
/// How far off each clock is, in parts per million, and may be. A larger drift holds back more of a
/// session than an untold answer can cost.
const OFF: u32 = 20_000;
/// Beyond the edge, and far enough for a claim to be seen to outlast its session.
const BEYOND: Duration = Duration::from_secs(1);

/// Whether the edge is where theory puts it; tells what was seen.
pub(super) fn hold() -> bool {
    let edge = TICK / 4 * 1_000_000 / (1_000_000 - OFF);
    let [as_assumed, at] = [TICK / 4, edge].map(|takes| first_failure(takes, |_| true));
    let beyond = first_failure(BEYOND, Violation::is_of_exclusion);
    eprintln!(
        "prove: servers that tick every {TICK:?}, the first of {WORLDS} worlds that fails: with pings of {:?}, as assumed, \
         {as_assumed:?}; of {edge:?}, where theory puts the edge, {at:?}; and the first that overlaps with pings of {BEYOND:?}, {beyond:?}",
        TICK / 4
    );
    as_assumed.is_none() && at.is_none() && beyond.is_some()
}

/// The first world in which something goes wrong that `counts`.
fn first_failure(takes: Duration, counts: impl Fn(&Violation) -> bool) -> Option<u64> {
    (0..WORLDS)
        .find(|seed| judge(world(*seed, takes)).verdict.is_some_and(|violation| counts(&violation)))
}

/// Pings start to take `takes`, then a fast leader and its slow server are cut off.
fn world(seed: u64, takes: Duration) -> Setup {
    let mut chance = Chance::new(seed);
    let mut part = |of| chance.lasting(Duration::ZERO, of);
    let drift = Drift::parts_per_million(OFF).expect("less than the whole");
    let off = i32::try_from(OFF).expect("less than the whole");
    // From ¾ tick to the longest time between two pings, on the candidates' clocks, and beyond.
    let longest = drift.max_elapsed(TICK / 2 + takes);
    let slack = Duration::from_millis(10);
    let retry_period = TICK * 3 / 4 + part(longest.saturating_sub(TICK * 3 / 4) + slack);
    let timing = timing(retry_period, drift);
    let starts = Moment::START + TICK + part(TICK / 2);
    let candidate = |number: u64| Candidate {
        timing,
        clock_shows: Duration::from_secs(1_000 * number),
        clock_rate: Rate::off_by(off),
        starts: starts + Duration::from_secs(number),
        stays: true,
        asks_every: retry_period,
    };
    let latency = (Duration::from_micros(10), Duration::from_micros(100));
    let kind = EnsembleKind {
        shows: part(TICK),
        rates: vec![Rate::off_by(-off); 3],
        tick: TICK,
        told_tick: TICK,
        sync_limit: 5,
        latency,
    };
    let lease_duration = timing.lease_duration();
    let slow_at = Moment::START + lease_duration * 2 + part(TICK);
    let cut_at = slow_at + takes + part(TICK / 2);
    let server = |at, mishap| Fault {
        at,
        lasts: lease_duration * 2,
        what: What::Server(Which::OfLeader, mishap),
    };
    let link = What::Candidate(Whom::Leader, Harm::Link(Trouble::CUT));
    Setup {
        seed,
        candidates: vec![candidate(0), candidate(1)],
        store: StoreKind::Ensemble(kind),
        tells_leaders: true,
        latency,
        faults: vec![
            server(slow_at, Mishap::SlowPings(takes)),
            server(cut_at, Mishap::Cut),
            Fault { at: cut_at, lasts: lease_duration * 2, what: link },
        ],
        end: cut_at + lease_duration * 2,
    }
}

/// A session of 6 s, whose claims end with the session and not with the renew deadline.
fn timing(retry_period: Duration, drift: Drift) -> Timing {
    let [lease_duration, renew_deadline, answer_validity] =
        [6_000, 5_760, 20].map(Duration::from_millis);
    let durations = Durations { lease_duration, renew_deadline, retry_period, answer_validity };
    Timing::new(durations, drift).expect("5.76 s × 1.02 is less than 6 s × 0.98")
}
