//! One run of each algorithm under each fault, for the lab.
//!
//! Pure. Start with [`open`]. A fault hits the leader when all is calm, lasts three times as long
//! as the algorithm takes to notice a death, and leaves it as long to settle. [`crate::table`] counts
//! random faults instead.

use crate::baton::queue::BatonQueue;
use crate::baton::record::BatonRecord;
use crate::bully::Bully;
use crate::checker::{Checker, Verdict};
use crate::draw::{self, Condition};
use crate::fle::Fle;
use crate::kafka::Kafka;
use crate::lease::Lease;
use crate::machine::{Algorithm, NodeId, Purpose};
use crate::raft::Raft;
use crate::recording::{Fact, Record, Recorder};
use crate::ring::Ring;
use crate::scenario::{Fault, Nodes, Target};
use crate::sentinel::Sentinel;
use crate::stonith::Stonith;
use crate::world::World;
use baton_sim::clock::{Moment, Rate};
use std::ops::RangeInclusive;
use std::time::Duration;

/// An algorithm by its name in links.
struct Exhibit {
    name: &'static str,
    /// Runs it with so many candidates, for a seed.
    run: fn(Condition, usize, u64) -> ExhibitRun,
}

const EXHIBITS: &[Exhibit] = &[
    Exhibit { name: "raft", run: |on, nodes, seed| run(Raft::PAPER, on, nodes, seed) },
    Exhibit { name: "raft-etcd", run: |on, nodes, seed| run(Raft::ETCD, on, nodes, seed) },
    Exhibit { name: "fle", run: |on, nodes, seed| run(Fle::SAMPLE, on, nodes, seed) },
    Exhibit { name: "bully", run: |on, nodes, seed| run(Bully::PAPER, on, nodes, seed) },
    Exhibit {
        name: "lease-equal",
        run: |on, nodes, seed| run(Lease::EQUAL_CLOCKS, on, nodes, seed),
    },
    Exhibit { name: "lease", run: |on, nodes, seed| run(Lease::DRIFTING_CLOCKS, on, nodes, seed) },
    Exhibit { name: "kafka", run: |on, nodes, seed| run(Kafka::DEFAULT, on, nodes, seed) },
    Exhibit { name: "ring", run: |on, nodes, seed| run(Ring::PAPER, on, nodes, seed) },
    Exhibit { name: "sentinel", run: |on, nodes, seed| run(Sentinel::TUTORIAL, on, nodes, seed) },
    Exhibit { name: "stonith", run: |on, nodes, seed| run(Stonith::COROSYNC, on, nodes, seed) },
    Exhibit { name: "baton-record", run: |on, nodes, seed| run(BatonRecord, on, nodes, seed) },
    Exhibit { name: "baton-queue", run: |on, nodes, seed| run(BatonQueue, on, nodes, seed) },
];

/// The conditions by their names in links.
const CONDITIONS: [(&str, Condition); 7] = [
    ("calm", Condition::Calm),
    ("crash", Condition::Crash),
    ("loss", Condition::Loss),
    ("partition", Condition::Partition),
    ("asymmetric", Condition::Asymmetric),
    ("pause", Condition::Pause),
    ("drift", Condition::Drift),
];
/// The numbers of candidates.
const SIZES: RangeInclusive<usize> = 3..=9;
/// How far clocks are off under [`Condition::Drift`].
const DRIFT_PPM: i32 = 200_000;

/// A whole run.
#[derive(Debug)]
pub struct ExhibitRun {
    /// How many candidates there are. Servers have higher numbers.
    pub candidates: usize,
    /// How many servers there are.
    pub servers: usize,
    /// When the fault begins, if there is one.
    pub fault_at: Option<Moment>,
    /// When the run ends.
    pub end: Moment,
    /// Everything that happened.
    pub records: Vec<Record>,
    /// The candidates that lead at the end.
    pub leaders: Vec<NodeId>,
    /// The findings of the checker.
    pub verdict: Verdict,
}

impl ExhibitRun {
    /// How many messages of elections were sent.
    pub fn messages(&self) -> usize {
        let is_election = |record: &&Record| match record.fact {
            Fact::Sent { purpose, .. } => purpose == Purpose::Election,
            Fact::Started(_)
            | Fact::Ended(_)
            | Fact::Paused(_)
            | Fact::Resumed(_)
            | Fact::CutBegan(_)
            | Fact::CutEnded(_)
            | Fact::RoleChanged(..)
            | Fact::Written { .. } => false,
        };
        self.records.iter().filter(is_election).count()
    }
}

/// The run of this name, such as `raft.crash.5` for Raft with five candidates.
pub fn open(name: &str, seed: u64) -> Option<ExhibitRun> {
    let parts: Vec<_> = name.split('.').collect();
    let [algorithm, condition, candidates] = parts[..] else { return None };
    let exhibit = EXHIBITS.iter().find(|exhibit| exhibit.name == algorithm)?;
    let (_, condition) = CONDITIONS.iter().find(|(name, _)| *name == condition)?;
    let candidates = candidates.parse().ok().filter(|candidates| SIZES.contains(candidates))?;
    Some((exhibit.run)(*condition, candidates, seed))
}

/// The names of all runs with so many candidates.
pub fn names(candidates: usize) -> impl Iterator<Item = String> {
    let of = move |exhibit: &Exhibit| {
        let name = exhibit.name;
        CONDITIONS.iter().map(move |(condition, _)| format!("{name}.{condition}.{candidates}"))
    };
    EXHIBITS.iter().flat_map(of)
}

fn run<A: Algorithm>(
    algorithm: A,
    condition: Condition,
    candidates: usize,
    seed: u64,
) -> ExhibitRun {
    let (servers, patience) = (algorithm.servers(), algorithm.patience());
    let unit = Duration::from_secs(patience.as_secs() + u64::from(patience.subsec_nanos() > 0));
    let mut scenario = draw::calm(candidates, seed, patience);
    let fault_at = Moment::START + unit * 2;
    let fault = fault(condition, unit * 3);
    scenario.faults.extend(fault.map(|fault| (fault_at, fault)));
    match condition {
        Condition::Loss => scenario.loss_permille = 50,
        Condition::Drift => {
            scenario.server_rate = Rate::off_by(DRIFT_PPM);
            for (index, start) in scenario.candidates.iter_mut().enumerate() {
                let is_fast = servers == 0 && index % 2 == 1;
                start.rate = Rate::off_by(if is_fast { DRIFT_PPM } else { -DRIFT_PPM });
            }
        }
        Condition::Calm
        | Condition::Crash
        | Condition::Partition
        | Condition::Asymmetric
        | Condition::Pause => {}
    }
    let end = Moment::START + unit * 8;
    let observers = (Checker::new(candidates + servers), Recorder::default());
    let mut world = World::new(algorithm, scenario, observers);
    world.run_until(end);
    let leaders = (0..candidates).map(NodeId).filter(|node| world.role(*node).is_leading());
    let leaders = leaders.collect();
    let (checker, recorder) = world.observer_mut();
    ExhibitRun {
        candidates,
        servers,
        fault_at: fault.map(|_| fault_at),
        end,
        records: recorder.take(),
        leaders,
        verdict: checker.verdict(end),
    }
}

/// The fault of a condition, which lasts so long.
const fn fault(condition: Condition, lasts: Duration) -> Option<Fault> {
    let target = Target::LeaderOr(0);
    Some(match condition {
        Condition::Calm | Condition::Loss => return None,
        Condition::Crash => Fault::Crash { target, lasts: Some(lasts) },
        Condition::Partition | Condition::Drift => Fault::Isolate { target, lasts },
        Condition::Asymmetric => Fault::Mute { target, peers: Nodes::MAX, lasts },
        Condition::Pause => Fault::Pause { target, lasts },
    })
}
