//! How faults change what the checkers may expect from candidates.
//!
//! Pure. Start with [`CheckerState::fault_began`].

use super::state::CheckerState;
use crate::scenario::{CandidateFault, ExternalAction, Fault, FaultKind, LinkFault, StoreFault};
use crate::trace::TraceContext;
use std::time::Duration;

impl CheckerState {
    pub(super) fn fault_began(
        &mut self,
        context: &TraceContext<'_>,
        fault: &Fault,
        affected: Option<usize>,
    ) {
        let now = context.now;
        self.coverage = self.coverage();
        self.coverage.faults += 1;
        match fault.kind {
            FaultKind::Candidate(_, candidate_fault) => {
                let number = affected.expect("a fault of a candidate names the candidate");
                let lasts = fault.duration > Duration::ZERO;
                self.candidate_fault_began(context, number, candidate_fault, lasts);
            }
            FaultKind::Store(store_fault) => {
                if let StoreFault::Restore(_) = store_fault {
                    (self.external_change, self.restored_at, self.server_fault_at) =
                        (Some((now, false)), Some(now), Some(now));
                    // A deleted record may exist again.
                    (self.greatest_token, self.deleted_at) = (None, None);
                }
                self.store_fault_free_since = now;
                self.store_faults += u32::from(fault.duration > Duration::ZERO);
                if let StoreFault::StaleReads | StoreFault::Restore(_) = store_fault {
                    self.stale_reads_until = self.stale_reads_until.max(Some(fault.end()));
                }
                self.disturb_all(context);
                self.disturbed(now);
            }
            FaultKind::Server(..) => {
                (self.store_fault_free_since, self.server_fault_at) = (now, Some(now));
                self.store_faults += u32::from(fault.duration > Duration::ZERO);
                self.disturb_all(context);
                self.disturbed(now);
            }
            FaultKind::External(action) => self.external_action_taken(context, action),
        }
    }

    fn candidate_fault_began(
        &mut self,
        context: &TraceContext<'_>,
        number: usize,
        fault: CandidateFault,
        lasts: bool,
    ) {
        let now = context.now;
        if blocks_store_access(fault) {
            self.expire_unacknowledged_write(number);
        }
        let candidate = &mut self.candidates[number];
        if !affects_watch_only(fault) {
            candidate.fault_free_since = now;
        }
        candidate.watch_reliable_since = now;
        candidate.watch_faults += u32::from(lasts && affects_watch_only(fault));
        candidate.intermittent_faults += u32::from(lasts && is_intermittent(fault));
        if lasts && is_pause(fault) {
            candidate.pauses += 1;
            candidate.paused_at = context.local_time(number);
        }
        if lasts && blocks_store_access(fault) {
            candidate.faults += 1;
            candidate.disturbed(context.local_time(number));
        }
        self.disturbed(now);
    }

    fn external_action_taken(&mut self, context: &TraceContext<'_>, action: ExternalAction) {
        let now = context.now;
        if !matches!(action, ExternalAction::CreateStrayNode { .. }) {
            self.last_external_action = now;
            self.allow_extra_request();
            // The action contradicts what the candidates know, so they read before they renew.
            for (number, candidate) in self.candidates.iter_mut().enumerate() {
                candidate.contradicted_at = Some(context.local_time(number));
            }
        }
        match action {
            ExternalAction::EditLabel | ExternalAction::FalseDeletionEvent => {
                self.released_at = None;
            }
            // Candidates learn of such a znode only when they list the queue, and then skip it.
            ExternalAction::CreateStrayNode { .. } => {}
            ExternalAction::Delete | ExternalAction::Recreate => {
                let was_quiet =
                    self.is_fault_free() && now.since(self.quiet_since) > self.settling_time;
                self.external_change = Some((now, was_quiet));
                if action == ExternalAction::Delete {
                    self.deleted_at = Some(now);
                }
                self.store_fault_free_since = now;
            }
            ExternalAction::ClearHolder
            | ExternalAction::SetHolder(_)
            | ExternalAction::CloseSession(_) => {
                self.external_change = Some((now, false));
                self.store_fault_free_since = now;
                self.disturbed(now);
            }
        }
    }

    pub(super) fn fault_ended(
        &mut self,
        context: &TraceContext<'_>,
        fault: &Fault,
        affected: Option<usize>,
    ) {
        let now = context.now;
        match fault.kind {
            FaultKind::Candidate(_, candidate_fault) => {
                let number = affected.expect("a fault of a candidate names the candidate");
                let candidate = &mut self.candidates[number];
                if !affects_watch_only(candidate_fault) {
                    candidate.fault_free_since = candidate.fault_free_since.max(now);
                }
                candidate.watch_reliable_since = now;
                candidate.watch_faults -= u32::from(affects_watch_only(candidate_fault));
                candidate.intermittent_faults -= u32::from(is_intermittent(candidate_fault));
                if is_pause(candidate_fault) {
                    candidate.pauses -= 1;
                    candidate.paused_at = context.local_time(number);
                    // The candidate handles the delayed watch events now.
                    candidate.contradicted_at = Some(candidate.paused_at);
                }
                if blocks_store_access(candidate_fault) {
                    candidate.faults -= 1;
                    candidate.disturbed(context.local_time(number));
                }
            }
            FaultKind::Store(_) | FaultKind::Server(..) => {
                (self.store_fault_free_since, self.server_fault_at) = (now, Some(now));
                self.store_faults -= 1;
                self.disturb_all(context);
            }
            FaultKind::External(_) => {}
        }
        self.disturbed(now);
    }

    pub(super) fn allow_extra_request(&mut self) {
        self.candidates.iter_mut().for_each(|candidate| candidate.extra_requests += 1);
    }

    fn disturb_all(&mut self, context: &TraceContext<'_>) {
        for (number, candidate) in self.candidates.iter_mut().enumerate() {
            candidate.disturbed(context.local_time(number));
        }
    }
}

/// Whether a fault blocks or impairs requests of a candidate.
fn blocks_store_access(candidate_fault: CandidateFault) -> bool {
    match candidate_fault {
        CandidateFault::Pause
        | CandidateFault::Freeze
        | CandidateFault::Stall(_)
        | CandidateFault::Link(_) => true,
        // Without watch events a candidate reads. The other faults appear as events of the process.
        CandidateFault::WatchLoss
        | CandidateFault::WatchDelay(_)
        | CandidateFault::Crash
        | CandidateFault::Stop
        | CandidateFault::PreStop
        | CandidateFault::Unasked
        | CandidateFault::Unfit
        | CandidateFault::Resign
        | CandidateFault::Stopping
        | CandidateFault::Done
        | CandidateFault::ClockRate(_) => false,
    }
}

/// Whether only watch events are impaired.
fn affects_watch_only(candidate_fault: CandidateFault) -> bool {
    matches!(candidate_fault, CandidateFault::WatchLoss | CandidateFault::WatchDelay(_))
}

/// Whether the store still receives some requests of the process.
fn is_intermittent(candidate_fault: CandidateFault) -> bool {
    matches!(candidate_fault, CandidateFault::Stall(_) | CandidateFault::Link(_))
        && candidate_fault != CandidateFault::Link(LinkFault::PARTITION)
}

/// Whether the process is suspended.
fn is_pause(candidate_fault: CandidateFault) -> bool {
    matches!(
        candidate_fault,
        CandidateFault::Pause | CandidateFault::Freeze | CandidateFault::Stall(_)
    )
}
