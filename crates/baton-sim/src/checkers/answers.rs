//! The order of answers: polls, waiting requests, and the status file show the same changes.
//!
//! Pure. [`Answers`] is the checkers' account of the answers of one process. Start with
//! [`revision_counts_changes`]. Each function is one property.

use super::exclusion::name;
use super::state::CheckerState;
use crate::scenario::Push;
use crate::trace::{TraceContext, TraceEvent, Worker};
use baton_election::instant::Instant;
use baton_election::leadership::{Answer, Status};
use baton_election::machine::Election;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// The answers of one process so far.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Answers {
    push: Push,
    /// The revision of the last answer, and a hash of its role and leader.
    last: Option<(u64, u64)>,
    /// When the promise in the status file expires.
    file_until: Option<Instant>,
}

impl Answers {
    pub(super) fn of(push: Push) -> Self {
        Self { push, ..Self::default() }
    }

    /// The answers of the next process of the same candidate.
    pub(super) fn restarted(self) -> Self {
        Self::of(self.push)
    }

    /// A worker gets an answer, with a promise until `until` if it is "leading".
    pub(super) fn add(&mut self, worker: Worker, answer: &Answer, until: Option<Instant>) {
        self.last = Some((answer.revision, content(answer)));
        match worker {
            Worker::Named(_) | Worker::Anonymous | Worker::Waiting => {}
            Worker::FileReader => self.file_until = until,
        }
    }
}

/// The revision never decreases, and grows exactly with each change of the role or the leader. So a
/// client that waits for another revision misses no change, and is not woken without one.
pub(super) fn revision_counts_changes<E: Election>(
    state: &CheckerState,
    _: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::QueryAnswered(number, worker, answer, _) = event else { return None };
    let (revision, before) = state.candidates[*number].run.answers.last?;
    let is_changed = content(answer) != before;
    let agrees = match answer.revision.checked_sub(revision) {
        None => false,
        Some(0) => !is_changed,
        Some(1) => is_changed,
        // The answers between them are unknown.
        Some(_) => true,
    };
    (!agrees).then(|| {
        format!(
            "{} answers {worker:?} with {answer:?} after revision {revision}, changed: {is_changed}",
            name(*number)
        )
    })
}

/// The status file of a leader that is not suspended holds at least half of a promise.
pub(super) fn file_lasts_while_leading<E: Election>(
    state: &CheckerState,
    _: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::QueryAnswered(number, worker, answer, queried_at) = event else { return None };
    let candidate = &state.candidates[*number];
    let answers = &candidate.run.answers;
    let is_poll = matches!(worker, Worker::Named(_) | Worker::Anonymous);
    let leads = matches!(answer.status, Status::Leading(_));
    let has_led = answers.last.is_some_and(|(revision, _)| revision == answer.revision);
    let is_suspended = candidate.pauses > 0 || *queried_at <= candidate.paused_at;
    if !(answers.push.has_file && is_poll && leads && has_led) || is_suspended {
        return None;
    }
    let needed_until = *queried_at + candidate.timing.answer_validity() / 2;
    let lasts = answers.file_until.is_some_and(|until| until >= needed_until);
    (!lasts).then(|| {
        format!("{} leads at {queried_at:?}, but its file does not: {answers:?}", name(*number))
    })
}

/// A hash of the role and the leader, without the length of a promise.
fn content(answer: &Answer) -> u64 {
    let mut hasher = DefaultHasher::new();
    match &answer.status {
        Status::Leading(promise) => ("leading", promise.token).hash(&mut hasher),
        status @ (Status::Unknown | Status::Following { .. } | Status::Resigning) => {
            status.hash(&mut hasher);
        }
    }
    hasher.finish()
}
