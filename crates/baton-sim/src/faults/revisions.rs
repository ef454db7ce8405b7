//! Draws whether a store of one record numbers versions as etcd does, and restores for it.
//!
//! Pure. Start with [`draw_revisions`], which is the last draw of a scenario: the other scenarios
//! are as they would be without it.

use super::FaultModel;
use crate::rng::Rng;
use crate::scenario::{Fault, FaultKind, Numbering, Scenario, StoreConfig, StoreFault};
use std::time::Duration;

pub(super) fn draw_revisions(rng: &mut Rng, scenario: &mut Scenario, model: FaultModel) {
    let StoreConfig::Record(config) = &mut scenario.store else { return };
    if rng.permille(600) {
        return;
    }
    config.numbering = Numbering::Revisions { seed: rng.next_u64() };
    if model == FaultModel::External && rng.permille(500) {
        // A write that is in flight during a restore may meet its version again.
        let near = scenario.faults[rng.index(scenario.faults.len())];
        let at = near.at + rng.duration_between(Duration::ZERO, near.duration);
        let kind = FaultKind::Store(StoreFault::Restore(1 + rng.index(5)));
        scenario.faults.push(Fault { at, duration: Duration::ZERO, kind });
    }
}
