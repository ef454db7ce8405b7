//! The scenarios of the lab by name, with durations short enough to watch.
//!
//! Pure. Start with [`scenario`]. Each has its faults scripted except free play. The page holds
//! the questions (`page/scenarios.js`).

use baton_election::queue::timing::SessionTiming;
use baton_election::record::preference::Preference;
use baton_election::timing::{Drift, Timing};
use baton_sim::clock::{Moment, Rate};
use baton_sim::faults::scenario_for;
use baton_sim::rng::Rng;
use baton_sim::scenario::{
    CandidateConfig, CandidateFault, CandidateTarget, EnsembleConfig, Fault, FaultKind, LinkFault,
    Numbering, Push, RecordConfig, Scenario, StoreConfig, StoreFault,
};
use std::time::Duration;

/// The session timeout and lease duration.
const LEASE: Duration = Duration::from_secs(6);
/// The servers' tick.
const TICK: Duration = Duration::from_millis(500);
/// Messages take this long, so that a person can follow them.
const LATENCY: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(40));
const SERVER_LATENCY: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(5));
/// The leader is elected and every candidate follows by then.
const CALM: Duration = Duration::from_secs(10);
/// How far a clock may be off.
const DRIFT_PPM: u32 = 100_000;

/// The names of all scenarios, in the order in which a page offers them.
pub const NAMES: [&str; 16] = [
    "join",
    "leader-dies",
    "mid-chain",
    "free-play",
    "free-play-9",
    "crash",
    "handoff",
    "short-partition",
    "long-partition",
    "paused-leader",
    "drift-within",
    "drift-beyond",
    "restored-store",
    "outage",
    "fencing",
    "free-play-record",
];

/// The scenario `name` with random choices from `seed`. The name `prove` gives the scenario of that
/// seed in `make prove`, and `long-play` is free play of eighteen hours, for measurements.
pub fn scenario(name: &str, seed: u64) -> Option<Scenario> {
    let leader = |fault| FaultKind::Candidate(CandidateTarget::Leader, fault);
    let partition = leader(CandidateFault::Link(LinkFault::PARTITION));
    let pause = leader(CandidateFault::Pause);
    let third = FaultKind::Candidate(CandidateTarget::Candidate(2), CandidateFault::Crash);
    Some(match name {
        "join" => queue(seed, 5, 25, &[]),
        "leader-dies" => queue(seed, 5, 30, &[(0, leader(CandidateFault::Crash))]),
        "mid-chain" => queue(seed, 5, 30, &[(0, third)]),
        "free-play" => queue(seed, 5, 600, &[]),
        "free-play-9" => queue(seed, 9, 600, &[]),
        "free-play-record" => record(seed, 600, &[]),
        "crash" => record(seed, 30, &[(0, leader(CandidateFault::Crash))]),
        "handoff" => record(seed, 25, &[(0, leader(CandidateFault::Stop))]),
        "short-partition" => record(seed, 25, &[(1_500, partition)]),
        "long-partition" => record(seed, 35, &[(15_000, partition)]),
        "paused-leader" => record(seed, 35, &[(15_000, pause)]),
        "drift-within" => drifting(seed, 100_000),
        "drift-beyond" => drifting(seed, 400_000),
        "restored-store" => record(seed, 30, &[(0, FaultKind::Store(StoreFault::Restore(100)))]),
        "outage" => record(seed, 40, &[(12_000, FaultKind::Store(StoreFault::Refuse))]),
        "fencing" => record(seed, 35, &[(14_000, pause)]),
        "prove" => scenario_for(seed),
        "long-play" => queue(seed, 9, 65_000, &[]),
        _ => return None,
    })
}

/// Whether the applications of this scenario write to a resource.
pub fn has_resource(name: &str) -> bool {
    name == "fencing"
}

/// So many candidates in a queue. Each fault begins when all is calm and lasts for some milliseconds.
fn queue(seed: u64, count: u64, seconds: u64, faults: &[(u64, FaultKind)]) -> Scenario {
    let mut rng = Rng::new(seed);
    let durations = SessionTiming::suggestion(LEASE, drift(), TICK);
    let timing = Timing::new(durations, drift()).expect("the suggested durations are valid");
    let candidates = candidates(&mut rng, timing, count);
    let config = EnsembleConfig {
        clock_start: rng.duration_between(Duration::ZERO, TICK),
        clock_rates: vec![Rate::TRUE; 3],
        tick: TICK,
        configured_tick: TICK,
        sync_limit: 5,
        latency: SERVER_LATENCY,
    };
    build(rng.next_u64(), StoreConfig::Ensemble(config), candidates, seconds, faults)
}

/// Three candidates over one record.
fn record(seed: u64, seconds: u64, faults: &[(u64, FaultKind)]) -> Scenario {
    let mut rng = Rng::new(seed);
    let timing = Timing::new(Timing::suggestion(LEASE, drift()), drift())
        .expect("the suggested durations are valid");
    let candidates = candidates(&mut rng, timing, 3);
    let config =
        RecordConfig { whole_seconds: false, checks_version: true, numbering: Numbering::Unique };
    build(rng.next_u64(), StoreConfig::Record(config), candidates, seconds, faults)
}

/// A leader with a slow clock is partitioned while the others' clocks are fast, by as much.
fn drifting(seed: u64, off: i32) -> Scenario {
    let partition = CandidateFault::Link(LinkFault::PARTITION);
    let fault = (20_000, FaultKind::Candidate(CandidateTarget::Leader, partition));
    let mut scenario = record(seed, 40, &[fault]);
    for (number, candidate) in scenario.candidates.iter_mut().enumerate() {
        candidate.clock_rate = Rate::off_by(if number == 0 { -off } else { off });
    }
    scenario
}

fn candidates(rng: &mut Rng, timing: Timing, count: u64) -> Vec<CandidateConfig> {
    let mut candidate = |number| CandidateConfig {
        timing,
        clock_start: rng.duration_between(Duration::from_mins(1), Duration::from_hours(100)),
        clock_rate: Rate::TRUE,
        starts_at: Moment::START
            + Duration::from_millis(400 + 900 * number)
            + rng.duration_between(Duration::ZERO, Duration::from_millis(200)),
        stays_on_loss: true,
        asks: true,
        keeps_state: false,
        poll_interval: timing.retry_period() / 2,
        push: Push::default(),
        preference: Preference::FIRST,
        command: None,
    };
    (0..count).map(&mut candidate).collect()
}

fn build(
    seed: u64,
    store: StoreConfig,
    candidates: Vec<CandidateConfig>,
    seconds: u64,
    faults: &[(u64, FaultKind)],
) -> Scenario {
    let fault = |(duration, kind): &(u64, FaultKind)| Fault {
        at: Moment::START + CALM,
        duration: Duration::from_millis(*duration),
        kind: *kind,
    };
    Scenario {
        seed,
        candidates,
        store,
        leaders_watch: true,
        latency: LATENCY,
        faults: faults.iter().map(fault).collect(),
        end: Moment::START + Duration::from_secs(seconds),
    }
}

fn drift() -> Drift {
    Drift::parts_per_million(DRIFT_PPM).expect("a drift below 100 %")
}
