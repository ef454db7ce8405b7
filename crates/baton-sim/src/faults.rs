//! Draws a world from a seed: who takes part, what is drawn out of which hat, and storms with calm between them.
//!
//! Pure. Each seed leaves most kinds of trouble out (a swarm), since what never happens lets other things happen more
//! often. Half of what hits a candidate hits whoever leads. Durations lie at the edge of what is accepted as
//! often as not, and clocks at the edge of the drift.

use crate::clock::{Moment, Rate};
use crate::isolation::isolate;
use crate::rng::{Chance, nanos};
use crate::scenario::{
    Candidate, Deed, EnsembleKind, Fault, Harm, Mishap, Outage, RecordKind, Setup, StoreKind,
    Trouble, What, Which, Whom,
};
use baton_election::queue::timing::SessionTiming;
use baton_election::timing::{Drift, Durations, Timing};
use std::time::Duration;

/// What may happen in a world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Climate {
    /// All that exclusion is promised under.
    Assumed,
    /// Strangers delete and overwrite the record too, and stores come back from backups.
    Strangers,
}

/// Where the election is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// In one record, as a Lease and a file have it.
    InRecord,
    /// In an ensemble of `ZooKeeper` servers.
    InEnsemble,
}

/// The world of `seed`.
pub fn draw(seed: u64, held: Held, climate: Climate) -> Setup {
    let mut chance = Chance::new(seed);
    let drift = chance.pick(&[20_000, 100_000, 100_000, 300_000]);
    let scale = Duration::from_millis(chance.pick(&[1_000, 1_500, 3_000, 15_000, 15_000, 60_000]));
    let mut latency = Duration::from_micros(chance.pick(&[100, 1_000, 10_000]));
    let (common, store) = match held {
        Held::InRecord => (timing(&mut chance, scale, drift), record(&mut chance)),
        Held::InEnsemble => {
            latency = latency.min(scale / 400);
            let (timing, kind) = ensemble(&mut chance, scale, drift, latency);
            (timing, StoreKind::Ensemble(kind))
        }
    };
    let mixed = held == Held::InRecord && chance.in_thousand(150);
    let stays = chance.in_thousand(400);
    let number = chance.pick(&[1, 2, 2, 3, 3, 3, 4, 5]);
    let candidates: Vec<_> = (0..number)
        .map(|_| {
            let other = scale / chance.pick(&[1, 2, 3]);
            let timing = if mixed { timing(&mut chance, other, drift) } else { common };
            candidate(&mut chance, timing, drift, stays)
        })
        .collect();
    let tells_leaders = held == Held::InEnsemble || chance.in_thousand(700);
    let mut faults = Vec::new();
    let scale = scale.max(common.lease_duration());
    let mut end = Moment::START + scale;
    for _ in 0..chance.between(1, 3) {
        end = storm(
            &mut chance,
            &mut faults,
            end,
            Bounds { scale, latency, candidates: number, drift, held, climate },
        );
    }
    let seed = chance.draw();
    if held == Held::InRecord && chance.in_thousand(30) {
        end = edits(&mut chance, &mut faults, end, common, latency);
    }
    if held == Held::InEnsemble && chance.in_thousand(100) {
        let fault = blackout(&mut chance, scale, end);
        end = end.max(fault.end() + scale * 4);
        faults.push(fault);
    }
    if held == Held::InEnsemble && chance.in_thousand(100) {
        let at = Moment::START + chance.lasting(Duration::ZERO, end.since(Moment::START));
        let what = What::Stranger(Deed::Litter { is_numbered: chance.in_thousand(500) });
        faults.push(Fault { at, lasts: Duration::ZERO, what });
    }
    let latency = (latency / 10, latency);
    let mut setup = Setup { seed, candidates, store, tells_leaders, latency, faults, end };
    if held == Held::InEnsemble && chance.in_thousand(200) {
        isolate(&mut chance, &mut setup);
    }
    setup.faults.sort_by_key(|fault| fault.at);
    setup
}

/// Durations around a lease of `lease` that are accepted under `drift`, often only just.
fn timing(chance: &mut Chance, lease: Duration, drift: u32) -> Timing {
    let drift = Drift::parts_per_million(drift).expect("less than the whole");
    let usual = Timing::suggestion(lease, drift);
    let mut durations = usual;
    if chance.in_thousand(500) {
        durations.renew_deadline = longest_deadline(usual.lease_duration, drift);
    }
    durations.retry_period = durations.renew_deadline / chance.pick(&[4, 5, 5, 5, 10]);
    let longest_answer = durations.renew_deadline.saturating_sub(durations.retry_period) / 3 * 2;
    let short = Duration::from_millis(20);
    durations.answer_validity =
        chance.pick(&[usual.retry_period.min(longest_answer), longest_answer, short]);
    Timing::new(durations, drift)
        .unwrap_or_else(|_| Timing::new(usual, drift).expect("what is suggested passes"))
}

fn record(chance: &mut Chance) -> StoreKind {
    StoreKind::Record(RecordKind { whole_seconds: chance.in_thousand(500), compares: true })
}

/// Servers, and durations around a session of `scale` that they let anybody lead with.
fn ensemble(
    chance: &mut Chance,
    scale: Duration,
    drift: u32,
    latency: Duration,
) -> (Timing, EnsembleKind) {
    let allowed = Drift::parts_per_million(drift).expect("less than the whole");
    let tick = scale / chance.pick(&[5, 8, 8, 12]);
    let told_tick = tick * chance.pick(&[1, 1, 1, 2]);
    let drawn = timing(chance, scale, drift);
    let timing = if SessionTiming::new(drawn, told_tick).is_ok() {
        drawn
    } else {
        Timing::new(SessionTiming::suggestion(scale, allowed, told_tick), allowed)
            .expect("what is suggested passes")
    };
    let rates = (0..chance.pick(&[1, 3, 3, 3, 5])).map(|_| rate(chance, drift)).collect();
    // No shorter than they can grant.
    let tick = tick.max(timing.lease_duration() / 20);
    let shows = chance.lasting(Duration::ZERO, Duration::from_hours(1_000));
    let sync_limit = chance.pick(&[2, 5, 5, 10]);
    let kind = EnsembleKind {
        shows,
        rates,
        tick,
        told_tick: told_tick.max(tick),
        sync_limit,
        latency: (latency / 10, latency),
    };
    (timing, kind)
}

/// The longest renew deadline, to the millisecond, that is accepted with `lease_duration`.
fn longest_deadline(lease_duration: Duration, drift: Drift) -> Duration {
    let passes = |milliseconds| {
        let renew_deadline = Duration::from_millis(milliseconds);
        let (retry_period, answer_validity) = (renew_deadline / 5, Duration::from_millis(1));
        let durations = Durations { lease_duration, renew_deadline, retry_period, answer_validity };
        Timing::new(durations, drift).is_ok()
    };
    let (mut passing, mut failing) = (0, nanos(lease_duration) / 1_000_000);
    while failing - passing > 1 {
        let middle = u64::midpoint(passing, failing);
        // Below some length there is no room for three tries: that is no edge that is looked for here.
        if passes(middle) || middle < nanos(lease_duration) / 4_000_000 {
            passing = middle;
        } else {
            failing = middle;
        }
    }
    Duration::from_millis(passing)
}

fn candidate(chance: &mut Chance, timing: Timing, drift: u32, stays: bool) -> Candidate {
    let most = timing.answer_validity().max(timing.retry_period());
    Candidate {
        timing,
        clock_shows: chance.lasting(Duration::ZERO, Duration::from_hours(1_000)),
        clock_rate: rate(chance, drift),
        starts: Moment::START + chance.of_any_size(timing.lease_duration()),
        stays,
        asks_every: chance.lasting(most / 2, most),
    }
}

/// A rate within the drift, most often at one of its edges.
fn rate(chance: &mut Chance, drift: u32) -> Rate {
    let drift = i32::try_from(drift).expect("less than the whole");
    let part = i32::try_from(chance.between(0, 1_000)).expect("it is small");
    Rate::off_by(chance.pick(&[
        -drift,
        -drift,
        drift,
        drift,
        0,
        drift / 1_000 * part,
        -(drift / 1_000 * part),
    ]))
}

/// What a storm keeps to.
#[derive(Clone, Copy)]
struct Bounds {
    scale: Duration,
    latency: Duration,
    candidates: usize,
    drift: u32,
    held: Held,
    climate: Climate,
}

/// Some leases of bad weather and the calm after them; returns when that is over.
fn storm(chance: &mut Chance, faults: &mut Vec<Fault>, begins: Moment, bounds: Bounds) -> Moment {
    let Bounds { scale, latency, candidates, drift, held, climate } = bounds;
    let length = chance.of_any_size(scale * 5);
    let kinds = [chance.draw(), chance.draw(), chance.draw()].map(|drawn| drawn % 4);
    let (mut over, mut at) = (begins + length, begins);
    for _ in 0..chance.between(1, 6) {
        // What meets the messages that the last has set off finds other faults than what comes by itself.
        let follows = chance.in_thousand(200);
        at = if follows {
            at + chance.lasting(Duration::ZERO, latency * 4)
        } else {
            begins + chance.lasting(Duration::ZERO, length)
        };
        let what = match chance.pick(&kinds) {
            0 | 1 => {
                let whom = if chance.in_thousand(500) {
                    Whom::Leader
                } else {
                    Whom::Candidate(chance.index(candidates))
                };
                What::Candidate(whom, suited(harm(chance, scale, drift), held))
            }
            3 if held == Held::InEnsemble
                && climate == Climate::Strangers
                && chance.in_thousand(300) =>
            {
                What::Store(Outage::Restored(chance.index(30)))
            }
            3 if held == Held::InEnsemble && climate == Climate::Strangers => {
                What::Stranger(Deed::Delete)
            }
            _ if held == Held::InEnsemble => mishap(chance),
            2 => What::Store(outage(chance, scale)),
            _ => deed(chance, scale, climate),
        };
        let fault = Fault { at, lasts: lasting(chance, what, scale), what };
        over = over.max(fault.end());
        faults.push(fault);
    }
    // Long enough for a leader, for a settled election, and for some time in which nothing may change. Ensembles settle late,
    // so that costs much, and not each of them has it.
    let calm = if held == Held::InEnsemble { chance.pick(&[4, 4, 4, 16]) } else { 4 };
    over + scale * calm
}

/// A stranger edits the record again and again during a calm, with gaps in which two round trips
/// fit. No leader may lose its term by that. Returns when it is over, and all has settled.
fn edits(
    chance: &mut Chance,
    faults: &mut Vec<Fault>,
    begins: Moment,
    timing: Timing,
    latency: Duration,
) -> Moment {
    let round_trip = latency * 2;
    // More than a thousand edits would cost time and show nothing new.
    let gap = chance.lasting(round_trip * 2, round_trip * 8).max(timing.lease_duration() / 1_000);
    let over = begins + timing.lease_duration();
    let mut at = begins;
    while at < over {
        faults.push(Fault { at, lasts: Duration::ZERO, what: What::Stranger(Deed::Label) });
        at = at + gap;
    }
    over + timing.lease_duration()
}

/// For as long as a session or longer no majority of the servers can be heard.
fn blackout(chance: &mut Chance, scale: Duration, end: Moment) -> Fault {
    let at = Moment::START + chance.lasting(scale, end.since(Moment::START));
    let mishap = chance.pick(&[Mishap::Cut, Mishap::Still, Mishap::Down, Mishap::Down]);
    // The first of three or five may be spared.
    let what = What::Server(Which::From(chance.pick(&[0, 0, 1])), mishap);
    Fault { at, lasts: chance.lasting(scale / 2, scale * 4), what }
}

fn lasting(chance: &mut Chance, what: What, scale: Duration) -> Duration {
    match what {
        What::Stranger(_)
        | What::Candidate(_, Harm::Bend(_))
        | What::Store(Outage::Restored(_)) => Duration::ZERO,
        // One in ten does not come back.
        What::Candidate(_, Harm::Kill | Harm::Stop) if chance.in_thousand(100) => Duration::ZERO,
        What::Candidate(..) | What::Store(_) | What::Server(..) => {
            chance.of_any_size(scale * 2).max(Duration::from_micros(1))
        }
    }
}

fn harm(chance: &mut Chance, scale: Duration, drift: u32) -> Harm {
    let longest = scale / chance.pick(&[1, 10]);
    match chance.between(0, 12) {
        0 | 1 => Harm::Pause,
        2 => Harm::Starve(longest),
        3 => Harm::Kill,
        4 => Harm::Stop,
        5 => Harm::Leave,
        6 => Harm::Unasked,
        7 => Harm::Deaf,
        8 => Harm::Bend(rate(chance, drift)),
        9 => Harm::Link(Trouble::CUT),
        10 => Harm::Lag(scale),
        _ => Harm::Link(trouble(chance, scale)),
    }
}

fn trouble(chance: &mut Chance, scale: Duration) -> Trouble {
    let mut cases = || chance.pick(&[0, 0, 0, 300, 600, 1_000]);
    let (requests_lost, replies_lost, late, broken, twice) =
        (cases(), cases(), cases(), cases(), cases());
    Trouble { requests_lost, replies_lost, late, broken, twice, longest: scale * 2 }
}

fn outage(chance: &mut Chance, scale: Duration) -> Outage {
    match chance.between(0, 7) {
        0 => Outage::Refuses,
        1 => Outage::Hangs,
        2 => Outage::Dies,
        3 => Outage::Slow(chance.of_any_size(scale)),
        4 | 5 => Outage::Stale,
        6 => Outage::Shortens,
        _ => Outage::Idle,
    }
}

/// Of what troubles messages, what a connection to an ensemble can show: its news come in order with its replies.
fn suited(harm: Harm, held: Held) -> Harm {
    match (harm, held) {
        (Harm::Deaf | Harm::Lag(_), Held::InEnsemble) => Harm::Pause,
        (Harm::Link(trouble), Held::InEnsemble) => Harm::Link(Trouble { twice: 0, ..trouble }),
        (harm, Held::InRecord | Held::InEnsemble) => harm,
    }
}

fn mishap(chance: &mut Chance) -> What {
    let number = chance.index(5);
    let which = chance.pick(&[
        Which::OfLeader,
        Which::OfLeader,
        Which::Leading,
        Which::Leading,
        Which::Server(number),
    ]);
    What::Server(which, chance.pick(&[Mishap::Cut, Mishap::Cut, Mishap::Still, Mishap::Down]))
}

/// What is done to the record from outside.
fn deed(chance: &mut Chance, scale: Duration, climate: Climate) -> What {
    let last = match climate {
        Climate::Assumed => 1,
        Climate::Strangers => 6,
    };
    What::Stranger(match chance.between(0, last) {
        0 => Deed::Label,
        1 => Deed::Rumour,
        2 | 3 => Deed::Delete,
        4 if chance.in_thousand(500) => return What::Store(Outage::Restored(chance.index(30))),
        4 => Deed::Wipe,
        5 => Deed::Remake,
        _ => Deed::Seize(chance.of_any_size(scale)),
    })
}
