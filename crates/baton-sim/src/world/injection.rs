//! Starts and ends faults.
//!
//! Pure. Start with [`World::begin_fault`].

use crate::clock::{Moment, Rate};
use crate::process::Input;
use crate::scenario::{
    CandidateFault, CandidateTarget, ExternalAction, Fault, FaultKind, StoreFault,
};
use crate::store::Store;
use crate::trace::{ExitCause, Observer, TraceContext, TraceEvent};
use crate::world::{Timer, World};
use baton_election::withdrawals::Order;
use std::time::Duration;

impl<S: Store, O: Observer<S::Election>> World<S, O> {
    /// Starts the fault with index `number`.
    pub(super) fn begin_fault(&mut self, number: usize) {
        let fault = self.scenario.faults[number];
        let affected = match fault.kind {
            FaultKind::Candidate(CandidateTarget::Candidate(candidate), _) => Some(candidate),
            FaultKind::Candidate(CandidateTarget::Leader, _) => Some(self.leader().unwrap_or(0)),
            FaultKind::Server(target, server_fault) => {
                Some(self.store.begin_server_fault(self.now, target, self.leader(), server_fault))
            }
            FaultKind::Store(_) | FaultKind::External(_) => None,
        };
        self.emit_fault(&fault, affected, true);
        if fault.duration > Duration::ZERO {
            self.active_faults.push((fault.end(), number, affected));
        }
        match (fault.kind, affected) {
            (FaultKind::Candidate(_, candidate_fault), Some(candidate)) => {
                self.begin_candidate_fault(number, candidate, candidate_fault, fault.duration);
            }
            (FaultKind::Store(StoreFault::Restore(ago)), _) => {
                let before = self.store.changes();
                self.store.restore(self.now, ago);
                self.apply_effects();
                if self.store.changes() != before {
                    self.record_changed();
                }
            }
            (FaultKind::Store(store_fault), _) => self.store_faults.push((number, store_fault)),
            (FaultKind::External(ExternalAction::FalseDeletionEvent), _) => {
                self.send_false_deletion();
            }
            (FaultKind::External(action), _) => {
                let before = self.store.changes();
                self.store.apply_external_action(self.now, action);
                self.apply_effects();
                if self.store.changes() != before {
                    self.record_changed();
                }
            }
            (FaultKind::Server(..), _) => self.apply_effects(),
            (FaultKind::Candidate(..), None) => {}
        }
    }

    /// Ends the fault with index `number`, which affects the candidate or server `affected`.
    pub(super) fn end_fault(&mut self, number: usize, affected: Option<usize>) {
        let fault = self.scenario.faults[number];
        match (fault.kind, affected) {
            (FaultKind::Candidate(_, candidate_fault), Some(candidate)) => {
                self.end_candidate_fault(number, candidate, candidate_fault);
            }
            (FaultKind::Store(_), _) => self.store_faults.retain(|(other, _)| *other != number),
            (FaultKind::Server(target, server_fault), Some(server)) => {
                self.store.end_server_fault(self.now, target, server, server_fault);
                self.apply_effects();
            }
            (FaultKind::External(_) | FaultKind::Candidate(..) | FaultKind::Server(..), _) => {}
        }
        self.emit_fault(&fault, affected, false);
    }

    fn begin_candidate_fault(
        &mut self,
        number: usize,
        candidate: usize,
        fault: CandidateFault,
        duration: Duration,
    ) {
        let node = &mut self.nodes[candidate];
        match fault {
            CandidateFault::Pause => self.pause(candidate, duration),
            CandidateFault::Freeze => {
                self.set_clock_rate(candidate, Rate::off_by(-1_000_000));
                self.pause(candidate, duration);
            }
            CandidateFault::Stall(max_delay) => {
                node.stalls.push((number, max_delay, self.now + duration));
            }
            CandidateFault::Crash if node.process.is_some() => {
                self.exited(candidate, ExitCause::Crashed);
            }
            CandidateFault::Crash => node.timers.clear(Timer::Start),
            CandidateFault::Stop => self.deliver(candidate, Input::Order(Order::Shutdown)),
            CandidateFault::PreStop => {
                let order = Order::Stopping { limit: duration * 2 };
                self.deliver(candidate, Input::Order(order));
            }
            CandidateFault::Stopping => {
                let order = Order::Stopping { limit: duration };
                self.deliver(candidate, Input::Order(order));
            }
            // `baton exec` has neither `--require-polling` nor `--fit-url`.
            CandidateFault::Unasked | CandidateFault::Unfit
                if self.scenario.candidates[candidate].command.is_some() => {}
            CandidateFault::Unasked => self.deliver(candidate, Input::Order(Order::Unasked)),
            CandidateFault::Unfit => {
                let releases = self.scenario.candidates[candidate].asks;
                self.deliver(candidate, Input::Order(Order::Unfit { releases }));
            }
            CandidateFault::Resign => {
                let order = Order::Resign { hold_off: duration };
                self.deliver(candidate, Input::Order(order));
            }
            CandidateFault::Done => {
                let worker = node.named_worker();
                let piece_of_work = node.pieces_of_work;
                node.pieces_of_work += 1;
                let context = TraceContext { now: self.now, clocks: &self.clocks };
                self.observer.observe(&context, &TraceEvent::WorkDone(candidate, piece_of_work));
                self.deliver(candidate, Input::Done(worker));
            }
            CandidateFault::Link(link_fault) => node.link.begin(number, link_fault),
            CandidateFault::WatchDelay(max_delay) => node.link.delay_watch(number, max_delay),
            CandidateFault::WatchLoss => {
                node.link.watch_faults += 1;
                node.link.watch_is_broken = true;
            }
            CandidateFault::ClockRate(rate) => self.set_clock_rate(candidate, rate),
        }
    }

    fn end_candidate_fault(&mut self, number: usize, candidate: usize, fault: CandidateFault) {
        let node = &mut self.nodes[candidate];
        match fault {
            CandidateFault::Pause
            | CandidateFault::ClockRate(_)
            | CandidateFault::Resign
            | CandidateFault::Stopping => {}
            CandidateFault::Freeze => {
                self.set_clock_rate(candidate, self.scenario.candidates[candidate].clock_rate);
            }
            CandidateFault::Stall(_) => node.stalls.retain(|(other, ..)| *other != number),
            CandidateFault::Crash | CandidateFault::Stop => self.restart(candidate),
            CandidateFault::PreStop => {
                self.deliver(candidate, Input::Order(Order::Shutdown));
                self.restart(candidate);
            }
            CandidateFault::Unasked => self.deliver(candidate, Input::AskedAgain),
            CandidateFault::Unfit => self.deliver(candidate, Input::FitAgain),
            CandidateFault::Done => {
                let worker = node.previous_worker();
                self.deliver(candidate, Input::Done(worker));
            }
            CandidateFault::Link(_) | CandidateFault::WatchDelay(_) => node.link.end(number),
            CandidateFault::WatchLoss => {
                node.link.watch_faults -= 1;
                // A watch that reconnects may deliver an outdated state.
                if node.link.watch_faults == 0 && node.link.rng.permille(500) {
                    node.link.watch_is_broken = false;
                    let ago = node.link.rng.index(4);
                    self.send_watch_state(candidate, ago);
                }
            }
        }
    }

    /// Starts the process of `candidate`, or lets it restart once its current stop is complete.
    fn restart(&mut self, candidate: usize) {
        let node = &mut self.nodes[candidate];
        if node.process.is_none() {
            node.timers.set(Timer::Start, self.now);
        } else {
            node.restarts_after_stop = true;
        }
    }

    /// Changes the rate of the clock of `candidate`, and reschedules the timers that depend on it.
    fn set_clock_rate(&mut self, candidate: usize, rate: Rate) {
        let due = [Timer::CallTimeout, Timer::Wake, Timer::Query].map(|timer| {
            let at = self.nodes[candidate].timers.at(timer);
            (timer, at, self.clocks[candidate].read(at))
        });
        self.clocks[candidate].set_rate(self.now, rate);
        for (timer, at, due) in due {
            if at != Moment::NEVER {
                self.set_timer(candidate, timer, due);
            }
        }
        self.reschedule_guards(candidate);
    }

    fn emit_fault(&mut self, fault: &Fault, affected: Option<usize>, begins: bool) {
        let context = TraceContext { now: self.now, clocks: &self.clocks };
        let event = if begins {
            TraceEvent::FaultBegan(fault, affected)
        } else {
            TraceEvent::FaultEnded(fault, affected)
        };
        self.observer.observe(&context, &event);
    }
}
