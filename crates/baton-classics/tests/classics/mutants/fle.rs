//! Fast Leader Election without durable epochs. Pure.

use super::{calm, runs};
use baton_classics::checker::Checker;
use baton_classics::fle::{Fle, FleNode, Stored};
use baton_classics::machine::{Algorithm, Boot, NodeId};
use baton_classics::scenario::{Fault, Scenario, Target};
use baton_classics::world::World;
use baton_sim::clock::Moment;
use std::time::Duration;

/// Forgets in a crash which epoch it has promised.
#[derive(Clone, Copy)]
struct ForgetsEpoch(Fle);

impl Algorithm for ForgetsEpoch {
    type Machine = FleNode;
    type Durable = Stored;

    fn first(&self, node: NodeId, random: u64) -> Stored {
        self.0.first(node, random)
    }

    fn durable(machine: &FleNode) -> Stored {
        Stored { accepted_epoch: 0, current_epoch: 0, ..Fle::durable(machine) }
    }

    fn patience(&self) -> Duration {
        self.0.patience()
    }

    fn boot(&self, boot: Boot<Stored>) -> FleNode {
        self.0.boot(boot)
    }
}

/// The leader is alone while both followers start again.
fn lonely_leader(seed: u64) -> Scenario {
    let mut scenario = calm(&Fle::SAMPLE, 3, seed);
    let at = Moment::START + Duration::from_secs(10);
    let isolated = Fault::Isolate { target: Target::LeaderOr(0), lasts: Duration::from_secs(30) };
    scenario.faults.push((at, isolated));
    for node in 0..3 {
        let crash =
            Fault::Crash { target: Target::Node(node), lasts: Some(Duration::from_secs(1)) };
        if node != leader_of(seed) {
            scenario.faults.push((at, crash));
        }
    }
    scenario
}

/// The node that wins the first election of `lonely_leader`.
fn leader_of(seed: u64) -> usize {
    let mut world = World::new(Fle::SAMPLE, calm(&Fle::SAMPLE, 3, seed), Checker::new(3));
    world.run_until(Moment::START + Duration::from_secs(10));
    world.agreed_leader().expect("three servers elect within ten seconds").0
}

#[test]
fn fle_with_durable_epochs_has_one_leader_per_epoch() {
    assert_eq!(runs(Fle::SAMPLE, 20, lonely_leader).shared_tokens, 0);
}

#[test]
fn fle_without_durable_epochs_has_two_leaders_in_an_epoch() {
    assert!(runs(ForgetsEpoch(Fle::SAMPLE), 20, lonely_leader).shared_tokens > 0);
}
