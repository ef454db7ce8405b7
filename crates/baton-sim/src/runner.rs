//! The command of a candidate, as its elector sees it: the rules of `src/exec/runner.rs`.
//!
//! Pure. Start with [`Runner::turn`]. The guard at the other end is in `world/guards.rs`. Not
//! simulated: a command that ends by itself, a guard that dies, and a second signal. Tests with real
//! processes cover these (`tests/it/process/exec.rs`).

use baton_election::claim::{Claim, FencingToken};
use baton_election::instant::Instant;
use baton_election::leadership::{Leadership, Loan};
use std::collections::VecDeque;

/// A message to the guard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ToGuard {
    /// Starts the command under this claim.
    Start(Claim),
    /// The claim ends at this instant now.
    Deadline(Instant),
    /// The command must stop within its timeout.
    Stop,
    /// The command must be killed.
    Kill,
    /// The elector has ended.
    ElectorGone,
}

/// A message from the guard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FromGuard {
    /// Too little of the claim was left to start the command.
    TooLate,
    /// The command is being stopped because leadership ends.
    Ending,
    /// No process of the command is left.
    Ended {
        /// Whether the command was stopped because leadership was ending.
        lapsed: bool,
    },
}

/// Runs the command in every term.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runner {
    guarded: Option<Guarded>,
    /// Only a claim that ends later is long enough for the command.
    later_than: Option<Instant>,
    messages: VecDeque<ToGuard>,
}

/// A guard and what it was told.
#[derive(Clone, Debug)]
struct Guarded {
    token: FencingToken,
    /// The deadline that the guard was started with, and the last one that it was told.
    started_with: Instant,
    deadline: Instant,
    was_asked: bool,
    was_killed: bool,
}

impl Runner {
    /// Starts a command if the candidate leads at `now`, or tells the guard what has changed.
    pub(crate) fn turn(&mut self, leadership: &mut Leadership, now: Instant) {
        let loan = leadership.lend(now);
        if let Some(guarded) = &mut self.guarded {
            guarded.inform(loan, &mut self.messages);
            return;
        }
        let is_long_enough =
            |loan: &Loan| self.later_than.is_none_or(|than| loan.claim.deadline() > than);
        let Some(Loan { claim, .. }) = loan.filter(is_long_enough) else {
            leadership.end_loan();
            return;
        };
        self.messages.push_back(ToGuard::Start(claim));
        self.guarded = Some(Guarded {
            token: claim.token(),
            started_with: claim.deadline(),
            deadline: claim.deadline(),
            was_asked: false,
            was_killed: false,
        });
    }

    /// The next message to the guard.
    pub(crate) fn poll_message(&mut self) -> Option<ToGuard> {
        self.messages.pop_front()
    }

    /// Whether the candidate must withdraw when its guard stops the command by itself.
    pub(crate) fn must_withdraw(&self) -> bool {
        self.guarded.as_ref().is_some_and(|guarded| !guarded.was_asked)
    }

    /// The guard has started nothing, or has ended after its command.
    pub(crate) fn end(&mut self, was_too_late: bool, leadership: &mut Leadership) {
        let started_with = self.guarded.take().map(|guarded| guarded.started_with);
        self.later_than = started_with.filter(|_| was_too_late);
        leadership.end_loan();
    }
}

impl Guarded {
    fn inform(&mut self, loan: Option<Loan>, messages: &mut VecDeque<ToGuard>) {
        let Some(loan) = loan.filter(|loan| loan.claim.token() == self.token) else {
            if !self.was_killed {
                self.was_killed = true;
                messages.push_back(ToGuard::Kill);
            }
            return;
        };
        if loan.claim.deadline() > self.deadline {
            self.deadline = loan.claim.deadline();
            messages.push_back(ToGuard::Deadline(self.deadline));
        }
        if loan.is_withdrawn && !self.was_asked {
            self.was_asked = true;
            messages.push_back(ToGuard::Stop);
        }
    }
}
