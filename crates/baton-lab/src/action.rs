//! An action of a person on a run, and the faults that it amounts to.
//!
//! Pure. Start with [`Action::apply`]. An action is written as `kill:2@12500000`: a verb, the
//! candidate if it concerns one, and the true time in microseconds. Links to the lab contain the
//! same text.

use crate::faults::FaultList;
use baton_sim::clock::{Moment, Rate};
use baton_sim::live::LiveRun;
use baton_sim::scenario::{
    CandidateFault, CandidateTarget, ExternalAction, Fault, FaultKind, LinkFault, ServerFault,
    ServerTarget, StoreConfig, StoreFault,
};
use std::fmt;
use std::time::Duration;

/// An action and its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Action {
    /// When it happens.
    pub at: Moment,
    /// Its effect.
    pub kind: ActionKind,
}

/// The kinds of actions. A `usize` is a candidate's index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ActionKind {
    /// SIGKILL.
    Kill(usize),
    /// SIGTERM: a clean stop.
    Stop(usize),
    /// Starts a process that was killed or stopped.
    Restart(usize),
    /// SIGSTOP, or a long garbage collection.
    Pause(usize),
    /// SIGCONT.
    Resume(usize),
    /// Cuts the link to the store.
    Cut(usize),
    /// Repairs the link to the store.
    Heal(usize),
    /// Closes the session in ZooKeeper from outside.
    Expire(usize),
    /// Makes a clock run this many parts per million fast, or slow if negative.
    Clock(usize, i32),
    /// Takes the store down.
    Outage,
    /// Brings the store back.
    Recover,
    /// Restores a backup of the store that is this many changes old.
    Restore(usize),
}

/// Why an action was rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rejection {
    /// The text is not an action.
    Malformed,
    /// There is no such candidate.
    NoCandidate,
    /// No such fault is active.
    NothingToUndo,
    /// The process runs.
    Running,
    /// The process does not run.
    Down,
    /// The fault is active already.
    AlreadyActive,
    /// Only ZooKeeper has sessions.
    NoSession,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "not an action: expected a text such as kill:2@12500000",
            Self::NoCandidate => "there is no such process",
            Self::NothingToUndo => "there is no such fault to end",
            Self::Running => "the process is running",
            Self::Down => "the process is down",
            Self::AlreadyActive => "that fault is already active",
            Self::NoSession => "this store has no sessions",
        })
    }
}

impl Action {
    /// Parses the notation of links.
    pub fn parse(text: &str) -> Result<Self, Rejection> {
        let (words, at) = text.split_once('@').ok_or(Rejection::Malformed)?;
        let micros = at.parse().map_err(|_| Rejection::Malformed)?;
        let mut words = words.split(':');
        let verb = words.next().ok_or(Rejection::Malformed)?;
        let mut number = || words.next().and_then(|word| word.parse::<i32>().ok());
        let mut index = || number().and_then(|number| usize::try_from(number).ok());
        let kind = match verb {
            "kill" => index().map(ActionKind::Kill),
            "stop" => index().map(ActionKind::Stop),
            "restart" => index().map(ActionKind::Restart),
            "pause" => index().map(ActionKind::Pause),
            "resume" => index().map(ActionKind::Resume),
            "cut" => index().map(ActionKind::Cut),
            "heal" => index().map(ActionKind::Heal),
            "expire" => index().map(ActionKind::Expire),
            "restore" => index().map(ActionKind::Restore),
            "clock" => {
                let candidate = index();
                let off = number().filter(|off| off.unsigned_abs() < 900_000);
                candidate.zip(off).map(|(candidate, off)| ActionKind::Clock(candidate, off))
            }
            "outage" => Some(ActionKind::Outage),
            "recover" => Some(ActionKind::Recover),
            _ => None,
        };
        let kind = kind.filter(|_| words.next().is_none()).ok_or(Rejection::Malformed)?;
        Ok(Self { at: Moment::START + Duration::from_micros(micros), kind })
    }
    /// Moves `run` to the moment of the action, and applies the action. Returns how many records
    /// remain unchanged.
    pub fn apply(self, run: &mut LiveRun) -> Result<usize, Rejection> {
        run.seek(self.at);
        let faults = faults_after(run, self)?;
        Ok(run.set_faults(faults))
    }
}

impl ActionKind {
    const fn candidate(self) -> Option<usize> {
        match self {
            Self::Kill(candidate)
            | Self::Stop(candidate)
            | Self::Restart(candidate)
            | Self::Pause(candidate)
            | Self::Resume(candidate)
            | Self::Cut(candidate)
            | Self::Heal(candidate)
            | Self::Expire(candidate)
            | Self::Clock(candidate, _) => Some(candidate),
            Self::Outage | Self::Recover | Self::Restore(_) => None,
        }
    }
}

/// The faults of `run` after `action`. The run must be at the moment of the action.
fn faults_after(run: &LiveRun, action: Action) -> Result<Vec<Fault>, Rejection> {
    let Action { at, kind } = action;
    let faults = FaultList::of(run);
    check(run, &faults, kind)?;
    let forever = run.scenario().end.since(at);
    let for_good = Duration::ZERO;
    let edited = match kind {
        ActionKind::Kill(candidate) => {
            Some(faults.with(for_good, on(candidate, CandidateFault::Crash)))
        }
        ActionKind::Stop(candidate) => {
            Some(faults.with(for_good, on(candidate, CandidateFault::Stop)))
        }
        ActionKind::Pause(candidate) => {
            Some(faults.with(forever, on(candidate, CandidateFault::Pause)))
        }
        ActionKind::Cut(candidate) => Some(faults.with(forever, on(candidate, CUT))),
        ActionKind::Clock(candidate, off) => {
            let fault = CandidateFault::ClockRate(Rate::off_by(off));
            Some(faults.with(for_good, on(candidate, fault)))
        }
        ActionKind::Expire(candidate) => {
            let kind = FaultKind::External(ExternalAction::CloseSession(candidate));
            Some(faults.with(for_good, kind))
        }
        ActionKind::Outage => Some(faults.with(forever, outage(run))),
        ActionKind::Restore(ago) => {
            Some(faults.with(for_good, FaultKind::Store(StoreFault::Restore(ago))))
        }
        ActionKind::Restart(candidate) => {
            faults.ending_last(|kind, affected| affected == Some(candidate) && is_stop(kind))
        }
        ActionKind::Resume(candidate) => {
            faults.ending_all(|kind, affected| affected == Some(candidate) && is_pause(kind))
        }
        ActionKind::Heal(candidate) => {
            faults.ending_all(|kind, affected| affected == Some(candidate) && is_link(kind))
        }
        ActionKind::Recover => faults.ending_all(|kind, _| is_outage(kind)),
    };
    edited.ok_or(Rejection::NothingToUndo)
}

/// Rejects an action that is not possible in the present state of `run`.
fn check(run: &LiveRun, faults: &FaultList, kind: ActionKind) -> Result<(), Rejection> {
    let nodes = run.view().nodes;
    if kind.candidate().is_some_and(|candidate| candidate >= nodes.len()) {
        return Err(Rejection::NoCandidate);
    }
    let is_up = |candidate: usize| nodes[candidate].identity.is_some();
    let is_cut = |candidate| {
        let cuts = |kind| matches!(kind, FaultKind::Candidate(_, fault) if fault == CUT);
        faults.has_active(|kind, affected| affected == Some(candidate) && cuts(kind))
    };
    match kind {
        ActionKind::Kill(candidate)
        | ActionKind::Stop(candidate)
        | ActionKind::Pause(candidate)
            if !is_up(candidate) =>
        {
            Err(Rejection::Down)
        }
        ActionKind::Restart(candidate) if is_up(candidate) => Err(Rejection::Running),
        ActionKind::Pause(candidate) if nodes[candidate].is_paused => Err(Rejection::AlreadyActive),
        ActionKind::Resume(candidate) if !nodes[candidate].is_paused => {
            Err(Rejection::NothingToUndo)
        }
        ActionKind::Cut(candidate) if is_cut(candidate) => Err(Rejection::AlreadyActive),
        ActionKind::Outage if faults.has_active(|kind, _| kind == outage(run)) => {
            Err(Rejection::AlreadyActive)
        }
        ActionKind::Expire(_) if !has_sessions(run) => Err(Rejection::NoSession),
        ActionKind::Kill(_)
        | ActionKind::Stop(_)
        | ActionKind::Pause(_)
        | ActionKind::Restart(_)
        | ActionKind::Resume(_)
        | ActionKind::Cut(_)
        | ActionKind::Outage
        | ActionKind::Expire(_)
        | ActionKind::Heal(_)
        | ActionKind::Clock(..)
        | ActionKind::Recover
        | ActionKind::Restore(_) => Ok(()),
    }
}

const CUT: CandidateFault = CandidateFault::Link(LinkFault::PARTITION);

const fn on(candidate: usize, fault: CandidateFault) -> FaultKind {
    FaultKind::Candidate(CandidateTarget::Candidate(candidate), fault)
}

const fn has_sessions(run: &LiveRun) -> bool {
    matches!(run.scenario().store, StoreConfig::Ensemble(_))
}

const fn outage(run: &LiveRun) -> FaultKind {
    if has_sessions(run) {
        FaultKind::Server(ServerTarget::From(0), ServerFault::Crash)
    } else {
        FaultKind::Store(StoreFault::Refuse)
    }
}

const fn is_stop(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::Candidate(_, CandidateFault::Crash | CandidateFault::Stop))
}

const fn is_pause(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::Candidate(_, CandidateFault::Pause | CandidateFault::Freeze))
}

const fn is_link(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::Candidate(_, CandidateFault::Link(_)))
}

const fn is_outage(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::Store(_) | FaultKind::Server(..))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenarios::scenario;
    use baton_sim::world::NodeView;

    fn moment(seconds: u64) -> Moment {
        Moment::START + Duration::from_secs(seconds)
    }

    /// The run of the scenario `name` after these actions.
    fn after(name: &str, actions: &[&str]) -> Result<LiveRun, Rejection> {
        let mut run = LiveRun::new(scenario(name, 1).unwrap());
        for action in actions {
            Action::parse(action)?.apply(&mut run)?;
        }
        Ok(run)
    }

    #[test]
    fn actions_parse_or_are_rejected() {
        let action = Action::parse("clock:3:-50000@7000000").unwrap();
        assert_eq!(action, Action { at: moment(7), kind: ActionKind::Clock(3, -50_000) });
        for text in
            ["", "kill", "kill:1", "kill@1", "kill:-1@1", "kill:1:2@1", "fly:1@1", "kill:1@x"]
        {
            assert_eq!(Action::parse(text), Err(Rejection::Malformed), "{text}");
        }
    }

    #[test]
    fn resume_ends_the_pause_at_its_own_time() {
        let actions = ["pause:1@3000000", "kill:0@4000000", "resume:1@5000000"];
        let run = after("free-play", &actions).unwrap();
        let faults = &run.scenario().faults;
        let pause = Fault {
            at: moment(3),
            duration: Duration::from_secs(2),
            kind: on(1, CandidateFault::Pause),
        };
        assert_eq!(faults[0], pause);
        assert_eq!(faults[1].duration, Duration::ZERO, "it is killed for good");
    }

    #[test]
    fn senseless_actions_are_rejected() {
        for (actions, rejection) in [
            (&["resume:1@3000000"][..], Rejection::NothingToUndo),
            (&["heal:1@3000000"], Rejection::NothingToUndo),
            (&["recover@3000000"], Rejection::NothingToUndo),
            (&["cut:1@3000000", "cut:1@4000000"], Rejection::AlreadyActive),
            (&["pause:1@3000000", "pause:1@4000000"], Rejection::AlreadyActive),
            (&["outage@3000000", "outage@4000000"], Rejection::AlreadyActive),
            (&["kill:5@3000000"], Rejection::NoCandidate),
            (&["restart:1@3000000"], Rejection::Running),
            (&["kill:1@3000000", "kill:1@4000000"], Rejection::Down),
            (&["kill:1@3000000", "stop:1@4000000"], Rejection::Down),
            (&["kill:1@3000000", "pause:1@4000000"], Rejection::Down),
            (&["kill:1@3000000", "restart:1@4000000", "restart:1@5000000"], Rejection::Running),
        ] {
            assert_eq!(after("free-play", actions).err(), Some(rejection), "{actions:?}");
        }
    }

    /// The script targets the leader, which is the first candidate to start.
    #[test]
    fn faults_of_a_script_can_be_ended() {
        for (name, at, action) in [
            ("leader-dies", 12, "restart:0@12000000"),
            ("mid-chain", 12, "restart:2@12000000"),
            ("crash", 12, "restart:0@12000000"),
            ("handoff", 14, "restart:0@14000000"),
            ("long-partition", 12, "heal:0@12000000"),
            ("paused-leader", 12, "resume:0@12000000"),
            ("outage", 12, "recover@12000000"),
        ] {
            let run = after(name, &[action]).unwrap_or_else(|it| panic!("{name}: {it}"));
            let [fault] = run.scenario().faults[..] else { panic!("{name}") };
            assert_eq!(fault.end(), moment(at), "{name}");
            let mut run = run;
            run.seek(moment(at + 1));
            let nodes = run.view().nodes;
            let is_whole = |it: &NodeView| it.identity.is_some() && !it.is_paused;
            assert!(nodes.iter().all(is_whole), "{name}: {nodes:?}");
            assert!(nodes.iter().all(|it| !it.is_link_impaired), "{name}: {nodes:?}");
        }
    }

    #[test]
    fn paused_process_of_a_script_is_not_paused_twice() {
        let twice = after("fencing", &["pause:0@12000000"]).err();
        assert_eq!(twice, Some(Rejection::AlreadyActive));
    }

    #[test]
    fn fault_is_undone_at_its_own_moment() {
        for (begin, end) in [("kill:1", "restart:1"), ("cut:1", "heal:1"), ("pause:1", "resume:1")]
        {
            let actions = [format!("{begin}@3000000"), format!("{end}@3000000")];
            let run = after("free-play", &[&actions[0], &actions[1]]).unwrap();
            assert_eq!(run.scenario().faults, [], "{begin}");
        }
    }
}
