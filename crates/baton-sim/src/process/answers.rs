//! The answers to the workers of an application: to a poll, to a request that waits, and in the
//! status file.
//!
//! Pure. Start with [`Listeners::poll`]. The rules are those of `src/http/leader.rs` and
//! `src/status_file.rs`, with two omissions. A wait never times out, and a write of the file neither
//! is slow nor fails: its promise is recorded before the write begins.

use super::Process;
use crate::scenario::Push;
use crate::trace::{TraceEvent, Worker};
use baton_election::instant::Instant;
use baton_election::leadership::{Answer, Leadership, Status};
use baton_election::machine::Election;
use std::time::Duration;

impl<E: Election> Process<E> {
    /// Answers a poll from the published claim, so the driver need not take a turn.
    pub(super) fn answer(
        &mut self,
        worker: Worker,
        now: Instant,
        emit: &mut impl FnMut(&TraceEvent<'_, E>),
    ) {
        let answer = self.leadership.promise(self.asker_names.name(worker), now);
        if let (Status::Leading(promise), Worker::Named(_)) = (&answer.status, worker) {
            self.promised_token = Some(promise.token);
        }
        emit(&TraceEvent::QueryAnswered(self.number, worker, &answer, now));
        // A poll may notice that a claim has become too short, but it is no turn of the driver.
        self.answer_listeners(false, now, emit);
    }

    /// Tells the waiting request and the status file what has changed. In a turn of the driver, a
    /// leader also writes its file again when that is due.
    pub(super) fn answer_listeners(
        &mut self,
        is_turn: bool,
        now: Instant,
        emit: &mut impl FnMut(&TraceEvent<'_, E>),
    ) {
        while let Some((worker, answer)) = self.listeners.poll(&mut self.leadership, is_turn, now) {
            emit(&TraceEvent::QueryAnswered(self.number, worker, &answer, now));
        }
    }
}

/// The listeners of one process, which hear of a change without a poll.
#[derive(Clone, Debug)]
pub(super) struct Listeners {
    /// The revision that the waiting request has seen; `None` without such a request.
    waiter: Option<u64>,
    file: Option<File>,
    answer_validity: Duration,
}

/// The status file.
#[derive(Clone, Debug)]
struct File {
    /// The revision that it shows.
    revision: u64,
    /// When a leader writes it again.
    is_due: Option<Instant>,
}

impl Listeners {
    /// The request and the file of `push`. Promises are good for `answer_validity`.
    pub(super) fn new(push: Push, answer_validity: Duration) -> Self {
        Self {
            waiter: push.has_waiter.then_some(0),
            file: push.has_file.then_some(File { revision: 0, is_due: None }),
            answer_validity,
        }
    }

    /// The next answer that a listener gets at `now`.
    pub(super) fn poll(
        &mut self,
        leadership: &mut Leadership,
        is_turn: bool,
        now: Instant,
    ) -> Option<(Worker, Answer)> {
        if let Some(seen) = &mut self.waiter
            && leadership.revision() != *seen
        {
            let answer = leadership.promise(None, now);
            *seen = answer.revision;
            return Some((Worker::Waiting, answer));
        }
        let file = self.file.as_mut()?;
        let is_due = is_turn && file.is_due.is_some_and(|due| due <= now);
        if !is_due && leadership.revision() == file.revision {
            return None;
        }
        let answer = leadership.promise_to_file(now);
        file.revision = answer.revision;
        file.is_due =
            matches!(answer.status, Status::Leading(_)).then_some(now + self.answer_validity / 4);
        Some((Worker::FileReader, answer))
    }

    /// When to poll again at the latest.
    pub(super) fn poll_timeout(&self, leadership: &Leadership) -> Option<Instant> {
        let has_any = self.waiter.is_some() || self.file.is_some();
        let changes_at = leadership.changes_at().filter(|_| has_any);
        self.file.as_ref().and_then(|file| file.is_due).into_iter().chain(changes_at).min()
    }
}
