//! One candidate of a world: its process, its link, its alarms, and its past ends.
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
const MEMORY: Duration = Duration::from_mins(10);

/// One candidate and its machine.
#[derive(Debug)]
pub(super) struct Node<E: Election> {
    pub(super) process: Option<Process<E>>,
    pub(super) starts: u32,
    /// It is to be started as soon as it has stopped.
    pub(super) returns: bool,
    pub(super) bad_ends: Vec<Instant>,
    pub(super) call: Option<Call>,
    pub(super) calls: u64,
    pub(super) alarms: [Moment; Alarm::COUNT],
    /// It stands still until the alarm: what reaches it waits, and so does what it had in its hands.
    pub(super) is_still: bool,
    pub(super) in_hand: Option<(Input<E>, Instant)>,
    pub(super) backlog: Vec<Input<E>>,
    /// By how much a process may stand still between reading its clock and acting on it, by which fault, and until when.
    pub(super) starved: Vec<(usize, Duration, Moment)>,
    pub(super) link: Link,
}

/// What a node is woken for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Alarm {
    /// It goes on after it stood still.
    GoOn,
    /// Its process is started.
    Start,
    /// Its call took too long.
    CallOver,
    /// Its machine wants to be woken.
    Wake,
    /// Its application asks.
    Ask,
}

impl Alarm {
    pub(super) const ALL: [Self; 5] =
        [Self::GoOn, Self::Start, Self::CallOver, Self::Wake, Self::Ask];
    pub(super) const COUNT: usize = Self::ALL.len();
}

impl<E: Election> Node<E> {
    pub(super) fn new(candidate: &Candidate, link: Link) -> Self {
        let mut alarms = [Moment::NEVER; Alarm::COUNT];
        alarms[Alarm::Start as usize] = candidate.starts;
        let (process, call, in_hand) = (None, None, None);
        let (bad_ends, backlog, starved) = (Vec::new(), Vec::new(), Vec::new());
        let (starts, returns, calls, is_still) = (0, false, 0, false);
        Self {
            process,
            starts,
            returns,
            bad_ends,
            call,
            calls,
            alarms,
            is_still,
            in_hand,
            backlog,
            starved,
            link,
        }
    }

    /// How long a process holds back after bad ends shortly before.
    pub(super) fn damping(&self, now: Instant, retry: Duration) -> Duration {
        let recent = self.bad_ends.iter().filter(|end| now.since(**end) < MEMORY).count();
        match u32::try_from(recent) {
            Ok(0) => Duration::ZERO,
            Ok(recent) => retry.saturating_mul(1 << min(recent, 16)),
            Err(_) => Duration::MAX,
        }
    }
}
