//! One candidate of a world: its process, link, timers, and recent failures.
//!
//! Pure. Start with [`Node`].

use super::guards::Guard;
use super::network::Call;
use super::timers::{Timer, Timers};
use crate::clock::Moment;
use crate::link::Link;
use crate::process::{Input, Process};
use crate::runner::ToGuard;
use crate::scenario::CandidateConfig;
use crate::trace::Worker;
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::machine::Election;
use std::cmp::min;
use std::time::Duration;

/// How long a failure delays later starts.
const FAILURE_MEMORY: Duration = Duration::from_mins(10);

/// One candidate and its machine.
#[derive(Clone, Debug)]
pub(super) struct Node<E: Election> {
    pub(super) process: Option<Process<E>>,
    pub(super) starts: u32,
    /// Whether it restarts as soon as it has stopped.
    pub(super) restarts_after_stop: bool,
    pub(super) failures: Vec<Instant>,
    /// The last run, if it ended without a release and the next run may release its record.
    pub(super) ended_run: Option<Identity>,
    pub(super) call: Option<Call>,
    pub(super) calls: u64,
    pub(super) timers: Timers,
    /// Whether the process is suspended. Until it resumes, inputs wait in `backlog`, and
    /// `interrupted_input` holds the one that it was about to handle, with the reading of its
    /// clock.
    pub(super) is_paused: bool,
    pub(super) interrupted_input: Option<(Input<E>, Instant)>,
    pub(super) backlog: Vec<Input<E>>,
    /// Faults that suspend the process between reading its clock and acting on it: index, longest
    /// pause, and end.
    pub(super) stalls: Vec<(usize, Duration, Moment)>,
    pub(super) link: Link,
    /// The guards that run, in the order of their starts, and when the last message of one arrives.
    pub(super) guards: Vec<Guard>,
    pub(super) last_from_guard: Moment,
    /// How often its application has polled, and how many pieces of work it has done.
    polls: u32,
    pub(super) pieces_of_work: u32,
}

impl<E: Election> Node<E> {
    pub(super) fn new(candidate: &CandidateConfig, link: Link) -> Self {
        let mut timers = Timers::default();
        timers.set(Timer::Start, candidate.starts_at);
        let (process, call, interrupted_input) = (None, None, None);
        let (failures, backlog, stalls) = (Vec::new(), Vec::new(), Vec::new());
        let (starts, restarts_after_stop, calls, is_paused) = (0, false, 0, false);
        Self {
            process,
            starts,
            restarts_after_stop,
            failures,
            ended_run: None,
            call,
            calls,
            timers,
            is_paused,
            interrupted_input,
            backlog,
            stalls,
            link,
            guards: Vec::new(),
            last_from_guard: Moment::START,
            polls: 0,
            pieces_of_work: 0,
        }
    }

    /// The next message of the process to its guard.
    pub(super) fn poll_message(&mut self) -> Option<ToGuard> {
        self.process.as_mut()?.poll_message()
    }

    /// The worker that polls next: the two take turns.
    pub(super) fn next_worker(&mut self) -> Worker {
        self.polls += 1;
        if self.polls.is_multiple_of(2) { self.named_worker() } else { Worker::Anonymous }
    }

    /// The named worker with its present piece of work.
    pub(super) const fn named_worker(&self) -> Worker {
        Worker::Named(self.pieces_of_work)
    }

    /// The named worker with its previous piece of work.
    pub(super) const fn previous_worker(&self) -> Worker {
        Worker::Named(self.pieces_of_work.saturating_sub(1))
    }

    /// How long a process waits before it campaigns, after its recent failures.
    pub(super) fn damping(&self, now: Instant, retry: Duration) -> Duration {
        let recent =
            self.failures.iter().filter(|failure| now.since(**failure) < FAILURE_MEMORY).count();
        match u32::try_from(recent) {
            Ok(0) => Duration::ZERO,
            Ok(recent) => retry.saturating_mul(1 << min(recent, 16)),
            Err(_) => Duration::MAX,
        }
    }
}
