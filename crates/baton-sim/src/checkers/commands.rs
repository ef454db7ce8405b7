//! Commands: each ends before its claim does, and a release waits for it.
//!
//! Pure. Start with [`command_ends_before_its_claim`]. Each function is one property.

use super::exclusion::name;
use super::inspect::Inspect;
use super::state::CheckerState;
use crate::clock::Moment;
use crate::scenario::CommandConfig;
use crate::trace::{CommandEvent, TraceContext, TraceEvent};
use baton_election::claim::{Claim, FencingToken};
use baton_election::instant::Instant;
use baton_election::machine::{Election, Withdrawal};
use std::time::Duration;

/// The longest that a new deadline takes to reach a guard.
const DELIVERY: Duration = Duration::from_millis(10);

/// The command of one candidate, from the order to start it to its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command {
    token: FencingToken,
    /// The end of its claim, by the candidate's clock.
    deadline: Instant,
    /// When the claim was extended last.
    extended_at: Instant,
    /// When the write was applied that the claim rests on.
    applied_at: Option<Moment>,
    stage: Stage,
    /// Whether its candidate has withdrawn since it was ordered.
    was_asked: bool,
    /// Whether the process that ordered it has ended.
    is_orphan: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Ordered,
    Running,
    /// Its guard has begun to stop it. That is final: no later deadline counts.
    Ending,
}

/// The commands of one candidate: an earlier process may leave one behind.
#[derive(Clone, Default, Debug)]
pub(super) struct Commands {
    all: Vec<Command>,
    /// The time between SIGTERM and the end of the claim.
    grace: Duration,
}

impl Command {
    fn runs(&self) -> bool {
        self.stage != Stage::Ordered
    }
}

impl Commands {
    pub(super) fn new(config: Option<CommandConfig>) -> Self {
        let grace = config.map_or(Duration::ZERO, |config| config.grace);
        Self { all: Vec::new(), grace }
    }

    /// Marks the commands of a candidate that withdraws.
    pub(super) fn ask(&mut self) {
        self.all.iter_mut().for_each(|command| command.was_asked = true);
    }

    /// Marks the commands of a process that has ended.
    pub(super) fn orphan(&mut self) {
        self.all.iter_mut().for_each(|command| command.is_orphan = true);
    }

    /// The claim was renewed when the candidate's clock read `local_time`.
    pub(super) fn extend(&mut self, claim: Claim, applied_at: Option<Moment>, local_time: Instant) {
        let of_claim = |command: &&mut Command| {
            !command.is_orphan && command.stage != Stage::Ending && command.token == claim.token()
        };
        for command in self.all.iter_mut().filter(of_claim) {
            command.deadline = command.deadline.max(claim.deadline());
            (command.applied_at, command.extended_at) = (applied_at, local_time);
        }
    }

    /// Whether the candidate has a command at all.
    const fn is_configured(&self) -> bool {
        !self.grace.is_zero()
    }

    /// Whether any command has been ordered and has not ended.
    pub(super) const fn has_any(&self) -> bool {
        !self.all.is_empty()
    }

    /// Whether any command runs, including commands of earlier processes.
    pub(super) fn any_runs(&self) -> bool {
        self.running().next().is_some()
    }

    /// The command that the present process has ordered and that has not ended.
    fn own(&self) -> Option<&Command> {
        self.all.iter().find(|command| !command.is_orphan)
    }

    /// The command of the present process, if no other one has this token.
    fn only_of(&self, token: FencingToken) -> Option<&Command> {
        let is_shared = self.all.iter().any(|command| command.token == token && command.is_orphan);
        self.own().filter(|command| command.token == token && !is_shared)
    }

    fn running(&self) -> impl Iterator<Item = &Command> {
        self.all.iter().filter(|command| command.runs())
    }
}

impl CheckerState {
    pub(super) fn command_changed(
        &mut self,
        context: &TraceContext<'_>,
        number: usize,
        token: FencingToken,
        event: CommandEvent,
    ) {
        let candidate = &mut self.candidates[number];
        let applied_at = candidate.applied_at();
        let commands = &mut candidate.commands.all;
        match event {
            CommandEvent::Ordered => {
                let Some(deadline) = candidate.claim.map(|claim| claim.deadline()) else { return };
                let (stage, was_asked, is_orphan) = (Stage::Ordered, false, false);
                let extended_at = context.local_time(number);
                let ordered = Command {
                    token,
                    deadline,
                    extended_at,
                    applied_at,
                    stage,
                    was_asked,
                    is_orphan,
                };
                commands.push(ordered);
            }
            CommandEvent::Started => {
                self.coverage.commands += 1;
                let mut of_token = commands.iter_mut().filter(|command| command.token == token);
                if let Some(command) = of_token.next_back() {
                    command.stage = Stage::Running;
                }
            }
            // A restored store may issue a token again, while a killed process's command still
            // runs under it. The older command ends first.
            CommandEvent::Ending => {
                let mut of_token = commands.iter_mut().filter(|command| command.token == token);
                if let Some(command) = of_token.find(|command| command.stage != Stage::Ending) {
                    command.stage = Stage::Ending;
                }
            }
            CommandEvent::Ended => {
                let oldest = commands.iter().position(|command| command.token == token);
                oldest.map(|oldest| commands.remove(oldest));
            }
        }
    }
}

/// No command starts while the command of another candidate runs.
pub(super) fn at_most_one_command<E: Election>(
    state: &CheckerState,
    _: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::Command(number, token, CommandEvent::Started) = event else { return None };
    let commands = |number: usize| &state.candidates[number].commands.all;
    let started = commands(*number).iter().find(|command| command.token == *token)?;
    let all = (0..state.candidates.len()).flat_map(|other| {
        state.candidates[other].commands.running().map(move |command| (other, command))
    });
    all.into_iter().find(|(_, other)| !state.is_excused(started.applied_at, other.applied_at)).map(
        |(other, command)| {
            let (number, other, running) = (name(*number), name(other), command.token);
            format!("{number} starts a command, token {token}, while {other} runs one of {running}")
        },
    )
}

/// No process of a command is left when its claim ends, even if its elector hangs or has crashed.
pub(super) fn command_ends_before_its_claim<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    _: &TraceEvent<'_, E>,
) -> Option<String> {
    if !state.summary.has_commands {
        return None;
    }
    (0..state.candidates.len()).find_map(|number| {
        let mut running = state.candidates[number].commands.running();
        let late = running.find(|command| command.deadline < context.local_time(number))?;
        let Command { token, deadline, .. } = late;
        let number = name(number);
        Some(format!("the command of {number}, token {token}, runs after {deadline:?}"))
    })
}

/// A command starts under the claim that its candidate publishes, and never after a withdrawal.
pub(super) fn command_starts_for_a_leader<E: Election>(
    state: &CheckerState,
    _: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::Command(number, token, CommandEvent::Ordered) = event else { return None };
    let candidate = &state.candidates[*number];
    let is_of_claim = candidate.claim.is_some_and(|claim| claim.token() == *token);
    let is_alone = candidate.commands.own().is_none();
    (!is_of_claim || !is_alone || candidate.withdrawal.is_some()).then(|| {
        let (claim, withdrawal) = (candidate.claim, candidate.withdrawal);
        let number = name(*number);
        format!("{number} orders a command, token {token}, under {claim:?}, {withdrawal:?}")
    })
}

/// The holder sends a release only when no process of its command is left. A candidate that lost its
/// term may release a record that a restored store brought back: others could lead since the loss.
pub(super) fn release_waits_for_the_command<E: Inspect>(
    state: &CheckerState,
    _: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::RequestSent(number, request, sent) = event else { return None };
    let candidate = &state.candidates[*number];
    let command = candidate.commands.own()?;
    let holds = state.holder == candidate.identity && !candidate.has_lost;
    (E::is_release(request) && holds).then(|| {
        let (number, token) = (name(*number), command.token);
        format!("{number} sends a release at {sent:?}, while its command of {token} runs")
    })
}

/// A leader that withdraws to release keeps renewing while its command stops.
pub(super) fn claim_is_renewed_for_the_command<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::Withdrew(number, Withdrawal::Releasing) = event else { return None };
    let candidate = &state.candidates[*number];
    let command = candidate.commands.own()?;
    let stops_renewing = candidate.claims(context.local_time(*number)) && command.runs();
    stops_renewing.then(|| {
        let (number, token) = (name(*number), command.token);
        format!("{number} stops renewing while its command of {token} runs")
    })
}

/// A guard that its elector keeps informed stops the command only when the claim is about to end.
pub(super) fn command_is_stopped_for_a_reason<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::Command(number, token, CommandEvent::Ending) = event else { return None };
    let commands = &state.candidates[*number].commands;
    let command = commands.only_of(*token)?;
    let local_time = context.local_time(*number);
    let is_informed = local_time.since(command.extended_at) > DELIVERY;
    let is_early = command.deadline.since(local_time) > commands.grace;
    (is_informed && is_early).then(|| {
        let (number, Command { deadline, extended_at, .. }) = (name(*number), command);
        format!(
            "the command of {number} is stopped, although {deadline:?} holds since {extended_at:?}"
        )
    })
}

/// A command that nothing stops goes on: simulated commands never end by themselves.
pub(super) fn command_ends_for_a_reason<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::Command(number, token, CommandEvent::Ended) = event else { return None };
    let candidate = &state.candidates[*number];
    let command = candidate.commands.only_of(*token)?;
    let leads = candidate.claims(context.local_time(*number)) && candidate.term == Some(*token);
    (command.stage == Stage::Running && !command.was_asked && leads)
        .then(|| format!("the command of {} ends while its candidate leads", name(*number)))
}

/// A leader without a fault runs its command, once it has settled.
pub(super) fn leader_runs_its_command<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    _: &TraceEvent<'_, E>,
) -> Option<String> {
    if !state.runs_commands || !state.is_calm(context.now) {
        return None;
    }
    let is_idle = |number: &usize| {
        let candidate = &state.candidates[*number];
        candidate.commands.is_configured()
            && candidate.withdrawal.is_none()
            && candidate.claims(context.local_time(*number))
            && !candidate.commands.own().is_some_and(Command::runs)
    };
    (0..state.candidates.len())
        .find(is_idle)
        .map(|number| format!("{} leads without its command", name(number)))
}
