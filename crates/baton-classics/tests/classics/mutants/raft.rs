//! Raft without a durable vote. Pure.

use super::{calm, runs};
use baton_classics::machine::{Algorithm, Boot, NodeId};
use baton_classics::raft::{Raft, RaftNode, Stored};
use baton_classics::scenario::{Fault, Scenario, Target};
use baton_sim::clock::Moment;
use baton_sim::rng::Rng;
use std::time::Duration;

/// Forgets in a crash who received its vote.
#[derive(Clone, Copy)]
struct ForgetsVote(Raft);

impl Algorithm for ForgetsVote {
    type Machine = RaftNode;
    type Durable = Stored;

    fn first(&self, node: NodeId, random: u64) -> Stored {
        self.0.first(node, random)
    }

    fn durable(machine: &RaftNode) -> Stored {
        Stored { voted_for: None, ..Raft::durable(machine) }
    }

    fn patience(&self) -> Duration {
        self.0.patience()
    }

    fn boot(&self, boot: Boot<Stored>) -> RaftNode {
        self.0.boot(boot)
    }
}

/// Campaigns often, so that restarts fall between two votes.
const HASTY: Raft = Raft {
    heartbeat: Duration::from_millis(10),
    election_timeout: Duration::from_millis(40),
    ..Raft::PAPER
};

/// Processes crash for a few milliseconds again and again.
fn restarts(seed: u64) -> Scenario {
    let mut scenario = calm(&HASTY, 5, seed);
    let mut rng = Rng::new(seed);
    for _ in 0..100 {
        let at = rng.duration_between(Duration::ZERO, Duration::from_secs(2));
        let lasts = Some(rng.duration_between(Duration::ZERO, Duration::from_millis(3)));
        let target = Target::Node(rng.index(5));
        scenario.faults.push((Moment::START + at, Fault::Crash { target, lasts }));
    }
    scenario
}

#[test]
fn raft_with_a_durable_vote_has_one_leader_per_term() {
    assert_eq!(runs(HASTY, 300, restarts).shared_tokens, 0);
}

#[test]
fn raft_without_a_durable_vote_has_two_leaders_in_a_term() {
    assert!(runs(ForgetsVote(HASTY), 300, restarts).shared_tokens > 0);
}
