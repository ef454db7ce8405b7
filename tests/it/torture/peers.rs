//! The candidates of one peer, in their own election, with the same faults as Baton's.
//!
//! Touches processes. Start with [`Group::begin`].

mod programs;
mod run;

use super::fault::Fault;
use super::injection::{self, Proof, Victim as _, on_link, on_process};
use super::schedule::{CANDIDATES, Step, Victim};
use super::spans::{Span, awake, judge};
use super::stores::Tortured;
use super::tally::{Census, Tally};
use crate::rig::{Moment, Proxy, Rig};
pub(super) use programs::Program;
use run::Run;
use std::sync::Arc;
use std::time::Duration;

/// The pause before a candidate that has ended restarts, as for Baton's candidates.
const RESTART_DELAY: Duration = Duration::from_millis(250);

pub(super) struct Group<'a, S: Tortured> {
    program: &'static Program<S>,
    rig: &'a Rig<S>,
    seats: Vec<Seat>,
    running: Vec<Running>,
    spans: Vec<Span>,
    census: Census,
    tally: Tally,
}

/// One candidate of the election, with its link. A candidate that ends is restarted here.
struct Seat {
    proxy: Arc<Proxy>,
    run: Arc<Run>,
    runs: usize,
    /// When the process was last seen alive, or was killed.
    alive: Moment,
    /// The times at which the process did not run.
    asleep: Vec<(Moment, Moment)>,
}

/// An active fault, and the function that ends it.
struct Running {
    fault: Fault,
    at: usize,
    begun: Moment,
    ends: Moment,
    undo: injection::ProcessUndo,
}

impl<'a, S: Tortured> Group<'a, S> {
    /// Starts every candidate.
    pub(super) fn begin(program: &'static Program<S>, rig: &'a Rig<S>, server: &S::Server) -> Self {
        let address = S::address(server).expect("a store with peers has a link");
        let seat = |at| {
            let proxy = Arc::new(Proxy::to(address));
            let run = Arc::new(Run::start(program, rig, at, 1, proxy.address()));
            Seat { proxy, run, runs: 1, alive: rig.now(), asleep: Vec::new() }
        };
        Self {
            program,
            rig,
            seats: (0..CANDIDATES).map(seat).collect(),
            running: Vec::new(),
            spans: Vec::new(),
            census: Census::default(),
            tally: Tally::default(),
        }
    }

    pub(super) fn has_leader(&self) -> bool {
        self.leader().is_some()
    }

    /// Begins the fault of a step. The arena begins faults of the store, which all elections share.
    pub(super) fn inject(&mut self, step: &Step) {
        let at = match step.victim {
            Victim::Store => return,
            Victim::Candidate(_, number) => Ok(number),
            Victim::Leader(_) => {
                self.leader().ok_or_else(|| "the election has no leader".to_owned())
            }
        };
        match at.and_then(|at| self.act(step, at)) {
            Ok(running) => self.running.push(running),
            Err(why) => self.count(step.fault, &Err(why)),
        }
    }

    fn act(&mut self, step: &Step, at: usize) -> Result<Running, String> {
        let seat = &mut self.seats[at];
        if self.running.iter().any(|running| running.at == at) {
            return Err("another fault is active there".to_owned());
        }
        let begun = self.rig.now();
        let undo = match on_process(&seat.run, step.fault) {
            Some(begun) => begun?,
            None => on_link(&seat.proxy, step.fault).ok_or("it does not apply to peers")?,
        };
        if step.fault == Fault::Kill {
            seat.alive = begun;
        }
        let ends = begun + injection::length(step.fault, step.length);
        Ok(Running { fault: step.fault, at, begun, ends, undo })
    }

    /// Ends faults that are over, restarts candidates that have ended, and measures memory.
    pub(super) fn tend(&mut self) {
        while let Some(at) = self.running.iter().position(|one| one.ends <= self.rig.now()) {
            self.end_fault(at);
        }
        for at in 0..self.seats.len() {
            let is_killed = self.running.iter().any(|one| one.at == at && one.fault == Fault::Kill);
            let seat = &mut self.seats[at];
            if seat.run.is_alive() {
                if !is_killed {
                    seat.alive = self.rig.now();
                }
            } else if self.rig.now().since(seat.alive) >= RESTART_DELAY {
                self.restart(at);
            }
        }
        let alive = self.seats.iter().filter(|seat| seat.run.is_alive());
        self.census.observe(self.rig.now(), alive.map(|seat| seat.run.pid()));
    }

    fn end_fault(&mut self, at: usize) {
        let Running { fault, at, begun, undo, .. } = self.running.swap_remove(at);
        let proof = undo();
        let seat = &mut self.seats[at];
        if matches!(fault, Fault::Pause | Fault::Freeze) {
            seat.asleep.push((begun, self.rig.now()));
        }
        if fault == Fault::Terminate && proof.is_err() {
            // kubelet kills a process that outlives its grace period.
            seat.alive = self.rig.now();
            seat.run.kill();
        }
        self.count(fault, &proof);
    }

    fn count(&mut self, fault: Fault, proof: &Proof) {
        self.rig.note(format!("{}: {fault} ends: {proof:?}", self.program.name));
        match proof {
            Ok(()) => self.tally.acted += 1,
            Err(_) => self.tally.void += 1,
        }
    }

    fn restart(&mut self, at: usize) {
        self.collect(at);
        let seat = &mut self.seats[at];
        seat.runs += 1;
        let address = seat.proxy.address();
        seat.run = Arc::new(Run::start(self.program, self.rig, at, seat.runs, address));
        (seat.alive, seat.asleep) = (self.rig.now(), Vec::new());
    }

    /// Stores the spans of a candidate's run that has ended or ends now.
    fn collect(&mut self, at: usize) {
        let seat = &self.seats[at];
        let spans = seat.run.spans(self.rig, seat.alive);
        self.spans.extend(spans.iter().flat_map(|span| awake(span, &seat.asleep)));
    }

    /// The seat of the leader. If several lead, the one whose term began last.
    fn leader(&self) -> Option<usize> {
        let since = |at: &usize| self.seats[*at].run.leads_since();
        let leading = (0..self.seats.len()).filter(|at| self.seats[*at].run.is_alive());
        leading.filter(|at| since(at).is_some()).max_by_key(since)
    }

    /// Ends every candidate, and returns the program's name and figures.
    pub(super) fn end(mut self, begun: Moment) -> (&'static str, Tally) {
        while !self.running.is_empty() {
            self.end_fault(0);
        }
        let now = self.rig.now();
        for at in 0..self.seats.len() {
            self.collect(at);
            self.seats[at].run.kill();
        }
        let carried = self.seats.iter().map(|seat| seat.proxy.carried()).sum();
        let verdict = judge(&self.spans, now);
        self.rig.note(format!("{}: {verdict:?}", self.program.name));
        self.tally.add(Tally::of(verdict, self.census, carried, now.since(begun)));
        (self.program.name, self.tally)
    }
}
