//! One candidate of a world: its process, its link, its timers, and its past active_faults.
//!
//! Pure.

use super::network::Call;
use crate::clock::Moment;
use crate::link::Link;
use crate::process::{Input, Process};
use crate::scenario::Candidate;
use baton_election::instant::Instant;
use baton_election::machine::Election;
use std::cmp::min;
use std::time::Duration;

/// How long a bad end delays later starts.
const FAILURE_MEMORY: Duration = Duration::from_mins(10);

/// One candidate and its machine.
#[derive(Debug)]
pub(super) struct Node<E: Election> {
    pub(super) process: Option<Process<E>>,
    pub(super) starts: u32,
    /// It is to be started as soon as it has stopped.
    pub(super) restarts_after_stop: bool,
    pub(super) failures: Vec<Instant>,
    pub(super) call: Option<Call>,
    pub(super) calls: u64,
    pub(super) timers: [Moment; Timer::COUNT],
    /// It stands still until the timer: what reaches it waits, and so does what it had in its hands.
    pub(super) is_paused: bool,
    pub(super) interrupted_input: Option<(Input<E>, Instant)>,
    pub(super) backlog: Vec<Input<E>>,
    /// By how much a process may stand still between reading its clock and acting on it, by which fault, and until when.
    pub(super) stalls: Vec<(usize, Duration, Moment)>,
    pub(super) link: Link,
}

/// FaultKind a node is woken for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Timer {
    /// It goes on after it stood still.
    Resume,
    /// Its process is started.
    Start,
    /// Its call took too long.
    CallTimeout,
    /// Its machine wants to be woken.
    Wake,
    /// Its application asks.
    Query,
}

impl Timer {
    pub(super) const ALL: [Self; 5] =
        [Self::Resume, Self::Start, Self::CallTimeout, Self::Wake, Self::Query];
    pub(super) const COUNT: usize = Self::ALL.len();
}

impl<E: Election> Node<E> {
    pub(super) fn new(candidate: &Candidate, link: Link) -> Self {
        let mut timers = [Moment::NEVER; Timer::COUNT];
        timers[Timer::Start as usize] = candidate.starts_at;
        let (process, call, interrupted_input) = (None, None, None);
        let (failures, backlog, stalls) = (Vec::new(), Vec::new(), Vec::new());
        let (starts, restarts_after_stop, calls, is_paused) = (0, false, 0, false);
        Self {
            process,
            starts,
            restarts_after_stop,
            failures,
            call,
            calls,
            timers,
            is_paused,
            interrupted_input,
            backlog,
            stalls,
            link,
        }
    }

    /// How long a process holds back after bad active_faults shortly before.
    pub(super) fn damping(&self, now: Instant, retry: Duration) -> Duration {
        let recent = self.failures.iter().filter(|end| now.since(**end) < FAILURE_MEMORY).count();
        match u32::try_from(recent) {
            Ok(0) => Duration::ZERO,
            Ok(recent) => retry.saturating_mul(1 << min(recent, 16)),
            Err(_) => Duration::MAX,
        }
    }
}
