//! Draws a scenario from a seed: bursts of faults with calm periods between them.
//!
//! Pure. Start with [`draw`]. Each seed leaves out most kinds of faults (swarm testing), because
//! the absence of one fault lets others have an effect. Half of the faults of candidates target the
//! leader. Durations are often at the limit of what [`Timing`] accepts, and clocks at the limit of
//! the drift.

mod kinds;
mod revisions;

use crate::clock::{Moment, Rate};
use crate::isolation::isolate;
use crate::rng::{Rng, nanos};
use crate::scenario::{
    CandidateConfig, CandidateTarget, CommandConfig, EnsembleConfig, ExternalAction, Fault,
    FaultKind, Numbering, Push, RecordConfig, Scenario, ServerFault, ServerTarget, StoreConfig,
    StoreFault,
};
use baton_election::command::KILL_MARGIN;
use baton_election::queue::timing::SessionTiming;
use baton_election::record::preference::Preference;
use baton_election::timing::{Drift, Durations, Timing};
use kinds::{
    draw_candidate_fault, draw_external_action, draw_server_fault, draw_store_fault,
    fault_duration, supported_fault,
};
use revisions::draw_revisions;
use std::time::Duration;

/// Which faults a scenario may contain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultModel {
    /// Only faults under which exclusion is guaranteed.
    Assumed,
    /// Also other clients that delete or overwrite the record, and stores restored from backups.
    External,
}

/// The kind of store that holds the election.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreKind {
    /// One record, as in a Lease or a file.
    Record,
    /// An ensemble of ZooKeeper servers.
    Ensemble,
}

/// The scenario of `seed` in a hunt. Every third one has an ensemble, and every fourth has external
/// clients.
pub fn scenario_for(seed: u64) -> Scenario {
    let store_kind = if seed % 3 == 2 { StoreKind::Ensemble } else { StoreKind::Record };
    draw(seed, store_kind, if seed % 4 == 3 { FaultModel::External } else { FaultModel::Assumed })
}

/// The scenario of `seed` with this kind of store.
pub fn draw(seed: u64, store_kind: StoreKind, model: FaultModel) -> Scenario {
    let mut rng = Rng::new(seed);
    let drift = rng.pick(&[20_000, 100_000, 100_000, 300_000]);
    let scale = Duration::from_millis(rng.pick(&[1_000, 1_500, 3_000, 15_000, 15_000, 60_000]));
    let mut latency = Duration::from_micros(rng.pick(&[100, 1_000, 10_000]));
    let (common, store) = match store_kind {
        StoreKind::Record => (draw_timing(&mut rng, scale, drift), draw_record(&mut rng)),
        StoreKind::Ensemble => {
            latency = latency.min(scale / 400);
            let (timing, config) = draw_ensemble(&mut rng, scale, drift, latency);
            (timing, StoreConfig::Ensemble(config))
        }
    };
    let has_mixed_timings = store_kind == StoreKind::Record && rng.permille(150);
    let stays_on_loss = rng.permille(400);
    let candidate_count = rng.pick(&[1, 2, 2, 3, 3, 3, 4, 5]);
    let candidates: Vec<_> = (0..candidate_count)
        .map(|_| {
            let other = scale / rng.pick(&[1, 2, 3]);
            let timing =
                if has_mixed_timings { draw_timing(&mut rng, other, drift) } else { common };
            draw_candidate(&mut rng, timing, drift, stays_on_loss)
        })
        .collect();
    let leaders_watch = store_kind == StoreKind::Ensemble || rng.permille(700);
    let mut faults = Vec::new();
    let scale = scale.max(common.lease_duration());
    let mut end = Moment::START + scale;
    for _ in 0..rng.between(1, 3) {
        end = add_fault_burst(
            &mut rng,
            &mut faults,
            end,
            BurstParams { scale, latency, candidates: candidate_count, drift, store_kind, model },
        );
    }
    let seed = rng.next_u64();
    if store_kind == StoreKind::Record && rng.permille(30) {
        end = add_label_edits(&mut rng, &mut faults, end, common, latency);
    }
    if store_kind == StoreKind::Ensemble && rng.permille(100) {
        let fault = quorum_loss(&mut rng, scale, end);
        end = end.max(fault.end() + scale * 4);
        faults.push(fault);
    }
    if store_kind == StoreKind::Ensemble && rng.permille(100) {
        let at = Moment::START + rng.duration_between(Duration::ZERO, end.since(Moment::START));
        let kind =
            FaultKind::External(ExternalAction::CreateStrayNode { is_numbered: rng.permille(500) });
        faults.push(Fault { at, duration: Duration::ZERO, kind });
    }
    let latency = (latency / 10, latency);
    let mut scenario = Scenario { seed, candidates, store, leaders_watch, latency, faults, end };
    if store_kind == StoreKind::Record && rng.permille(250) {
        draw_preferences(&mut rng, &mut scenario.candidates);
    }
    if store_kind == StoreKind::Ensemble && rng.permille(200) {
        isolate(&mut rng, &mut scenario);
    }
    if rng.permille(300) {
        draw_commands(&mut rng, &mut scenario);
    }
    draw_applications(&mut rng, &mut scenario.candidates);
    draw_revisions(&mut rng, &mut scenario, model);
    scenario.faults.sort_by_key(|fault| fault.at);
    scenario
}

/// Durations for a lease of about `lease` that are valid under `drift`, often barely.
fn draw_timing(rng: &mut Rng, lease: Duration, drift: u32) -> Timing {
    let drift = Drift::parts_per_million(drift).expect("a drift below 100 %");
    let usual = Timing::suggestion(lease, drift);
    let mut durations = usual;
    if rng.permille(500) {
        durations.renew_deadline = longest_deadline(usual.lease_duration, drift);
    }
    durations.retry_period = durations.renew_deadline / rng.pick(&[4, 5, 5, 5, 10]);
    let longest_answer = durations.renew_deadline.saturating_sub(durations.retry_period) / 3 * 2;
    let short = Duration::from_millis(20);
    durations.answer_validity =
        rng.pick(&[usual.retry_period.min(longest_answer), longest_answer, short]);
    Timing::new(durations, drift)
        .unwrap_or_else(|_| Timing::new(usual, drift).expect("the suggested durations are valid"))
}

fn draw_record(rng: &mut Rng) -> StoreConfig {
    StoreConfig::Record(RecordConfig {
        whole_seconds: rng.permille(500),
        checks_version: true,
        numbering: Numbering::Unique,
    })
}

/// Servers, and durations for a session of about `scale` under which a candidate can lead.
fn draw_ensemble(
    rng: &mut Rng,
    scale: Duration,
    drift: u32,
    latency: Duration,
) -> (Timing, EnsembleConfig) {
    let allowed = Drift::parts_per_million(drift).expect("a drift below 100 %");
    let tick = scale / rng.pick(&[5, 8, 8, 12]);
    let configured_tick = tick * rng.pick(&[1, 1, 1, 2]);
    let drawn = draw_timing(rng, scale, drift);
    let timing = if SessionTiming::new(drawn, configured_tick).is_ok() {
        drawn
    } else {
        Timing::new(SessionTiming::suggestion(scale, allowed, configured_tick), allowed)
            .expect("the suggested durations are valid")
    };
    let clock_rates = (0..rng.pick(&[1, 3, 3, 3, 5])).map(|_| draw_rate(rng, drift)).collect();
    // A session lasts at most 20 ticks.
    let tick = tick.max(timing.lease_duration() / 20);
    let clock_start = rng.duration_between(Duration::ZERO, Duration::from_hours(1_000));
    let sync_limit = rng.pick(&[2, 5, 5, 10]);
    let config = EnsembleConfig {
        clock_start,
        clock_rates,
        tick,
        configured_tick: configured_tick.max(tick),
        sync_limit,
        latency: (latency / 10, latency),
    };
    (timing, config)
}

/// The longest renew deadline, to the millisecond, that is valid with `lease_duration`.
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
        // Much shorter deadlines fail for another reason: they leave no room for three attempts.
        if passes(middle) || middle < nanos(lease_duration) / 4_000_000 {
            passing = middle;
        } else {
            failing = middle;
        }
    }
    Duration::from_millis(passing)
}

fn draw_candidate(
    rng: &mut Rng,
    timing: Timing,
    drift: u32,
    stays_on_loss: bool,
) -> CandidateConfig {
    let most = timing.answer_validity().max(timing.retry_period());
    CandidateConfig {
        timing,
        clock_start: rng.duration_between(Duration::ZERO, Duration::from_hours(1_000)),
        clock_rate: draw_rate(rng, drift),
        starts_at: Moment::START + rng.skewed_duration(timing.lease_duration()),
        stays_on_loss,
        asks: stays_on_loss,
        keeps_state: false,
        poll_interval: rng.duration_between(most / 2, most),
        push: Push::default(),
        preference: Preference::FIRST,
        command: None,
    }
}

/// Preferences up to the lease duration.
fn draw_preferences(rng: &mut Rng, candidates: &mut [CandidateConfig]) {
    for candidate in candidates {
        let lease = candidate.timing.lease_duration();
        let stand_after = rng.pick(&[Duration::ZERO, lease / 10, lease / 2, lease]);
        candidate.preference =
            Preference::new(stand_after, &candidate.timing).expect("at most the lease duration");
    }
}

/// Draws whether applications ask, which listeners they have, and whether state directories outlast
/// processes. A status file declares that the application asks.
fn draw_applications(rng: &mut Rng, candidates: &mut [CandidateConfig]) {
    for candidate in candidates.iter_mut() {
        candidate.asks |= rng.permille(300);
    }
    for candidate in candidates.iter_mut() {
        candidate.keeps_state = rng.permille(700);
    }
    if rng.permille(850) {
        return;
    }
    for candidate in candidates {
        let timing = &candidate.timing;
        // A file of very short promises is written so often that little else is simulated.
        let may_have_file = timing.answer_validity() * 4 >= timing.retry_period();
        let has_file = rng.permille(700) && may_have_file;
        candidate.push = Push { has_waiter: rng.permille(700), has_file };
        candidate.asks |= has_file;
    }
}

/// Commands with limits that the program accepts: grace and two retry periods fit the deadline.
fn draw_commands(rng: &mut Rng, scenario: &mut Scenario) {
    for candidate in &mut scenario.candidates {
        let timing = match &scenario.store {
            StoreConfig::Record(_) => candidate.timing,
            StoreConfig::Ensemble(config) => {
                SessionTiming::new(candidate.timing, config.configured_tick)
                    .map_or(candidate.timing, |timing| timing.expected().0)
            }
        };
        let longest = timing.renew_deadline().saturating_sub(timing.retry_period() * 2);
        if longest < KILL_MARGIN || rng.permille(200) {
            continue;
        }
        let grace = rng.pick(&[KILL_MARGIN, longest / 2, longest]).max(KILL_MARGIN);
        let stop_timeout =
            rng.pick(&[Duration::ZERO, timing.retry_period(), timing.lease_duration() * 2]);
        candidate.command = Some(CommandConfig { grace, stop_timeout });
    }
}

/// A rate within the drift, most often at its limit.
fn draw_rate(rng: &mut Rng, drift: u32) -> Rate {
    let drift = i32::try_from(drift).expect("a drift below 100 %");
    let part = i32::try_from(rng.between(0, 1_000)).expect("a number up to 1000");
    Rate::off_by(rng.pick(&[
        -drift,
        -drift,
        drift,
        drift,
        0,
        drift / 1_000 * part,
        -(drift / 1_000 * part),
    ]))
}

/// The parameters of a burst.
#[derive(Clone, Copy)]
struct BurstParams {
    scale: Duration,
    latency: Duration,
    candidates: usize,
    drift: u32,
    store_kind: StoreKind,
    model: FaultModel,
}

/// Adds a burst of faults that lasts up to five leases, and returns the end of the calm period
/// after it.
fn add_fault_burst(
    rng: &mut Rng,
    faults: &mut Vec<Fault>,
    start: Moment,
    params: BurstParams,
) -> Moment {
    let BurstParams { scale, latency, candidates, drift, store_kind, model } = params;
    let length = rng.skewed_duration(scale * 5);
    let kinds = [rng.next_u64(), rng.next_u64(), rng.next_u64()].map(|drawn| drawn % 4);
    let (mut end, mut at) = (start + length, start);
    for _ in 0..rng.between(1, 6) {
        // A fault that coincides with messages which the previous one caused finds other bugs.
        let follows = rng.permille(200);
        at = if follows {
            at + rng.duration_between(Duration::ZERO, latency * 4)
        } else {
            start + rng.duration_between(Duration::ZERO, length)
        };
        let kind = match rng.pick(&kinds) {
            0 | 1 => {
                let target = if rng.permille(500) {
                    CandidateTarget::Leader
                } else {
                    CandidateTarget::Candidate(rng.index(candidates))
                };
                FaultKind::Candidate(
                    target,
                    supported_fault(draw_candidate_fault(rng, scale, drift), store_kind),
                )
            }
            3 if store_kind == StoreKind::Ensemble
                && model == FaultModel::External
                && rng.permille(300) =>
            {
                FaultKind::Store(StoreFault::Restore(rng.index(30)))
            }
            3 if store_kind == StoreKind::Ensemble && model == FaultModel::External => {
                FaultKind::External(ExternalAction::Delete)
            }
            _ if store_kind == StoreKind::Ensemble => draw_server_fault(rng),
            2 => FaultKind::Store(draw_store_fault(rng, scale)),
            _ => draw_external_action(rng, scale, model),
        };
        let fault = Fault { at, duration: fault_duration(rng, kind, scale), kind };
        end = end.max(fault.end());
        faults.push(fault);
    }
    // Long enough to elect a leader, to settle, and to observe that nothing changes. Ensembles
    // settle late and are expensive, so most get a shorter calm period.
    let calm = if store_kind == StoreKind::Ensemble { rng.pick(&[4, 4, 4, 16]) } else { 4 };
    end + scale * calm
}

/// Adds edits of a label during a calm period, with gaps of at least two round trips. They must not
/// cost a leader its term. Returns the end of the calm period after them.
fn add_label_edits(
    rng: &mut Rng,
    faults: &mut Vec<Fault>,
    start: Moment,
    timing: Timing,
    latency: Duration,
) -> Moment {
    let round_trip = latency * 2;
    // More than a thousand edits would take time and show nothing new.
    let gap =
        rng.duration_between(round_trip * 2, round_trip * 8).max(timing.lease_duration() / 1_000);
    let end = start + timing.lease_duration();
    let mut at = start;
    while at < end {
        faults.push(Fault {
            at,
            duration: Duration::ZERO,
            kind: FaultKind::External(ExternalAction::EditLabel),
        });
        at = at + gap;
    }
    end + timing.lease_duration()
}

/// A fault that can deprive the ensemble of its majority for a session timeout or longer.
fn quorum_loss(rng: &mut Rng, scale: Duration, end: Moment) -> Fault {
    let at = Moment::START + rng.duration_between(scale, end.since(Moment::START));
    let server_fault = rng.pick(&[
        ServerFault::Partition,
        ServerFault::Pause,
        ServerFault::Crash,
        ServerFault::Crash,
    ]);
    // Of three or five servers, the first may be spared.
    let kind = FaultKind::Server(ServerTarget::From(rng.pick(&[0, 0, 1])), server_fault);
    Fault { at, duration: rng.duration_between(scale / 2, scale * 4), kind }
}
