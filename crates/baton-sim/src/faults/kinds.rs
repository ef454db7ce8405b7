//! Draws the kind and the duration of single faults.
//!
//! Pure. Start with [`draw_candidate_fault`].

use super::{FaultModel, StoreKind, draw_rate};
use crate::rng::Rng;
use crate::scenario::{
    CandidateFault, ExternalAction, FaultKind, LinkFault, ServerFault, ServerTarget, StoreFault,
};
use std::time::Duration;

pub(super) fn fault_duration(rng: &mut Rng, kind: FaultKind, scale: Duration) -> Duration {
    match kind {
        FaultKind::External(_)
        | FaultKind::Candidate(_, CandidateFault::ClockRate(_))
        | FaultKind::Store(StoreFault::Restore(_)) => Duration::ZERO,
        // One process in ten does not restart.
        FaultKind::Candidate(_, CandidateFault::Crash | CandidateFault::Stop)
            if rng.permille(100) =>
        {
            Duration::ZERO
        }
        FaultKind::Candidate(..) | FaultKind::Store(_) | FaultKind::Server(..) => {
            rng.skewed_duration(scale * 2).max(Duration::from_micros(1))
        }
    }
}

pub(super) fn draw_candidate_fault(rng: &mut Rng, scale: Duration, drift: u32) -> CandidateFault {
    let longest = scale / rng.pick(&[1, 10]);
    match rng.between(0, 16) {
        0 | 1 => CandidateFault::Pause,
        2 => CandidateFault::Stall(longest),
        3 => CandidateFault::Crash,
        4 => CandidateFault::Stop,
        5 => CandidateFault::PreStop,
        6 => CandidateFault::Unasked,
        7 => CandidateFault::WatchLoss,
        8 => CandidateFault::ClockRate(draw_rate(rng, drift)),
        9 => CandidateFault::Link(LinkFault::PARTITION),
        10 => CandidateFault::WatchDelay(scale),
        11 => CandidateFault::Resign,
        12 => CandidateFault::Stopping,
        13 => CandidateFault::Done,
        14 => CandidateFault::Unfit,
        _ => CandidateFault::Link(draw_link_fault(rng, scale)),
    }
}

pub(super) fn draw_link_fault(rng: &mut Rng, scale: Duration) -> LinkFault {
    let mut permille = || rng.pick(&[0, 0, 0, 300, 600, 1_000]);
    let (requests_lost, replies_lost, late, broken, duplicated) =
        (permille(), permille(), permille(), permille(), permille());
    LinkFault { requests_lost, replies_lost, late, broken, duplicated, max_delay: scale * 2 }
}

pub(super) fn draw_store_fault(rng: &mut Rng, scale: Duration) -> StoreFault {
    match rng.between(0, 7) {
        0 => StoreFault::Refuse,
        1 => StoreFault::Hang,
        2 => StoreFault::CrashLoop,
        3 => StoreFault::Slow(rng.skewed_duration(scale)),
        4 | 5 => StoreFault::StaleReads,
        6 => StoreFault::ShortenLeases,
        _ => StoreFault::IgnoreWrites,
    }
}

/// Replaces faults that cannot happen over an ensemble, where watch events and replies arrive in
/// the order in which they were sent.
pub(super) fn supported_fault(fault: CandidateFault, store_kind: StoreKind) -> CandidateFault {
    match (fault, store_kind) {
        (CandidateFault::WatchLoss | CandidateFault::WatchDelay(_), StoreKind::Ensemble) => {
            CandidateFault::Pause
        }
        (CandidateFault::Link(link_fault), StoreKind::Ensemble) => {
            CandidateFault::Link(LinkFault { duplicated: 0, ..link_fault })
        }
        (fault, StoreKind::Record | StoreKind::Ensemble) => fault,
    }
}

pub(super) fn draw_server_fault(rng: &mut Rng) -> FaultKind {
    let index = rng.index(5);
    let target = rng.pick(&[
        ServerTarget::OfElectionLeader,
        ServerTarget::OfElectionLeader,
        ServerTarget::QuorumLeader,
        ServerTarget::QuorumLeader,
        ServerTarget::Server(index),
    ]);
    FaultKind::Server(
        target,
        rng.pick(&[
            ServerFault::Partition,
            ServerFault::Partition,
            ServerFault::Pause,
            ServerFault::Crash,
        ]),
    )
}

/// An action of another client on the record.
pub(super) fn draw_external_action(rng: &mut Rng, scale: Duration, model: FaultModel) -> FaultKind {
    let last = match model {
        FaultModel::Assumed => 1,
        FaultModel::External => 6,
    };
    FaultKind::External(match rng.between(0, last) {
        0 => ExternalAction::EditLabel,
        1 => ExternalAction::FalseDeletionEvent,
        2 | 3 => ExternalAction::Delete,
        4 if rng.permille(500) => return FaultKind::Store(StoreFault::Restore(rng.index(30))),
        4 => ExternalAction::ClearHolder,
        5 => ExternalAction::Recreate,
        _ => ExternalAction::SetHolder(rng.skewed_duration(scale)),
    })
}
