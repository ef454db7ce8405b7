//! Draws scenarios from seeds, in units of an algorithm's own patience.
//!
//! Pure. Start with [`draw`]. If an algorithm notices a death after 18 seconds, its faults last up
//! to 72 seconds; after 2 seconds, up to 8. So every algorithm meets faults on both sides of its
//! timeouts.

use crate::scenario::{Fault, Nodes, Scenario, Start, Target};
use baton_sim::clock::{Moment, Rate};
use baton_sim::rng::Rng;
use std::time::Duration;

/// The faults of one column of the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Condition {
    /// No fault.
    Calm,
    /// Leaders and others crash; most start again.
    Crash,
    /// One message in twenty is lost, or late over TCP.
    Loss,
    /// The network splits, or the leader is alone.
    Partition,
    /// Messages in one direction are lost.
    Asymmetric,
    /// Leaders and others stand still.
    Pause,
    /// A partition while clocks run up to a fifth too fast or too slow.
    Drift,
}

impl Condition {
    /// Every column, in order.
    pub const ALL: [Self; 7] = [
        Self::Calm,
        Self::Crash,
        Self::Loss,
        Self::Partition,
        Self::Asymmetric,
        Self::Pause,
        Self::Drift,
    ];

    /// The head of the column.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Calm => "no fault",
            Self::Crash => "crash",
            Self::Loss => "loss",
            Self::Partition => "partition",
            Self::Asymmetric => "asymmetric partition",
            Self::Pause => "pause",
            Self::Drift => "drift and partition",
        }
    }
}

/// The network of every run: messages take 1 to 10 ms.
pub const DELAY: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(10));
/// Faults begin in this part of a run, in units of patience.
const FAULTS_BEGIN: (u32, u32) = (6, 16);
/// The longest fault, in units of patience.
const LONGEST: u32 = 4;
/// A run ends after this many units of patience: as long after the last fault as all faults take.
const END: u32 = 34;
/// How far clocks are off under [`Condition::Drift`].
const DRIFT_PPM: u64 = 200_000;

/// When a run ends.
pub fn end(patience: Duration) -> Moment {
    Moment::START + patience * END
}

/// A scenario without faults, in which every candidate starts within 10 ms.
pub fn calm(candidates: usize, seed: u64, patience: Duration) -> Scenario {
    let mut rng = Rng::new(seed);
    let start = |_| Start {
        at: Moment::START + rng.duration_between(Duration::ZERO, Duration::from_millis(10)),
        rate: Rate::TRUE,
    };
    Scenario {
        seed,
        candidates: (0..candidates).map(start).collect(),
        server_rate: Rate::TRUE,
        delay: DELAY,
        loss_permille: 0,
        write_every: patience / 10,
        faults: Vec::new(),
        calm_from: Moment::START + patience * (FAULTS_BEGIN.1 + LONGEST),
    }
}

/// The scenario of `seed` under `condition`.
pub fn draw(
    condition: Condition,
    candidates: usize,
    servers: usize,
    seed: u64,
    patience: Duration,
) -> Scenario {
    let mut scenario = calm(candidates, seed, patience);
    let mut dice = Dice { rng: Rng::new(!seed), candidates, nodes: candidates + servers, patience };
    match condition {
        Condition::Calm => {}
        Condition::Loss => scenario.loss_permille = 50,
        Condition::Crash => {
            let last = dice.rng.between(0, 2);
            scenario.faults = (0..=last).map(|index| dice.crash(index == 0)).collect();
        }
        Condition::Partition => scenario.faults = dice.twice(Dice::partition),
        Condition::Asymmetric => scenario.faults = dice.twice(Dice::one_way),
        Condition::Pause => scenario.faults = dice.twice(Dice::pause),
        Condition::Drift => {
            scenario.faults = dice.twice(Dice::partition);
            scenario.server_rate = dice.rate();
            for start in &mut scenario.candidates {
                start.rate = dice.rate();
            }
        }
    }
    scenario
}

struct Dice {
    rng: Rng,
    candidates: usize,
    /// Candidates and servers.
    nodes: usize,
    patience: Duration,
}

impl Dice {
    /// One or two faults.
    fn twice(&mut self, fault: impl Fn(&mut Self) -> Fault) -> Vec<(Moment, Fault)> {
        let last = self.rng.between(0, 1);
        (0..=last).map(|_| (self.moment(), fault(self))).collect()
    }

    fn moment(&mut self) -> Moment {
        let (first, last) = FAULTS_BEGIN;
        Moment::START + self.rng.duration_between(self.patience * first, self.patience * last)
    }

    fn lasts(&mut self) -> Duration {
        self.rng.duration_between(self.patience / 10, self.patience * LONGEST)
    }

    fn candidate(&mut self) -> usize {
        self.rng.index(self.candidates)
    }

    /// The leader, in three of four cases.
    fn target(&mut self) -> Target {
        let node = self.candidate();
        if self.rng.permille(750) { Target::LeaderOr(node) } else { Target::Node(node) }
    }

    fn crash(&mut self, may_stay_down: bool) -> (Moment, Fault) {
        let (target, lasts) = (self.target(), self.lasts());
        let stays_down = may_stay_down && self.rng.permille(250);
        let lasts = if self.rng.permille(250) { lasts / 20 } else { lasts };
        (self.moment(), Fault::Crash { target, lasts: (!stays_down).then_some(lasts) })
    }

    fn partition(&mut self) -> Fault {
        let (target, lasts) = (self.target(), self.lasts());
        if self.rng.permille(500) {
            return Fault::Isolate { target, lasts };
        }
        Fault::Partition { side: self.some_nodes(), lasts }
    }

    fn one_way(&mut self) -> Fault {
        let (target, lasts) = (self.target(), self.lasts());
        let peers = if self.rng.permille(500) { Nodes::MAX } else { self.some_nodes() };
        if self.rng.permille(500) {
            Fault::Mute { target, peers, lasts }
        } else {
            Fault::Deafen { target, peers, lasts }
        }
    }

    fn pause(&mut self) -> Fault {
        Fault::Pause { target: self.target(), lasts: self.lasts() }
    }

    /// At least one node, and not all.
    fn some_nodes(&mut self) -> Nodes {
        let all = (1 << self.nodes) - 1;
        let drawn = self.rng.between(1, all - 1);
        Nodes::try_from(drawn).expect("there are at most 16 nodes")
    }

    fn rate(&mut self) -> Rate {
        let off = self.rng.between(0, 2 * DRIFT_PPM);
        let off = i32::try_from(off).expect("the drift is below a million");
        Rate::off_by(off - i32::try_from(DRIFT_PPM).expect("the drift is below a million"))
    }
}
