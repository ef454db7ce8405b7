//! An action of a person on a run, and the faults that it amounts to.
//!
//! Pure. Start with [`Action`]. An action is written as `kill:2@12500000`: a verb, the candidate if
//! it concerns one, and the true time in microseconds. Links to the lab contain the same text.

use baton_sim::clock::{Moment, Rate};
use baton_sim::scenario::{
    CandidateFault, CandidateTarget, ExternalAction, Fault, FaultKind, LinkFault, Scenario,
    ServerFault, ServerTarget, StoreConfig, StoreFault,
};
use std::fmt;
use std::time::Duration;

/// An action and its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Action {
    /// When it happens.
    pub at: Moment,
    /// The deed.
    pub deed: Deed,
}

/// The kinds of actions. A `usize` is a candidate's index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
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
    /// Nothing can be undone: the process runs, or the link is whole.
    NothingToUndo,
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
            Self::AlreadyActive => "that fault is active already",
            Self::NoSession => "this store has no sessions",
        })
    }
}

impl Action {
    /// Parses the notation of links.
    pub fn parse(text: &str) -> Result<Self, Rejection> {
        let (deed, at) = text.split_once('@').ok_or(Rejection::Malformed)?;
        let micros = at.parse().map_err(|_| Rejection::Malformed)?;
        let mut words = deed.split(':');
        let verb = words.next().ok_or(Rejection::Malformed)?;
        let mut number = || words.next().and_then(|word| word.parse::<i32>().ok());
        let mut index = || number().and_then(|number| usize::try_from(number).ok());
        let deed = match verb {
            "kill" => index().map(Deed::Kill),
            "stop" => index().map(Deed::Stop),
            "restart" => index().map(Deed::Restart),
            "pause" => index().map(Deed::Pause),
            "resume" => index().map(Deed::Resume),
            "cut" => index().map(Deed::Cut),
            "heal" => index().map(Deed::Heal),
            "expire" => index().map(Deed::Expire),
            "restore" => index().map(Deed::Restore),
            "clock" => {
                let who = index();
                let off = number().filter(|off| off.unsigned_abs() < 900_000);
                who.zip(off).map(|(who, off)| Deed::Clock(who, off))
            }
            "outage" => Some(Deed::Outage),
            "recover" => Some(Deed::Recover),
            _ => None,
        };
        let deed = deed.filter(|_| words.next().is_none()).ok_or(Rejection::Malformed)?;
        Ok(Self { at: Moment::START + Duration::from_micros(micros), deed })
    }
}

/// The faults of `scenario` after `action`, ordered by their start.
pub fn faults_after(scenario: &Scenario, action: Action) -> Result<Vec<Fault>, Rejection> {
    let Action { at, deed } = action;
    let mut faults = scenario.faults.clone();
    let has_sessions = matches!(scenario.store, StoreConfig::Ensemble(_));
    let forever = scenario.end.since(at);
    match deed {
        Deed::Kill(who) => start(&mut faults, at, Duration::ZERO, on(who, CandidateFault::Crash)),
        Deed::Stop(who) => start(&mut faults, at, Duration::ZERO, on(who, CandidateFault::Stop)),
        Deed::Pause(who) => begin(&mut faults, at, forever, on(who, CandidateFault::Pause))?,
        Deed::Cut(who) => begin(&mut faults, at, forever, on(who, CUT))?,
        Deed::Clock(who, off) => {
            let fault = CandidateFault::ClockRate(Rate::off_by(off));
            start(&mut faults, at, Duration::ZERO, on(who, fault));
        }
        Deed::Expire(_) if !has_sessions => return Err(Rejection::NoSession),
        Deed::Expire(who) => {
            let kind = FaultKind::External(ExternalAction::CloseSession(who));
            start(&mut faults, at, Duration::ZERO, kind);
        }
        Deed::Outage => begin(&mut faults, at, forever, outage(has_sessions))?,
        Deed::Restore(ago) => {
            let kind = FaultKind::Store(StoreFault::Restore(ago));
            start(&mut faults, at, Duration::ZERO, kind);
        }
        Deed::Restart(who) => {
            let is_end = |kind| {
                kind == on(who, CandidateFault::Crash) || kind == on(who, CandidateFault::Stop)
            };
            end(&mut faults, at, |fault| fault.duration.is_zero() && is_end(fault.kind))?;
        }
        Deed::Resume(who) => end_active(&mut faults, at, on(who, CandidateFault::Pause))?,
        Deed::Heal(who) => end_active(&mut faults, at, on(who, CUT))?,
        Deed::Recover => end_active(&mut faults, at, outage(has_sessions))?,
    }
    let candidates = scenario.candidates.len();
    let is_known = |fault: &Fault| match fault.kind {
        FaultKind::Candidate(CandidateTarget::Candidate(who), _)
        | FaultKind::External(ExternalAction::CloseSession(who)) => who < candidates,
        FaultKind::Candidate(CandidateTarget::Leader, _)
        | FaultKind::Store(_)
        | FaultKind::Server(..)
        | FaultKind::External(_) => true,
    };
    faults.iter().all(is_known).then_some(faults).ok_or(Rejection::NoCandidate)
}

const CUT: CandidateFault = CandidateFault::Link(LinkFault::PARTITION);

const fn on(candidate: usize, fault: CandidateFault) -> FaultKind {
    FaultKind::Candidate(CandidateTarget::Candidate(candidate), fault)
}

const fn outage(has_servers: bool) -> FaultKind {
    if has_servers {
        FaultKind::Server(ServerTarget::From(0), ServerFault::Crash)
    } else {
        FaultKind::Store(StoreFault::Refuse)
    }
}

/// Adds a fault after those that start at the same moment.
fn start(faults: &mut Vec<Fault>, at: Moment, duration: Duration, kind: FaultKind) {
    let later = faults.partition_point(|fault| fault.at <= at);
    faults.insert(later, Fault { at, duration, kind });
}

/// Starts a fault that lasts, unless it is active.
fn begin(
    faults: &mut Vec<Fault>,
    at: Moment,
    duration: Duration,
    kind: FaultKind,
) -> Result<(), Rejection> {
    if faults.iter().any(|fault| fault.kind == kind && fault.at <= at && at < fault.end()) {
        return Err(Rejection::AlreadyActive);
    }
    start(faults, at, duration, kind);
    Ok(())
}

fn end_active(faults: &mut [Fault], at: Moment, kind: FaultKind) -> Result<(), Rejection> {
    end(faults, at, |fault| fault.kind == kind && at < fault.end())
}

/// Ends the latest fault that started before `at` and that `is_meant`.
fn end(
    faults: &mut [Fault],
    at: Moment,
    is_meant: impl Fn(&Fault) -> bool,
) -> Result<(), Rejection> {
    let fault = faults
        .iter_mut()
        .rfind(|fault| fault.at < at && is_meant(fault))
        .ok_or(Rejection::NothingToUndo)?;
    fault.duration = at.since(fault.at);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenarios::scenario;

    fn moment(seconds: u64) -> Moment {
        Moment::START + Duration::from_secs(seconds)
    }

    fn after(actions: &[&str]) -> Result<Vec<Fault>, Rejection> {
        let mut scenario = scenario("free-play", 1).unwrap();
        for action in actions {
            scenario.faults = faults_after(&scenario, Action::parse(action)?)?;
        }
        Ok(scenario.faults)
    }

    #[test]
    fn actions_parse_or_are_rejected() {
        let action = Action::parse("clock:3:-50000@7000000").unwrap();
        assert_eq!(action, Action { at: moment(7), deed: Deed::Clock(3, -50_000) });
        for text in
            ["", "kill", "kill:1", "kill@1", "kill:-1@1", "kill:1:2@1", "fly:1@1", "kill:1@x"]
        {
            assert_eq!(Action::parse(text), Err(Rejection::Malformed), "{text}");
        }
    }

    #[test]
    fn resume_ends_the_pause_at_its_own_time() {
        let faults = after(&["pause:1@3000000", "kill:0@4000000", "resume:1@5000000"]).unwrap();
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
            (&["resume:1@1000000"][..], Rejection::NothingToUndo),
            (&["restart:1@1000000"], Rejection::NothingToUndo),
            (&["cut:1@1000000", "cut:1@2000000"], Rejection::AlreadyActive),
            (&["kill:5@1000000"], Rejection::NoCandidate),
        ] {
            assert_eq!(after(actions), Err(rejection), "{actions:?}");
        }
    }
}
