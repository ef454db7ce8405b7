//! The candidates of a run, their links to the store, and the faults that are active.
//!
//! It starts and restarts processes. Start with [`Arena::begin`].

use super::fault::{Backend, Fault, Scope};
use super::schedule::{CANDIDATES, Step, Victim};
use super::stores::Tortured;
use crate::noise::never_excuse;
use crate::rig::{Candidate, ELECTIONS, Ledger, Proxy, Rig, eventually};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long a candidate that has ended is left alone.
const RESTART_DELAY: Duration = Duration::from_millis(250);

/// The time for a command to end by itself before it is killed.
const KILL_AFTER: &str = "600ms";

const PATIENCE: Duration = Duration::from_secs(15);

/// The command of a candidate that runs one: it notes the token and the time, over and over.
const COMMAND: &str = "note";

pub(super) struct Arena<'a, S: Tortured> {
    pub(super) slots: Vec<Slot>,
    pub(super) active: Vec<Active>,
    /// Elections whose record a stranger has deleted, and no candidate has written since.
    pub(super) deleted: BTreeSet<usize>,
    pub(super) rig: &'a Rig<S>,
    pub(super) server: &'a mut S::Server,
    /// The ledger of the commands of the first election, if its candidates run commands.
    ledger: Option<&'a Ledger<'a, S>>,
}

/// A place of a candidate, which restarts there when it ends.
pub(super) struct Slot {
    pub(super) election: usize,
    number: usize,
    pub(super) candidate: Arc<Candidate>,
    pub(super) proxy: Option<Arc<Proxy>>,
    /// The state directory, and how many there were before.
    state: Option<(PathBuf, usize)>,
}

/// Where a fault acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Slot(usize),
    Record(usize),
    Store,
}

/// A fault that has begun.
#[derive(Clone, Copy)]
pub(super) struct Active {
    pub(super) fault: Fault,
    pub(super) target: Target,
}

impl<'a, S: Tortured> Arena<'a, S> {
    /// Starts every candidate of so many elections.
    pub(super) fn begin(
        elections: usize,
        rig: &'a Rig<S>,
        server: &'a mut S::Server,
        ledger: Option<&'a Ledger<'a, S>>,
    ) -> Self {
        let mut arena = Self {
            slots: Vec::new(),
            active: Vec::new(),
            deleted: BTreeSet::new(),
            rig,
            server,
            ledger,
        };
        for at in 0..elections * CANDIDATES {
            let (election, number) = (at / CANDIDATES, at % CANDIDATES);
            let proxy = S::address(arena.server).map(|address| Arc::new(Proxy::to(address)));
            let state = (number == 0).then(|| arena.state_directory(at, 0));
            let candidate = arena.start(election, number, proxy.as_deref(), state.as_ref());
            arena.slots.push(Slot { election, number, candidate, proxy, state });
        }
        arena
    }

    /// Where a step acts now; an error says why it cannot.
    pub(super) fn target(&self, step: &Step) -> Result<Target, String> {
        if step.victim.election().is_some_and(|election| self.of(election).count() == 0) {
            return Err(format!("there is no {}", step.victim));
        }
        let target = match (step.fault.scope(), step.victim) {
            (Scope::Store, Victim::Store) => Target::Store,
            (Scope::Record, Victim::Leader(election)) => Target::Record(election),
            (Scope::Candidate | Scope::Remembering, Victim::Candidate(election, number)) => {
                Target::Slot(election * CANDIDATES + number)
            }
            (Scope::Candidate | Scope::Leader, Victim::Leader(election)) => {
                Target::Slot(self.leader(election).ok_or("the election has no leader")?)
            }
            (
                Scope::Store
                | Scope::Record
                | Scope::Leader
                | Scope::Remembering
                | Scope::Candidate,
                victim,
            ) => {
                return Err(format!("{} does not apply to {victim}", step.fault));
            }
        };
        let is_taken = |active: &&Active| match (active.target, target) {
            (Target::Slot(one), Target::Slot(other))
            | (Target::Record(one), Target::Record(other)) => one == other,
            (Target::Store, Target::Store | Target::Record(_))
            | (Target::Record(_), Target::Store) => true,
            (Target::Slot(_), Target::Record(_) | Target::Store)
            | (Target::Record(_) | Target::Store, Target::Slot(_)) => false,
        };
        match (self.active.iter().find(is_taken), target) {
            (Some(active), _) => Err(format!("{} is active there", active.fault)),
            (None, Target::Slot(at)) if !self.slots[at].candidate.is_alive() => {
                Err("the candidate does not run".to_owned())
            }
            (None, target) => Ok(target),
        }
    }

    /// The slot of the candidate that made the latest promise.
    fn leader(&self, election: usize) -> Option<usize> {
        let promise = self.rig.latest_promise(ELECTIONS[election])?;
        self.slots.iter().position(|slot| slot.candidate.identity == promise.identity)
    }

    /// Whether a fault is active that may affect this election.
    pub(super) fn is_disturbed(&self, election: usize) -> bool {
        let affects = |active: &Active| match active.target {
            Target::Slot(at) => self.slots[at].election == election,
            Target::Record(record) => record == election,
            Target::Store => true,
        };
        self.active.iter().any(affects)
    }

    /// The processes of the candidates that run without a fault of their own.
    pub(super) fn undisturbed(&self) -> Vec<u32> {
        let is_free = |at: &usize| {
            let target = Target::Slot(*at);
            self.slots[*at].candidate.is_alive()
                && self.active.iter().all(|active| active.target != target)
        };
        let free = (0..self.slots.len()).filter(is_free);
        free.map(|at| self.slots[at].candidate.pid()).collect()
    }

    /// A candidate of the election that does not run.
    pub(super) fn missing(&self, election: usize) -> Option<&str> {
        let missing = self.of(election).find(|slot| !slot.candidate.is_alive());
        missing.map(|slot| &*slot.candidate.label)
    }

    /// The slots of an election.
    pub(super) fn of(&self, election: usize) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(move |slot| slot.election == election)
    }

    /// Restarts each candidate that has ended, as kubelet does.
    pub(super) fn tend(&mut self) {
        let now = self.rig.now();
        for at in 0..self.slots.len() {
            let election = self.slots[at].election;
            let Some(end) = self.slots[at].candidate.ended() else { continue };
            if now.since(end.seen) < RESTART_DELAY || self.holds_restarts(election) {
                continue;
            }
            let Slot { number, candidate, proxy, state, .. } = &self.slots[at];
            must_be_explained(candidate);
            let next = self.start(election, *number, proxy.as_deref(), state.as_ref());
            self.slots[at].candidate = next;
        }
    }

    /// Kills every candidate, so that the end of a command ends none.
    pub(super) fn end(&self) {
        for Slot { candidate, .. } in &self.slots {
            candidate.try_signal(Signal::KILL);
            eventually(PATIENCE, "the candidate ends", || !candidate.is_alive());
            must_be_explained(candidate);
        }
    }

    /// Whether a candidate that starts now would fail for what the test does, or would never have
    /// seen the record: docs/concepts/guarantees.md.
    fn holds_restarts(&mut self, election: usize) -> bool {
        let is_store_disturbed = self.active.iter().any(|active| active.target == Target::Store);
        if is_store_disturbed && (S::BACKEND == Backend::File || self.deleted.contains(&election)) {
            return true;
        }
        if self.deleted.contains(&election)
            && !self.rig.store.holder(ELECTIONS[election]).is_empty()
        {
            self.deleted.remove(&election);
        }
        self.deleted.contains(&election)
    }

    /// Gives a slot a new state directory, as a new Pod has.
    pub(super) fn forget(&mut self, at: usize) {
        if let Some((_, count)) = self.slots[at].state {
            self.slots[at].state = Some(self.state_directory(at, count + 1));
        }
    }

    fn state_directory(&self, at: usize, count: usize) -> (PathBuf, usize) {
        let path = self.rig.folder().join(format!("state-{at}-{count}"));
        fs::create_dir(&path).expect("the folder is ours");
        (path, count)
    }

    fn start(
        &self,
        election: usize,
        number: usize,
        proxy: Option<&Proxy>,
        state: Option<&(PathBuf, usize)>,
    ) -> Arc<Candidate> {
        let name = format!("{}{election}", ["a", "b", "c"][number]);
        let mut start = self.rig.candidate(&name).election(ELECTIONS[election]);
        if let Some(proxy) = proxy {
            start = self.rig.store.through(start, proxy.address());
        }
        if let Some((directory, _)) = state {
            // Only an application that is declared to ask lets the next run release.
            start = start.state_directory(directory).flag("--on-lost", "stay");
        }
        if let Some(ledger) = self.ledger.filter(|_| election == 0) {
            start = start.flag("--kill-after", KILL_AFTER).flag("--stop-timeout", "1s");
            start = start.running(&ledger.script(COMMAND));
        }
        start.start()
    }
}

fn must_be_explained(candidate: &Candidate) {
    if let Some(Err(unexplained)) = candidate.explained_end() {
        never_excuse();
        panic!("{unexplained}, which no fault explains");
    }
}
