//! One run of a schedule on fresh servers.
//!
//! Start with [`run`]. It panics on a violation; the rig checks exclusion, tokens, and silence when
//! it is dropped.

use super::arena::{Active, Arena};
use super::fault::Fault;
use super::figures::Figures;
use super::injection::{self, Undo};
use super::peers::{Group, Program};
use super::schedule::{Schedule, Step};
use super::spans::{Span, judge};
use super::stores::Tortured;
use super::tally::{Census, Tally};
use super::watch::{Observed, Watch};
use crate::noise::{excuse, never_excuse};
use crate::rig::{Answer, ELECTIONS, LOOK_BACK, Ledger, Moment, Rig, eventually};
use std::thread;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(10);

/// How long the first leaders may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Our name beside the peers.
pub(super) const OURS: &str = "Baton";

/// An active fault, and the function that ends it.
struct Running<'a, S: Tortured> {
    fault: Fault,
    ends: Moment,
    undo: Undo<'a, S>,
}

/// How long an election may lack a leader after a fault. The end of a fault delivers what was held,
/// and a restarted process may take a moment to be ready.
fn bound<S: Tortured>(store: &S) -> Duration {
    store.takeover(S::TIMING) + S::NOISE
}

/// The participants of a run.
pub(super) struct Field<S: Tortured> {
    /// How many elections of ours there are.
    pub(super) elections: usize,
    pub(super) peers: &'static [Program<S>],
}

pub(super) fn run<S: Tortured>(schedule: &Schedule, field: &Field<S>) -> Figures {
    let (mut server, store) = S::serve();
    let bound = bound(&store);
    let rig = Rig::over(store, S::TIMING);
    let ledger = (S::address(&server).is_none()).then(|| Ledger::new(&rig));
    let mut figures = Figures::default();
    let peers = field.peers.iter().map(|program| Group::begin(program, &rig, &server));
    let mut peers: Vec<_> = peers.collect();
    let mut arena = Arena::begin(field.elections, &rig, &mut server, ledger.as_ref());
    let elections = &ELECTIONS[..field.elections];
    eventually(PATIENCE, "each election has a leader", || {
        elections.iter().all(|election| rig.latest_promise(election).is_some())
            && peers.iter().all(Group::has_leader)
    });

    let begun = rig.now();
    let mut census = Census::default();
    let mut watches: Vec<_> = elections.iter().map(|_| Watch::new(bound)).collect();
    let mut running: Vec<Running<'_, S>> = Vec::new();
    let mut steps = schedule.0.iter().peekable();
    // After the last fault, each election must come to rest once more.
    let end = schedule.end() + bound + bound / 4;
    while steps.peek().is_some() || !running.is_empty() || rig.now() < begun + end {
        while let Some(step) = steps.next_if(|step| rig.now() >= begun + step.at) {
            for group in &mut peers {
                group.inject(step);
            }
            match start(&mut arena, step) {
                Ok(started) => running.push(started),
                Err(why) => figures.add_fault(step.fault, Err(why)),
            }
        }
        while let Some(at) = running.iter().position(|running| running.ends <= rig.now()) {
            let Running { fault, undo, .. } = running.swap_remove(at);
            arena.active.swap_remove(at);
            let proof = undo(&mut arena);
            rig.note(format!("{fault} ends: {proof:?}"));
            figures.add_fault(fault, proof);
        }
        peers.iter_mut().for_each(Group::tend);
        watch(&mut arena, &mut watches, &mut figures);
        census.observe(rig.now(), arena.slots.iter().map(|slot| slot.candidate.pid()));
        thread::sleep(POLL);
    }
    let ended = rig.now();
    let peers: Vec<_> = peers.into_iter().map(|group| group.end(begun)).collect();
    arena.end();
    if let Some(overlap) = ledger.as_ref().and_then(Ledger::overlap) {
        never_excuse();
        panic!("{overlap}");
    }
    let answers = rig.answers();
    figures.add_run(elections, &answers);
    if !peers.is_empty() {
        let links = arena.slots.iter().filter_map(|slot| slot.proxy.as_ref());
        let carried = links.map(|proxy| proxy.carried()).sum();
        let verdict = judge(&promises(&answers), ended);
        let mut ours = Tally::of(verdict, census, carried, ended.since(begun));
        [ours.acted, ours.void] = figures.counts();
        figures.add_programs([(OURS, ours)].into_iter().chain(peers));
    }
    figures
}

/// The promises of our only election.
fn promises(answers: &[Answer]) -> Vec<Span> {
    let promise = |answer: &Answer| {
        let term = format!("{} {}", answer.identity()?, answer.token()?);
        Some(Span { term, from: answer.answered, until: answer.promised_until()? })
    };
    answers.iter().filter_map(promise).collect()
}

fn start<'a, S: Tortured>(arena: &mut Arena<'a, S>, step: &Step) -> Result<Running<'a, S>, String> {
    let target = arena.target(step)?;
    arena.rig.note(format!("{step} begins on {target:?}"));
    let undo = injection::begin(arena, step.fault, target)?;
    arena.active.push(Active { fault: step.fault, target });
    let ends = arena.rig.now() + injection::length(step.fault, step.length);
    Ok(Running { fault: step.fault, ends, undo })
}

/// Observes each election, and restarts what has ended.
fn watch<S: Tortured>(arena: &mut Arena<'_, S>, watches: &mut [Watch], figures: &mut Figures) {
    let rig = arena.rig;
    let mut violations = Vec::new();
    for (election, watch) in watches.iter_mut().enumerate() {
        let (is_faulted, missing) = (arena.is_disturbed(election), arena.missing(election));
        let promise = rig.latest_promise(ELECTIONS[election]);
        let claim = promise.map(|promise| (promise.token, promise.until));
        let missing = missing.map(str::to_owned);
        let observed = Observed { now: rig.now(), is_faulted, missing, claim };
        violations.extend(watch.observe(observed).err());
    }
    arena.tend();
    for violation in violations {
        let excuse = Instant::now().checked_sub(LOOK_BACK).and_then(excuse);
        rig.note(format!("{violation}, excused by {excuse:?}"));
        assert!(excuse.is_some(), "{violation}");
        figures.add_excused();
    }
}
